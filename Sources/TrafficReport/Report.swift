/// One datagram from a cooperating library to the daemon: what some messages took of which sockets.
///
/// The layout is in <doc:Format>, byte by byte. A report is complete in itself: one that is lost takes its own records with it and
/// nothing else, and the gap shows in ``Header/sequence``.
public enum Report {
    /// The version that this module writes, and the only one it reads.
    public static let version: UInt8 = 1

    /// Bytes of a datagram, at most: a quarter of what a Unix socket takes by default (`net.core.wmem_default`, 212,992).
    public static let largestDatagram = 49_152

    /// What a datagram says of itself.
    public struct Header: Hashable, Sendable {
        /// Of the sender's datagrams, from 0, wrapping. Counts those too that could not be sent.
        public var sequence: UInt32
        /// Records that the sender had no room for since it started, wrapping.
        public var droppedRecords: UInt32
        /// `CLOCK_BOOTTIME`, nanoseconds.
        public var sentAt: UInt64

        public init(sequence: UInt32 = 0, droppedRecords: UInt32 = 0, sentAt: UInt64 = 0) {
            self.sequence = sequence
            self.droppedRecords = droppedRecords
            self.sentAt = sentAt
        }
    }

    public enum Record: Hashable, Sendable {
        /// A request as it was sent (a client's) or received (a server's). It stands alone: a response may never come.
        case request(Message)
        /// A response, the other way.
        case response(Message)
        /// How an exchange ended, once. Failures before there was a connection have no other record.
        case outcome(Outcome)
        /// What a connection moved beside messages, cumulative.
        case connection(Connection)
    }
}

extension Report {
    /// Which side of the connection the reporting process is.
    public enum Role: UInt8, Sendable, CaseIterable {
        case unknown = 0
        case client = 1
        case server = 2
    }

    /// The protocol that carried a message.
    public enum HTTPVersion: UInt8, Sendable, CaseIterable {
        case unknown = 0
        case http1_0 = 10
        case http1_1 = 11
        case http2 = 20
        case http3 = 30
    }

    /// How a number was found out.
    public enum Quality: UInt8, Sendable, CaseIterable {
        case unknown = 0
        /// Counted where the bytes pass, or by the counters of a socket that the exchange had for itself.
        case exact = 1
        /// Worked out from what is near: the time, a port, counters of a socket that others may have used.
        case inferred = 2
        /// Made from a formula.
        case estimated = 3
    }

    /// What a body is, by its `Content-Type`.
    public enum ContentClass: UInt8, Sendable, CaseIterable {
        case unknown = 0
        case none = 1
        case json = 2
        case html = 3
        case image = 4
        case script = 5
        case stream = 6
        case form = 7
        case text = 8
        case other = 255
    }

    /// How an exchange ended. `cancelled` is the program's own decision and no failure.
    public enum Ending: UInt8, Sendable, CaseIterable {
        case unknown = 0
        case ok = 1
        case http4xx = 2
        case http5xx = 3
        case dns = 4
        case refused = 5
        case reset = 6
        case timeout = 7
        case tls = 8
        case truncated = 9
        case cancelled = 10
    }
}
