/// The rows of any number of runs as a Markdown table: a line for each scenario, a column for each kernel and method.
public struct AccuracyTable {
    private struct Column: Hashable {
        var kernel: String
        var method: String
        var variant: String

        init(_ row: AccuracyRow) {
            self.kernel = row.kernel
            self.method = row.method
            self.variant = row.variant
        }

        var title: String {
            "\(self.kernel)<br>`\(self.method)`" + (self.variant.isEmpty ? "" : "<br>\(self.variant)")
        }
    }

    private let rows: [AccuracyRow]
    private var footnotes: [String] = []

    public init(_ rows: [AccuracyRow]) {
        self.rows = rows
    }

    /// Markdown, with its footnotes.
    public var markdown: String {
        var copy = self
        return copy.write()
    }

    private mutating func write() -> String {
        let columns = Self.distinct(self.rows.map(Column.init))
        let scenarios = Self.distinct(self.rows.map(\.scenario).filter { $0 != "-" })
        var cells: [Column: [String: AccuracyRow]] = [:]
        for row in self.rows { cells[Column(row), default: [:]][row.scenario] = row }

        var lines = [
            "Difference in bytes, payload / wire; `-`: not counted there.",
            "",
            "| scenario | \(columns.map(\.title).joined(separator: " | ")) |",
            "|---|" + String(repeating: "---|", count: columns.count),
        ]
        for scenario in scenarios {
            let texts = columns.map { column in self.text(cells[column] ?? [:], scenario) }
            lines.append("| \(scenario) | \(texts.joined(separator: " | ")) |")
        }
        if scenarios.isEmpty {
            let texts = columns.map { column in self.text(cells[column] ?? [:], "-") }
            lines.append("| none | \(texts.joined(separator: " | ")) |")
        }
        let moved = columns.map { column in Self.sum(self.rows.filter { Column($0) == column }) }
        lines.append("| bytes compared | \(moved.joined(separator: " | ")) |")
        if !self.footnotes.isEmpty { lines.append("") }
        for (number, text) in self.footnotes.enumerated() { lines.append("[^\(number + 1)]: \(text)") }
        return lines.joined(separator: "\n") + "\n"
    }

    private static func distinct<Element: Hashable>(_ elements: [Element]) -> [Element] {
        var seen: Set<Element> = []
        return elements.filter { seen.insert($0).inserted }
    }

    private static func sum(_ rows: [AccuracyRow]) -> String {
        let payload = rows.compactMap(\.payloadBytes)
        let wire = rows.filter { $0.wireDifference != nil }.compactMap(\.wireBytes)
        return [payload, wire].map { $0.isEmpty ? "-" : String($0.reduce(0, +)) }.joined(separator: " / ")
    }

    // MARK: Cells

    private mutating func text(_ column: [String: AccuracyRow], _ scenario: String) -> String {
        if let general = column["-"] {
            // The row is about the whole method, or about the whole run.
            guard general.status == .notOffered else { return "failed" + self.footnote(general.details) }
            return "not offered by this kernel"
        }
        guard let row = column[scenario] else { return "not run" }
        let numbers = "\(Self.number(row.payloadDifference)) / \(Self.number(row.wireDifference))"
        switch row.status {
        case .exact:
            return numbers + (row.path == "loopback" ? self.footnote("on loopback, within one namespace") : "")
        case .different: return "**\(numbers)**" + self.footnote(row.details)
        case .skipped: return "skipped" + self.footnote(row.details)
        case .failed, .notOffered: return "failed" + self.footnote(row.details)
        }
    }

    private static func number(_ bytes: UInt64?) -> String {
        bytes.map(String.init) ?? "-"
    }

    /// Equal texts share a footnote.
    private mutating func footnote(_ text: String) -> String {
        if let index = self.footnotes.firstIndex(of: text) { return "[^\(index + 1)]" }
        self.footnotes.append(text)
        return "[^\(self.footnotes.count)]"
    }
}
