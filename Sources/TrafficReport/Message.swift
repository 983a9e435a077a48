extension Report {
    /// A request or a response.
    ///
    /// `line + header + body + framing` are the message's bytes as HTTP counts them. With `tls` they are the `bytes`
    /// that the message took of the socket.
    public struct Message: NamedRecord, Hashable, Sendable {
        /// The number of the exchange, unique in the process and never 0.
        public var exchange: UInt64
        /// The number of the first exchange in the chain of redirects; 0: there is no chain.
        public var chain: UInt64 = 0
        /// The kernel's cookie of the socket (`SO_COOKIE`); 0: unknown.
        public var cookie: UInt64 = 0
        /// Where the message lies in the socket's byte stream of its direction. Position 0 is where the socket was
        /// opened.
        public var interval: Interval = .init()
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
        /// Number of redirects before this exchange in its chain.
        public var hop: UInt16 = 0
        public var role: Role = .unknown
        public var version: HTTPVersion = .unknown
        public var quality: Quality = .unknown
        public var contentClass: ContentClass = .unknown
        /// The message was cut off.
        public var isIncomplete = false
        /// The name of the message's exchange.
        public var name: Name

        public init(exchange: UInt64, name: Name = .none) {
            (self.exchange, self.name) = (exchange, name)
        }

        /// Bytes of the message as HTTP counts them.
        public var messageBytes: UInt64 {
            UInt64(self.lineBytes) &+ UInt64(self.headerBytes) &+ self.bodyBytes &+ self.framingBytes
        }
    }

    /// The part `[from, to)` of a byte stream. A message took `bytes` of it: all of it, unless messages interleave
    /// (HTTP/2).
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

        /// The place is unknown.
        public var isEmpty: Bool { self.bytes == 0 }

        public var isPossible: Bool { self.from <= self.to && self.bytes <= self.to - self.from }
    }

    /// The end of an exchange.
    public struct Outcome: NamedRecord, Hashable, Sendable {
        public var exchange: UInt64
        public var chain: UInt64 = 0
        /// When the request's first byte passed. For a library that does not see its sockets: when it began to make a
        /// connection. `CLOCK_BOOTTIME`, nanoseconds.
        public var startedAt: UInt64 = 0
        /// From `startedAt` to the last byte of the response; nanoseconds.
        public var duration: UInt64 = 0
        public var phases = Phases()
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
        public var role: Role = .unknown
        public var ending: Ending = .unknown
        /// The status of the last response; 0 without a response.
        public var status: UInt16 = 0
        /// The name of the exchange.
        public var name: Name

        public init(exchange: UInt64, name: Name = .none) {
            (self.exchange, self.name) = (exchange, name)
        }
    }

    /// Microseconds. `nil`: there was no such phase, for example on a connection that is used again, or the library did
    /// not see it. The daemon finds missing phases `connect` and `tls` from the kernel and ``Outcome/tlsEndedAt``.
    public struct Phases: Hashable, Sendable {
        public var dns: UInt32?
        public var connect: UInt32?
        public var tls: UInt32?
        public var send: UInt32?
        public var wait: UInt32?
        public var receive: UInt32?

        public init() {}
    }

    /// The bytes of a connection that belong to no message.
    public struct Connection: Hashable, Sendable {
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
        public struct Remainder: Hashable, Sendable {
            /// TLS handshake, tickets, alerts.
            public var tls: UInt64 = 0
            /// HTTP/2: frames of the connection itself (RFC 9113 sections 3.4, 6.5, 6.7, 6.9). HTTP/1.x: bytes that
            /// belong to no exchange, such as line ends between messages.
            public var framing: UInt64 = 0
            /// Bytes that the library does not read as HTTP: after an upgrade, or after a message that it refused.
            public var opaque: UInt64 = 0
            /// Messages that the app's own filter keeps out of the reports.
            public var excluded: UInt64 = 0

            public init() {}
        }
    }
}
