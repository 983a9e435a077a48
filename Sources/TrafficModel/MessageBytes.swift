/// The bytes that HTTP messages took of a connection, in one direction.
public struct MessageBytes: Sendable, Codable, Hashable {
    /// Request and status lines with their CRLFs (RFC 9112 sections 3 and 4).
    public var line: UInt64 = 0
    /// Fields with their CRLFs, blank lines, trailers.
    public var header: UInt64 = 0
    /// The part of the header that is `Cookie` and `Set-Cookie` fields.
    public var cookie: UInt64 = 0
    /// As on the wire, with its content coding.
    public var body: UInt64 = 0
    /// Chunk sizes, HTTP/2 frame headers (RFC 9112 section 7.1, RFC 9113 section 4.1).
    public var framing: UInt64 = 0
    /// Bytes of TLS records beyond their plaintext. They belong to the connection, and to no message.
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

    /// The bytes of the messages, as HTTP defines messages.
    public var message: UInt64 { self.line &+ self.header &+ self.body &+ self.framing }

    /// The bytes that the messages took of the socket.
    public var total: UInt64 { self.message &+ self.tls }

    /// Wraps, because the numbers come from a cooperating program, and a hostile program may send any number.
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

    /// Written beside the stored fields.
    package enum SumKeys: String, CodingKey {
        case message = "message_bytes"
    }
}
