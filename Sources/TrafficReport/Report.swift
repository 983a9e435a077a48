/// One datagram from a cooperating library to the daemon. It says which messages took which bytes of which sockets.
///
/// <doc:Format> describes the layout byte by byte. A report is complete in itself: a lost datagram loses only its own
/// records, and ``Header/sequence`` shows the gap.
public enum Report {
    /// The version that this module writes. It reads no other version.
    public static let version: UInt8 = 1

    /// Bytes of a datagram, at most: a quarter of the default limit of a Unix socket (`net.core.wmem_default`,
    /// 212,992).
    public static let largestDatagram = 49_152

    /// The header of a datagram.
    public struct Header: Hashable, Sendable {
        /// The number of the datagram among the sender's datagrams, from 0, wrapping. Datagrams that could not be sent
        /// count, too.
        public var sequence: UInt32
        /// Records that the sender has dropped since it started, wrapping.
        public var droppedRecords: UInt32
        /// When the datagram was sent; `CLOCK_BOOTTIME`, nanoseconds.
        public var sentAt: UInt64

        public init(sequence: UInt32 = 0, droppedRecords: UInt32 = 0, sentAt: UInt64 = 0) {
            self.sequence = sequence
            self.droppedRecords = droppedRecords
            self.sentAt = sentAt
        }
    }

    public enum Record: Hashable, Sendable, Codable {
        /// An exchange, or the parts of it that no earlier record told.
        case exchange(Exchange)
        /// The bytes of a connection that belong to no message, cumulative.
        case connection(Connection)
    }
}

extension Report {
    /// The side of the connection that the reporting process is on.
    public enum Role: UInt8, Sendable, Codable, CaseIterable {
        case unknown = 0
        case client = 1
        case server = 2
    }

    /// The protocol that carried a message.
    public enum HTTPVersion: UInt8, Sendable, Codable, CaseIterable {
        case unknown = 0
        case http1_0 = 10
        case http1_1 = 11
        case http2 = 20
        case http3 = 30
    }

    /// How a number was found.
    public enum Quality: UInt8, Sendable, Codable, CaseIterable {
        case unknown = 0
        /// Counted where the bytes pass, or by the counters of a socket that only this exchange used.
        case exact = 1
        /// Derived from other facts: the time, a port, counters of a socket that other exchanges may have used.
        case inferred = 2
        /// Computed with a formula.
        case estimated = 3
    }

    /// The kind of a body, by its `Content-Type`.
    public enum ContentClass: UInt8, Sendable, Codable, CaseIterable {
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

    /// How an exchange ended. `cancelled` is the program's own decision and not a failure.
    public enum Ending: UInt8, Sendable, Codable, CaseIterable {
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
