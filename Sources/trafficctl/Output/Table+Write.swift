import TrafficView

extension Table {
    /// On a terminal aligned to its width, elsewhere with tabs and exact numbers.
    ///
    /// - Parameter hint: What a person is told instead of a table without rows.
    func write(units: Units, inColor: Bool, ifEmpty hint: String? = nil) throws {
        let output = StandardStream.output
        let typeface = TerminalLocale.typeface(ascii: false)
        guard output.isTerminal else { return try output.write(self.tabSeparated(typeface: typeface)) }
        if let hint, self.rows.isEmpty { return try output.write(hint + "\n") }
        try output.write(self.frame(width: output.columns ?? 80, typeface: typeface, units: units), inColor: inColor)
    }
}
