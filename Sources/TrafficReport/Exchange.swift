extension Report {
    /// A request, its response and how both ended: all of it, or the parts that no earlier record of the exchange told.
    ///
    /// An exchange that ended in time is one record. A request whose exchange stays open goes ahead in a record of its
    /// own, so that a reader sees it early. Each part is told once: the later record has only the other parts.
    public struct Exchange: Hashable, Sendable, Codable {
        /// Unique in the process and never 0. All records of an exchange have the same number.
        public var number: UInt64
        /// The number of the first exchange in the chain of redirects; 0: there is no chain.
        public var chain: UInt64 = 0
        /// The kernel's cookie of the socket (`SO_COOKIE`); 0: unknown.
        public var cookie: UInt64 = 0
        /// When the request's first byte passed. For a library that does not see its sockets: when it began to make a
        /// connection. `CLOCK_BOOTTIME`, nanoseconds.
        public var startedAt: UInt64 = 0
        /// Number of redirects before this exchange in its chain.
        public var hop: UInt16 = 0
        public var role: Role = .unknown
        /// The endpoint. All records of an exchange have the same name.
        public var name: Name
        /// What a client sent or a server received.
        public var request: Message?
        /// What passed in the opposite direction, with its interim responses (1xx). It may never come.
        public var response: Message?
        /// How the exchange ended. A failure before there was a connection has no other part.
        public var outcome: Outcome?

        public init(number: UInt64, name: Name = .none) {
            (self.number, self.name) = (number, name)
        }

        /// Whether the record tells anything. A record without parts is not written.
        public var hasParts: Bool { self.request != nil || self.response != nil || self.outcome != nil }

        /// The record ends the exchange.
        public var isOver: Bool { self.outcome != nil }

        /// Takes over the parts of a later record of the same exchange. A part that is here already stays.
        public mutating func merge(_ later: borrowing Exchange) {
            if self.request == nil { self.request = later.request }
            if self.response == nil { self.response = later.response }
            if self.outcome == nil { self.outcome = later.outcome }
            if self.chain == 0 { self.chain = later.chain }
            if self.cookie == 0 { self.cookie = later.cookie }
            self.hop = max(self.hop, later.hop)
            self.startedAt = min(self.startedAt, later.startedAt)
        }
    }
}

extension Report.Exchange {
    /// A request or a response.
    ///
    /// `line + header + body + framing` are the message's bytes as HTTP counts them. With `tls` they are the `bytes`
    /// that the message took of the socket.
    public struct Message: Hashable, Sendable, Codable {
        /// Where the message lies in the socket's byte stream of its direction. Position 0 is where the socket was
        /// opened.
        public var interval = Report.Interval()
        /// When the first byte passed; `CLOCK_BOOTTIME`, nanoseconds.
        public var startedAt: UInt64 = 0
        /// When the last byte passed; `CLOCK_BOOTTIME`, nanoseconds.
        public var finishedAt: UInt64 = 0
        /// Bytes of the body as encoded on the wire, without chunk framing.
        public var bodyBytes: UInt64 = 0
        /// Bytes of the body after its content coding was undone; equal to `bodyBytes` without a coding. `nil`:
        /// unknown.
        public var decodedBodyBytes: UInt64?
        /// `Content-Length`.
        public var declaredBodyBytes: UInt64?
        /// Chunk sizes, HTTP/2 frame headers and padding (RFC 9112 section 7.1, RFC 9113 section 4.1).
        public var framingBytes: UInt64 = 0
        /// Bytes that TLS records add to their plaintext.
        public var tlsBytes: UInt64 = 0
        /// Request or status line with its CRLF.
        public var lineBytes: UInt32 = 0
        /// Fields with their CRLFs, and the blank line; also trailers.
        public var headerBytes: UInt32 = 0
        /// The part of `headerBytes` for `Cookie` and `Set-Cookie` fields.
        public var cookieBytes: UInt32 = 0
        /// The status of a response; 0 for a request.
        public var status: UInt16 = 0
        public var version: Report.HTTPVersion = .unknown
        public var quality: Report.Quality = .unknown
        public var contentClass: Report.ContentClass = .unknown
        /// The message was cut off.
        public var isIncomplete = false

        public init() {}

        /// Bytes of the message as HTTP counts them. Wraps, because a datagram may have any numbers.
        public var messageBytes: UInt64 {
            UInt64(self.lineBytes) &+ UInt64(self.headerBytes) &+ self.bodyBytes &+ self.framingBytes
        }

        /// Bytes that the message took of the socket. Wraps.
        public var socketBytes: UInt64 { self.messageBytes &+ self.tlsBytes }
    }

    /// The end of an exchange.
    public struct Outcome: Hashable, Sendable, Codable {
        /// From ``Report/Exchange/startedAt`` to the last byte of the response; nanoseconds.
        public var duration: UInt64 = 0
        public var phases = Report.Phases()
        /// When the TLS handshake of a client's connection ended, in the outcome of the connection's first exchange;
        /// `CLOCK_BOOTTIME`, nanoseconds. 0: this is not the first exchange, there is no TLS, or the time is unknown.
        ///
        /// The daemon knows when the connection was established, and computes the phases `connect` and `tls` from both
        /// times.
        public var tlsEndedAt: UInt64 = 0
        /// The exchange is the first on its connection: the sender has seen the connection from its beginning. `false`:
        /// it is not the first, or this is unknown.
        ///
        /// Without this flag, the daemon takes a request that begins at the socket's first byte as the first. With
        /// HTTP/2 no request begins there, because the connection begins with a preface.
        public var isFirst = false
        public var ending: Report.Ending = .unknown
        /// The status of the last response; 0 without a response.
        public var status: UInt16 = 0

        public init() {}
    }
}
