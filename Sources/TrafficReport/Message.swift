extension Report {
    /// A request or a response, in the direction in which it went.
    ///
    /// `line + header + body + framing` are the bytes of the message as HTTP counts them; with `tls` they are the `bytes` that it took of
    /// the socket.
    public struct Message: NamedRecord, Hashable, Sendable {
        /// Of the exchange, unique in the process and never 0.
        public var exchange: UInt64
        /// The exchange that the first hop of a redirect chain was; 0: there is no chain.
        public var chain: UInt64 = 0
        /// The kernel's cookie of the socket (`SO_COOKIE`); 0: unknown.
        public var cookie: UInt64 = 0
        /// Where in the socket's byte stream of this direction it lies, since the socket was opened.
        public var interval: Interval = .init()
        /// First byte, `CLOCK_BOOTTIME`, nanoseconds.
        public var startedAt: UInt64 = 0
        /// Last byte.
        public var finishedAt: UInt64 = 0
        /// As it is on the wire, encoded, without chunk framing.
        public var bodyBytes: UInt64 = 0
        /// After its content coding was undone; equal to `bodyBytes` without one. `nil`: nobody decoded it.
        public var decodedBodyBytes: UInt64?
        /// `Content-Length`.
        public var declaredBodyBytes: UInt64?
        /// Chunk sizes, HTTP/2 frame headers and padding (RFC 9112 section 7.1, RFC 9113 section 4.1).
        public var framingBytes: UInt64 = 0
        /// TLS records beyond their plaintext.
        public var tlsBytes: UInt64 = 0
        /// Request or status line with its CRLF.
        public var lineBytes: UInt32 = 0
        /// Fields with their CRLFs, and the blank line; trailers too.
        public var headerBytes: UInt32 = 0
        /// Of these, `Cookie` and `Set-Cookie` fields.
        public var cookieBytes: UInt32 = 0
        /// Of a response; 0 otherwise.
        public var status: UInt16 = 0
        /// Redirects before this exchange in its chain.
        public var hop: UInt16 = 0
        public var role: Role = .unknown
        public var version: HTTPVersion = .unknown
        public var quality: Quality = .unknown
        public var contentClass: ContentClass = .unknown
        /// It was cut off: there should be more.
        public var isIncomplete = false
        /// Of its exchange.
        public var name: Name

        public init(exchange: UInt64, name: Name = .none) {
            (self.exchange, self.name) = (exchange, name)
        }

        /// What HTTP calls the message.
        public var messageBytes: UInt64 {
            UInt64(self.lineBytes) &+ UInt64(self.headerBytes) &+ self.bodyBytes &+ self.framingBytes
        }
    }

    /// `[from, to)` of a byte stream, of which a message took `bytes`: all of it, unless messages interleave (HTTP/2).
    public struct Interval: Hashable, Sendable {
        public var from: UInt64
        public var to: UInt64
        public var bytes: UInt64

        public init(from: UInt64 = 0, to: UInt64 = 0) {
            self.init(from: from, to: to, bytes: to >= from ? to - from : 0)
        }

        public init(from: UInt64, to: UInt64, bytes: UInt64) {
            self.from = from
            self.to = to
            self.bytes = bytes
        }

        /// Nobody knows where.
        public var isEmpty: Bool { self.bytes == 0 }

        public var isPossible: Bool { self.from <= self.to && self.bytes <= self.to - self.from }
    }

    /// The end of an exchange.
    public struct Outcome: NamedRecord, Hashable, Sendable {
        public var exchange: UInt64
        public var chain: UInt64 = 0
        /// First byte of the request, or, of a library that does not see its sockets, when it began to make a connection;
        /// `CLOCK_BOOTTIME`, nanoseconds.
        public var startedAt: UInt64 = 0
        /// From there to the last byte of the response; nanoseconds.
        public var duration: UInt64 = 0
        public var phases = Phases()
        /// When the TLS handshake of a client's connection was over, in the outcome of the connection's first exchange; `CLOCK_BOOTTIME`,
        /// nanoseconds. 0: it was not the first, there is no TLS, or nobody knows.
        ///
        /// The daemon knows when the connection was established, and makes the phases `connect` and `tls` of the two.
        public var tlsEndedAt: UInt64 = 0
        /// It is the first one of its connection, as its sender knows who was there from the beginning. `false`: it is not, or nobody knows.
        ///
        /// A request that begins at the socket's first byte is known for the first one without this; of HTTP/2 none does, which begins with
        /// a preface.
        public var isFirst = false
        public var role: Role = .unknown
        public var ending: Ending = .unknown
        /// Of the last response; 0 without one.
        public var status: UInt16 = 0
        /// Of its exchange.
        public var name: Name

        public init(exchange: UInt64, name: Name = .none) {
            (self.exchange, self.name) = (exchange, name)
        }
    }

    /// Microseconds. `nil`: there was no such phase, as of a connection that is used again, or the library did not see it. What it does
    /// not tell of `connect` and `tls` the daemon finds out of the kernel and ``Outcome/tlsEndedAt``.
    public struct Phases: Hashable, Sendable {
        public var dns: UInt32?
        public var connect: UInt32?
        public var tls: UInt32?
        public var send: UInt32?
        public var wait: UInt32?
        public var receive: UInt32?

        public init() {}
    }

    /// What a connection moved that is no message's.
    public struct Connection: Hashable, Sendable {
        public var cookie: UInt64
        public var sent = Remainder()
        public var received = Remainder()
        public var role: Role = .unknown
        /// The library's own, which is nobody's API.
        public var isOwn = false

        public init(cookie: UInt64) {
            self.cookie = cookie
        }

        /// Bytes of one direction, cumulative.
        public struct Remainder: Hashable, Sendable {
            /// The TLS handshake, tickets, alerts.
            public var tls: UInt64 = 0
            /// HTTP/2 frames of the connection itself (RFC 9113 sections 3.4, 6.5, 6.7, 6.9).
            public var framing: UInt64 = 0
            /// After an upgrade: nobody looks into it.
            public var opaque: UInt64 = 0
            /// Messages that the app's own filter keeps out of the reports.
            public var excluded: UInt64 = 0

            public init() {}
        }
    }
}
