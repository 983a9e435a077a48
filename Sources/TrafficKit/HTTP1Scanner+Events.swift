extension HTTP1Scanner {
    package enum Kind: Sendable {
        case request, response
    }

    /// Bytes of one message by their kind. Their sum is all bytes of the message on the stream.
    package struct Lengths: Hashable, Sendable {
        package var line: UInt64 = 0
        package var header: UInt64 = 0
        /// Part of `header`.
        package var cookie: UInt64 = 0
        package var body: UInt64 = 0
        package var framing: UInt64 = 0

        package var total: UInt64 { self.line + self.header + self.body + self.framing }

        package init(line: UInt64 = 0, header: UInt64 = 0, cookie: UInt64 = 0, body: UInt64 = 0, framing: UInt64 = 0) {
            (self.line, self.header, self.cookie) = (line, header, cookie)
            (self.body, self.framing) = (body, framing)
        }
    }

    /// What happens to the stream.
    package enum Input: ~Escapable {
        case bytes(Span<UInt8>)
        /// Bytes of a body that the library could not read: a file. If they are not all of the current body, the
        /// scanner refuses the rest, because it cannot tell what these bytes are.
        case unseen(UInt64)
        /// - Parameter isClean: The stream ended without an error. An error is not the end of a body (RFC 9112 section
        ///   8).
        case end(isClean: Bool)
        /// The rest of the stream is not HTTP any more, because the other side has switched protocols.
        case switched
    }

    /// What the input means, in the order of the bytes. The scanner's ``position`` is where it happens.
    package enum Event: Hashable {
        /// A byte of a line end between messages, which belongs to no message (RFC 9112 section 2.2).
        case lineEnd
        /// The first byte of a message is at this position of the stream.
        case began(at: UInt64)
        /// The blank line has passed: the scanner has the ``head`` and the ``request``. This also happens for an
        /// interim response (1xx), whose bytes are part of the response that follows.
        case head
        case ended(Lengths, isComplete: Bool)
        /// No reader takes the bytes from here on as a message: they are another protocol, not HTTP, or after the last
        /// message.
        case opaque
    }
}
