/// Finds the first byte from which an HTTP/1.x connection can be counted when nobody listened at its beginning: a request begins there, and
/// nothing else is on its way.
///
/// Nothing that passes while nobody listens is looked at, so whether a body or an answer is under way can't be known. A request begins where the
/// side that asks speaks again after the other one has answered, and says a method first. That is as good as certain, and no proof: a body may
/// say the same. So what is found is on trial (``LateTrial``).
package struct LateJoin {
    /// Of RFC 9110 section 9.3 and RFC 5789. Not `CONNECT`: what follows is no HTTP.
    private static let methods: [StaticString] = [
        "GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "PATCH ", "OPTIONS ", "TRACE ",
    ]

    /// The side that answers has spoken last, and not to say that it waits (1xx).
    private var isTurn = false

    package init() {}

    package mutating func answered(_ bytes: Span<UInt8>) {
        self.isTurn = !bytes.begins(with: "HTTP/1.1 1")
    }

    /// The answering side sent bytes that nobody can look into: a file as a body.
    package mutating func answeredUnseen() { self.isTurn = true }

    /// Whether a request may begin with the next bytes of the side that asks.
    package var mayBegin: Bool { self.isTurn }

    /// - Returns: Whether a request begins with these bytes of the side that asks.
    package mutating func begins(with bytes: Span<UInt8>) -> Bool {
        defer { self.isTurn = false }
        return self.isTurn && Self.methods.contains { bytes.begins(with: $0) }
    }
}
