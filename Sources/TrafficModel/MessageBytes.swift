/// What HTTP messages took of a connection, in one direction. Bytes.
public struct MessageBytes: Sendable, Codable, Hashable {
    /// Request and status lines with their CRLFs (RFC 9112 sections 3 and 4).
    public var line: UInt64 = 0
    /// Fields with their CRLFs, blank lines, trailers.
    public var header: UInt64 = 0
    /// Of the header, `Cookie` and `Set-Cookie` fields.
    public var cookie: UInt64 = 0
    /// As on the wire, in its content coding.
    public var body: UInt64 = 0
    /// Chunk sizes, HTTP/2 frame headers (RFC 9112 section 7.1, RFC 9113 section 4.1).
    public var framing: UInt64 = 0
    /// TLS records beyond their plaintext. In no message: a connection's.
    public var tls: UInt64 = 0

    public init(
        line: UInt64 = 0,
        header: UInt64 = 0,
        cookie: UInt64 = 0,
        body: UInt64 = 0,
        framing: UInt64 = 0,
        tls: UInt64 = 0
    ) {
        self.line = line
        self.header = header
        self.cookie = cookie
        self.body = body
        self.framing = framing
        self.tls = tls
    }

    /// What HTTP calls the messages.
    public var message: UInt64 { self.line &+ self.header &+ self.body &+ self.framing }

    /// What they took of the socket.
    public var total: UInt64 { self.message &+ self.tls }

    /// Wrapping: the numbers are a cooperating program's, and a hostile one may send any.
    public static func += (left: inout MessageBytes, right: MessageBytes) {
        left.line &+= right.line
        left.header &+= right.header
        left.cookie &+= right.cookie
        left.body &+= right.body
        left.framing &+= right.framing
        left.tls &+= right.tls
    }

    public static func -= (left: inout MessageBytes, right: MessageBytes) {
        left.line &-= right.line
        left.header &-= right.header
        left.cookie &-= right.cookie
        left.body &-= right.body
        left.framing &-= right.framing
        left.tls &-= right.tls
    }

    package enum CodingKeys: String, CodingKey {
        case line = "line_bytes"
        case header = "header_bytes"
        case cookie = "cookie_bytes"
        case body = "body_bytes"
        case framing = "framing_bytes"
        case tls = "tls_bytes"
    }

    /// Written beside the stored ones.
    package enum SumKeys: String, CodingKey {
        case message = "message_bytes"
    }
}
