/// What may come behind a chunk's size (RFC 9112 section 7.1.1): `;name` and `;name=value`, without quoted values and white space, which
/// nobody sends and parsers disagree on.
enum HTTP1ChunkExtension: Hashable {
    /// Behind the semicolon, or the equals sign: a token has to come.
    case start, valueStart
    case name, value

    var mayEnd: Bool { self == .name || self == .value }

    /// - Returns: `nil`: this can't come.
    func next(_ byte: UInt8) -> Self? {
        switch (self, byte) {
        case (.name, UInt8(ascii: "=")): .valueStart
        case (.name, UInt8(ascii: ";")), (.value, UInt8(ascii: ";")): .start
        case (.start, _), (.name, _): byte.isTokenCharacter ? .name : nil
        case (.valueStart, _), (.value, _): byte.isTokenCharacter ? .value : nil
        }
    }
}
