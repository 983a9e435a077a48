/// Rows of text and numbers, printed at once, for people. Programs read the formats of TrafficExport.
public struct Table: Sendable {
    public enum Cell: Sendable, Hashable {
        case text(String)
        case count(Int)
        case bytes(UInt64)
        /// Bytes per second.
        case rate(Double)
        case microseconds(UInt64)
        /// A number that is neither bytes nor time, shown with `places` digits after the point.
        case number(Double, places: Int)
        /// A bar: a part of the longest one, from 0 to 1.
        case share(Double)
        /// Not known.
        case none
    }

    public struct Column: Sendable {
        public var title: String
        /// The least width at which a cut text still makes sense. `nil` for a column that is never cut.
        public var leastWidth: Int?
        /// Where cutting is not enough, columns are left out, the lowest rank first. `nil` for a column that stays.
        public var rank: Int?

        init(_ title: String, cutTo leastWidth: Int? = nil, rank: Int? = nil) {
            self.title = title
            self.leastWidth = leastWidth
            self.rank = rank
        }
    }

    public var columns: [Column]
    public var rows: [[Cell]]
    /// Whether the columns' titles come first.
    public var hasTitles = true

    init(columns: [Column], rows: [[Cell]]) {
        (self.columns, self.rows) = (columns, rows)
    }

    /// Aligns the columns. Columns that may be cut are cut, the widest first, until a line fits `width`.
    ///
    /// - Parameter width: In cells; `nil` for no limit.
    public func frame(width: Int?, typeface: Typeface, units: Units) -> Frame {
        let cells = self.rows.map { row in row.map { Self.readable($0, typeface, units) } }
        var widths = self.columns.indices.map { column in
            cells.reduce(typeface.columns(of: self.columns[column].title)) {
                max($0, typeface.columns(of: $1[column]))
            }
        }
        let least = zip(self.columns, widths).map { min($0.leastWidth ?? .max, $1) }
        let width = width ?? .max
        if least.reduce(0, +) + 2 * (least.count - 1) > width, let narrower = self.withoutLowestRank {
            return narrower.frame(width: width, typeface: typeface, units: units)
        }
        self.narrow(&widths, to: width)
        let isNumber = self.columns.indices.map(self.isNumber)
        func row(_ cells: [String], _ role: Style.Role) -> Frame.Row {
            var text = ""
            for (column, cell) in cells.enumerated() {
                text += (column == 0 ? "" : "  ")
                text += typeface.fitted(cell, to: widths[column], isNumber[column] ? .right : .left)
            }
            return Frame.Row([Frame.Span(text, Style(role))])
        }
        let titles = self.hasTitles ? [row(self.columns.map(\.title), .title)] : []
        return Frame(rows: titles + cells.map { row($0, .plain) })
    }

    private var withoutLowestRank: Table? {
        let ranked = self.columns.indices.filter { self.columns[$0].rank != nil }
        guard let lowest = ranked.min(by: { (self.columns[$0].rank ?? 0) < (self.columns[$1].rank ?? 0) }) else {
            return nil
        }
        var table = self
        table.columns.remove(at: lowest)
        for row in table.rows.indices { table.rows[row].remove(at: lowest) }
        return table
    }

    private func narrow(_ widths: inout [Int], to width: Int) {
        var excess = widths.reduce(0, +) + 2 * (widths.count - 1) - width
        while excess > 0 {
            let candidates = self.columns.indices.filter { widths[$0] > self.columns[$0].leastWidth ?? .max }
            guard let widest = candidates.max(by: { widths[$0] < widths[$1] }) else { return }
            widths[widest] -= 1
            excess -= 1
        }
    }

    private func isNumber(_ column: Int) -> Bool {
        for row in self.rows {
            switch row[column] {
            case .text, .share: return false
            case .count, .bytes, .rate, .microseconds, .number: return true
            case .none: continue
            }
        }
        return false
    }

    private static let barColumns = 16

    private static func readable(_ cell: Cell, _ typeface: Typeface, _ units: Units) -> String {
        switch cell {
        case .text(let text): typeface.printable(text, limit: 400)
        case .count(let count): String(count)
        case .bytes(let bytes): units.amount(bytes)
        case .rate(let rate): units.amount(rate)
        case .microseconds(let time): TimeText.roundTrip(microseconds: time)
        case .number(let number, let places):
            Units.fixed(number.isFinite ? min(max(0, number), 1e12) : 0, decimals: places)
        case .share(let share): typeface.bar(share, columns: Self.barColumns)
        case .none: "-"
        }
    }
}
