extension String {
    /// Without characters that end a line, change a terminal's state or reorder the line, which files and names of programs
    /// may have.
    package var printable: String {
        String(
            String.UnicodeScalarView(
                self.unicodeScalars.map {
                    $0.properties.generalCategory == .control || $0.isBidirectionalControl ? "\u{fffd}" : $0
                }
            )
        )
    }
}

extension Unicode.Scalar {
    /// Whether it changes the order in which what follows is shown: a name with it can look like another one (Unicode's
    /// property Bidi_Control, UAX 9).
    package var isBidirectionalControl: Bool {
        switch self {
        case "\u{61c}", "\u{200e}", "\u{200f}", "\u{202a}"..."\u{202e}", "\u{2066}"..."\u{2069}": true
        default: false
        }
    }
}
