/// Rows of text and numbers to print at once.
public struct Table: Sendable {
    public enum Cell: Sendable, Hashable {
        case text(String)
        case count(Int)
        case bytes(UInt64)
        /// Bytes per second.
        case rate(Double)
        case microseconds(UInt64)
        /// Neither bytes nor time, shown with so many places after the point.
        case number(Double, places: Int)
        /// Not known.
        case none
    }

    public struct Column: Sendable {
        public var title: String
        /// What the title is where numbers are exact and lines are for programs.
        public var name: String
        /// The least width at which cutting text off still leaves sense; `nil` for a column that is never cut.
        public var leastWidth: Int?
        /// Where cutting is not enough, columns are left out, the lowest rank first; `nil` for one that stays.
        public var rank: Int?

        init(_ title: String, _ name: String, cutTo leastWidth: Int? = nil, rank: Int? = nil) {
            self.title = title
            self.name = name
            self.leastWidth = leastWidth
            self.rank = rank
        }
    }

    public var columns: [Column]
    public var rows: [[Cell]]

    /// Lines with a tab between cells and numbers in full, with the columns' names in the first line.
    ///
    /// A tab or newline in a name comes out as `\t`, `\n`: a row is one line, whatever a process calls itself.
    public func tabSeparated(typeface: Typeface) -> String {
        var text = self.columns.map(\.name).joined(separator: "\t") + "\n"
        for row in self.rows {
            text += row.map { Self.exact($0, typeface) }.joined(separator: "\t") + "\n"
        }
        return text
    }

    private static func exact(_ cell: Cell, _ typeface: Typeface) -> String {
        switch cell {
        case .text(let text): typeface.printable(text)
        case .count(let count): String(count)
        case .bytes(let bytes), .microseconds(let bytes): String(bytes)
        case .rate(let rate): String(Int(rate.isFinite ? min(max(0, rate), 9e18) : 0))
        case .number(let number, _): String(number)
        case .none: ""
        }
    }

    /// Aligned columns for people. Columns that may be cut are cut, the widest first, until a line fits `width`.
    public func frame(width: Int, typeface: Typeface, units: Units) -> Frame {
        let cells = self.rows.map { row in row.map { Self.readable($0, typeface, units) } }
        var widths = self.columns.indices.map { column in
            cells.reduce(typeface.columns(of: self.columns[column].title)) {
                max($0, typeface.columns(of: $1[column]))
            }
        }
        let least = zip(self.columns, widths).map { min($0.leastWidth ?? .max, $1) }
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
        return Frame(rows: [row(self.columns.map(\.title), .title)] + cells.map { row($0, .plain) })
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
            case .text: return false
            case .count, .bytes, .rate, .microseconds, .number: return true
            case .none: continue
            }
        }
        return false
    }

    private static func readable(_ cell: Cell, _ typeface: Typeface, _ units: Units) -> String {
        switch cell {
        case .text(let text): typeface.printable(text, limit: 400)
        case .count(let count): String(count)
        case .bytes(let bytes): units.amount(bytes)
        case .rate(let rate): units.amount(rate)
        case .microseconds(let time): TimeText.roundTrip(microseconds: time)
        case .number(let number, let places):
            Units.fixed(number.isFinite ? min(max(0, number), 1e12) : 0, decimals: places)
        case .none: "-"
        }
    }
}
