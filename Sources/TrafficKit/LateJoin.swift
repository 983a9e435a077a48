/// Finds the byte from which an HTTP/1.x connection can be counted if there was no listener at its beginning. A request
/// begins at that byte, and no other message is under way.
///
/// The library does not look at bytes that pass without a listener, so it cannot know whether a body or an answer is
/// under way. A request begins where the client sends again after the server has answered, and its bytes start with a
/// method. This is nearly certain but no proof, because a body may look the same. So the connection is on trial
/// (``LateTrial``).
package struct LateJoin {
    /// Methods of RFC 9110 section 9.3 and RFC 5789. `CONNECT` is missing, because the bytes after it are not HTTP.
    private static let methods: [StaticString] = [
        "GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "PATCH ", "OPTIONS ", "TRACE ",
    ]

    /// The server has sent last, and it was not an interim response (1xx).
    private var isTurn = false

    package init() {}

    package mutating func answered(_ bytes: Span<UInt8>) {
        self.isTurn = !bytes.begins(with: "HTTP/1.1 1")
    }

    /// The server sent bytes that the library cannot read: a file as a body.
    package mutating func answeredUnseen() { self.isTurn = true }

    /// Whether a request may begin with the client's next bytes.
    package var mayBegin: Bool { self.isTurn }

    /// - Returns: Whether a request begins with these bytes of the client.
    package mutating func begins(with bytes: Span<UInt8>) -> Bool {
        defer { self.isTurn = false }
        return self.isTurn && Self.methods.contains { bytes.begins(with: $0) }
    }
}
