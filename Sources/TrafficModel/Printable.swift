extension String {
    /// Without characters that end a line or change a terminal's state, which files and names of programs may have.
    package var printable: String {
        String(
            String.UnicodeScalarView(
                self.unicodeScalars.map { $0.properties.generalCategory == .control ? "\u{fffd}" : $0 }
            )
        )
    }
}
