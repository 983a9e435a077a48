import TrafficView

extension Table {
    /// Writes the table with aligned columns, to the width of the terminal. Elsewhere the width is `COLUMNS`, or
    /// unlimited.
    ///
    /// - Parameter hint: What the terminal shows instead of a table without rows.
    func write(units: Units, color: ColorOptions, ifEmpty hint: String? = nil) throws {
        let output = StandardStream.output
        if let hint, self.rows.isEmpty, output.isTerminal { return try output.write(hint + "\n") }
        let width = output.columns ?? environment("COLUMNS").flatMap { Int($0) }
        let typeface = TerminalLocale.typeface(ascii: false)
        try output.write(self.frame(width: width, typeface: typeface, units: units), color: color)
    }
}
