/// What became of the reports of cooperating programs since the daemon started. A claim is a request or a response that says which bytes
/// of which socket it took.
public struct ReportCounters: Sendable, Codable, Hashable {
    public var datagrams: UInt64 = 0
    /// Of all types, also those that were rejected.
    public var records: UInt64 = 0
    /// Claims that the kernel's counts bear out.
    public var joined: UInt64 = 0
    /// Records about no particular socket, or about one of a time before this daemon: counted, and in no socket's bytes.
    public var inferred: UInt64 = 0
    /// Claims that waited for the kernel's count to catch up with them.
    public var early: UInt64 = 0

    /// Datagrams that are no reports, or are cut off.
    public var malformedDatagrams: UInt64 = 0
    public var unknownVersion: UInt64 = 0
    /// Records of types that this daemon does not know.
    public var skippedRecords: UInt64 = 0

    /// Rejected: numbers that contradict each other.
    public var malformedRecords: UInt64 = 0
    /// Rejected: by whom the kernel has seen nothing.
    public var unknownProcess: UInt64 = 0
    /// Rejected: on a socket that the sender has not used.
    public var foreign: UInt64 = 0
    /// Rejected: on a socket that is no longer known, or never was.
    public var late: UInt64 = 0
    /// Rejected: the same once more.
    public var duplicate: UInt64 = 0
    /// Rejected: bytes that another message has.
    public var overlapping: UInt64 = 0
    /// Rejected: more bytes than the socket has moved.
    public var impossible: UInt64 = 0

    /// Of the rejected: those that were not waited for, because their process or user had as many waiting as it may.
    public var unwaited: UInt64 = 0
    /// Records that count in a row `_other`, because their service or user has as many rows as it may.
    public var inOther: UInt64 = 0
    /// Exchanges that went on and made room for later ones of the same process or user. Their bytes are counted.
    public var forgottenExchanges: UInt64 = 0

    /// Records that senders found no room for.
    public var droppedBySenders: UInt64 = 0
    /// Datagrams that the daemon itself had no room for: their process or user had as many waiting as it may.
    public var droppedDatagrams: UInt64 = 0
    /// Datagrams whose numbers never came: those that senders or the daemon had no room for, and any that got lost in between.
    public var missingDatagrams: UInt64 = 0

    public init() {}

    /// Records that count nowhere.
    public var rejected: UInt64 {
        self.malformedRecords + self.unknownProcess + self.foreign + self.late + self.duplicate + self.overlapping
            + self.impossible + self.malformedDatagrams + self.unknownVersion
    }

    /// Records of senders and datagrams of the daemon that there was no room for.
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
