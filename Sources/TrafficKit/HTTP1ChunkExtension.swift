/// The extensions after a chunk's size (RFC 9112 section 7.1.1): `;name` and `;name=value`. Quoted values and white
/// space are refused: clients do not send them, and parsers disagree on them.
enum HTTP1ChunkExtension: Hashable {
    /// After the semicolon or the equals sign: a token must come.
    case start, valueStart
    case name, value

    var mayEnd: Bool { self == .name || self == .value }

    /// - Returns: `nil`: this byte is not allowed here.
    func next(_ byte: UInt8) -> Self? {
        switch (self, byte) {
        case (.name, UInt8(ascii: "=")): .valueStart
        case (.name, UInt8(ascii: ";")), (.value, UInt8(ascii: ";")): .start
        case (.start, _), (.name, _): byte.isTokenCharacter ? .name : nil
        case (.valueStart, _), (.value, _): byte.isTokenCharacter ? .value : nil
        }
    }
}
