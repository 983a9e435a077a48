/// What happened to the reports of cooperating programs since the daemon started. A claim is a request or a response
/// that says which bytes of which socket it took.
public struct ReportCounters: Sendable, Codable, Hashable {
    public var datagrams: UInt64 = 0
    /// Records of all types, including rejected records.
    public var records: UInt64 = 0
    /// Claims that the kernel's counts confirm.
    public var joined: UInt64 = 0
    /// Records that count without an exact claim: about no particular socket, about a socket older than this daemon, or
    /// from a library that does not count exactly.
    public var inferred: UInt64 = 0
    /// Records that waited for the kernel's counts to catch up with them.
    public var early: UInt64 = 0

    /// Datagrams that are no reports, or are cut off.
    public var malformedDatagrams: UInt64 = 0
    public var unknownVersion: UInt64 = 0
    /// Records of types that this daemon does not know.
    public var skippedRecords: UInt64 = 0

    /// Rejected: the numbers contradict each other.
    public var malformedRecords: UInt64 = 0
    /// Rejected: the kernel has seen nothing of the sender.
    public var unknownProcess: UInt64 = 0
    /// Rejected: the sender has not used the socket.
    public var foreign: UInt64 = 0
    /// Rejected: the socket is no longer known, or never was.
    public var late: UInt64 = 0
    /// Rejected: the same record or the same bytes came before.
    public var duplicate: UInt64 = 0
    /// Rejected: another message has some of the bytes.
    public var overlapping: UInt64 = 0
    /// Rejected: more bytes than the socket has moved.
    public var impossible: UInt64 = 0

    /// Rejected records that could not wait, because their process or user had as many waiting as allowed.
    public var unwaited: UInt64 = 0
    /// Records that count in a row `_other`, because their service or user has as many rows as allowed.
    public var inOther: UInt64 = 0
    /// Exchanges that went on and had to make room for later exchanges of the same process or user. Their bytes are
    /// counted.
    public var forgottenExchanges: UInt64 = 0

    /// Records that senders dropped: their queue was full, or the kernel refused the datagram for its size.
    public var droppedBySenders: UInt64 = 0
    /// Datagrams for which the daemon had no room, because their process or user had as many waiting as allowed.
    public var droppedDatagrams: UInt64 = 0
    /// Datagrams whose numbers never came: datagrams for which senders or the daemon had no room, and datagrams that
    /// were lost on the way.
    public var missingDatagrams: UInt64 = 0

    public init() {}

    /// Records and datagrams that count nowhere.
    public var rejected: UInt64 {
        self.malformedRecords + self.unknownProcess + self.foreign + self.late + self.duplicate + self.overlapping
            + self.impossible + self.malformedDatagrams + self.unknownVersion
    }

    /// Records that senders dropped, and datagrams for which the daemon had no room.
    public var dropped: UInt64 { self.droppedBySenders + self.droppedDatagrams }

    package enum CodingKeys: String, CodingKey {
        case datagrams, records, joined, inferred, early
        case malformedDatagrams = "malformed_datagrams"
        case unknownVersion = "unknown_version"
        case skippedRecords = "skipped_records"
        case malformedRecords = "malformed_records"
        case unknownProcess = "unknown_process"
        case foreign, late, duplicate, overlapping, impossible, unwaited
        case inOther = "in_other"
        case forgottenExchanges = "forgotten_exchanges"
        case droppedBySenders = "dropped_by_senders"
        case droppedDatagrams = "dropped_datagrams"
        case missingDatagrams = "missing_datagrams"
    }
}
