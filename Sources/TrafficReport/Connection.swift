extension Report {
    /// The bytes of a connection that belong to no message.
    public struct Connection: Hashable, Sendable, Codable {
        public var cookie: UInt64
        public var sent = Remainder()
        public var received = Remainder()
        public var role: Role = .unknown
        /// The connection is the library's own and belongs to no endpoint.
        public var isOwn = false

        public init(cookie: UInt64) {
            self.cookie = cookie
        }

        /// Bytes of one direction, cumulative.
        public struct Remainder: Hashable, Sendable, Codable {
            /// TLS handshake, tickets, alerts.
            public var tls: UInt64 = 0
            /// HTTP/2: frames of no message: those of the connection itself (RFC 9113 sections 3.4, 6.5, 6.7, 6.9), pushed
            /// responses, and what comes after the end of a message. HTTP/1.x: bytes that belong to no exchange, such as
            /// line ends between messages.
            public var framing: UInt64 = 0
            /// Bytes that the library does not read as HTTP: after an upgrade, or after a message that it refused.
            public var opaque: UInt64 = 0
            /// Messages that the app's own filter keeps out of the reports.
            public var excluded: UInt64 = 0

            public init() {}
        }
    }
}
