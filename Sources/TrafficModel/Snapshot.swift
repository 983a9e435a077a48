/// The part of a ``Reading`` that goes to a client.
///
/// Decoded from the JSON of the control API. Only TrafficExport encodes it. Field names in JSON are an interface
/// (`schema_version` 1, see `Snapshot.schema.json` there). Integers are bytes, nanoseconds or counts since
/// ``countingSince``; absent means unknown.
public struct Snapshot: Sendable, Decodable, Hashable {
    public static let currentSchemaVersion = 1

    public var schemaVersion = Snapshot.currentSchemaVersion
    /// Every byte from before this time is counted.
    public var takenAt: Timestamp
    /// The same time on `CLOCK_BOOTTIME`.
    public var takenBoottimeNanoseconds: UInt64
    public var countingSince: Timestamp
    public var host: HostDescription
    public var daemon: DaemonDescription
    public var capture: CaptureStatus
    /// `nil` if the reader did not ask for this part. The same holds for the other lists.
    public var processes: [ProcessUsage]?
    public var exited: [ExitedUsage]?
    public var sockets: [SocketUsage]?
    /// The pids to whose sockets the list is limited; `nil` if the list has the sockets of all processes.
    public var socketsOf: [Int32]?
    /// How many open sockets of the host the list leaves out because a user has too many; `nil` if none. Rows of
    /// processes and totals have their bytes.
    public var socketsUnlisted: Int?
    /// The endpoints that cooperating programs reported.
    public var endpoints: [EndpointUsage]?
    public var interfaces: [InterfaceUsage]?
    public var totals: Totals
    /// How many alerts are in force. `nil` without rules, and for readers who may not see alerts.
    public var alertsActive: Int?

    public init(
        takenAt: Timestamp,
        takenBoottimeNanoseconds: UInt64,
        countingSince: Timestamp,
        host: HostDescription,
        daemon: DaemonDescription,
        capture: CaptureStatus,
        processes: [ProcessUsage]? = nil,
        exited: [ExitedUsage]? = nil,
        sockets: [SocketUsage]? = nil,
        socketsOf: [Int32]? = nil,
        socketsUnlisted: Int? = nil,
        endpoints: [EndpointUsage]? = nil,
        interfaces: [InterfaceUsage]? = nil,
        totals: Totals = Totals(),
        alertsActive: Int? = nil
    ) {
        self.takenAt = takenAt
        self.takenBoottimeNanoseconds = takenBoottimeNanoseconds
        self.countingSince = countingSince
        self.host = host
        self.daemon = daemon
        self.capture = capture
        self.processes = processes
        self.exited = exited
        self.sockets = sockets
        self.socketsOf = socketsOf
        self.socketsUnlisted = socketsUnlisted
        self.endpoints = endpoints
        self.interfaces = interfaces
        self.totals = totals
        self.alertsActive = alertsActive
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case takenAt = "taken_at"
        case takenBoottimeNanoseconds = "taken_boottime_ns"
        case countingSince = "counting_since"
        case host, daemon, capture, processes, exited, sockets
        case socketsOf = "sockets_of"
        case socketsUnlisted = "sockets_unlisted"
        case endpoints, interfaces, totals
        case alertsActive = "alerts_active"
    }
}

public struct HostDescription: Sendable, Decodable, Hashable {
    public var name: String
    /// `/proc/sys/kernel/random/boot_id`. Counters of two snapshots can be compared only within one boot.
    public var bootID: String
    /// `uname -r`.
    public var kernel: String
    /// The host's time zone by its name in the IANA database, `Europe/Berlin`: whose hours, days and months history has.
    /// `nil` if it has no such name.
    public var timeZone: String?

    public init(name: String, bootID: String, kernel: String, timeZone: String? = nil) {
        self.name = name
        self.bootID = bootID
        self.kernel = kernel
        self.timeZone = timeZone
    }

    package enum CodingKeys: String, CodingKey {
        case name
        case bootID = "boot_id"
        case kernel
        case timeZone = "time_zone"
    }
}

public struct DaemonDescription: Sendable, Decodable, Hashable {
    public var version: String
    public var pid: Int32
    public var startedAt: Timestamp

    public init(version: String, pid: Int32, startedAt: Timestamp) {
        self.version = version
        self.pid = pid
        self.startedAt = startedAt
    }

    package enum CodingKeys: String, CodingKey {
        case version, pid
        case startedAt = "started_at"
    }
}

/// One interface's own counters (`/sys/class/net/NAME/statistics`) since the interface came up: link-layer bytes.
public struct InterfaceUsage: Sendable, Codable, Hashable {
    public var name: String
    public var sentBytes: UInt64
    public var receivedBytes: UInt64
    /// A virtual interface counts an aggregate of segmentation offload as one packet.
    public var sentPackets: UInt64?
    public var receivedPackets: UInt64?
    /// Between the last two ticks.
    public var sentBytesPerSecond: Double?
    public var receivedBytesPerSecond: Double?
    /// Inode number of the interface's network namespace. Not in the snapshot's JSON. The same holds for the next
    /// three.
    public var networkNamespace: UInt32?
    /// The interface's index within that namespace.
    public var index: UInt32?
    /// Bytes of the link header that the interface counts for each packet.
    public var linkHeaderLength: UInt64?
    /// What an audit compares with the interface's counters; `nil` if packets are not seen.
    public var evidence: InterfaceEvidence?

    public init(
        name: String,
        sentBytes: UInt64,
        receivedBytes: UInt64,
        sentPackets: UInt64? = nil,
        receivedPackets: UInt64? = nil,
        sentBytesPerSecond: Double? = nil,
        receivedBytesPerSecond: Double? = nil,
        networkNamespace: UInt32? = nil,
        index: UInt32? = nil,
        linkHeaderLength: UInt64? = nil
    ) {
        self.name = name
        self.sentBytes = sentBytes
        self.receivedBytes = receivedBytes
        self.sentPackets = sentPackets
        self.receivedPackets = receivedPackets
        self.sentBytesPerSecond = sentBytesPerSecond
        self.receivedBytesPerSecond = receivedBytesPerSecond
        self.networkNamespace = networkNamespace
        self.index = index
        self.linkHeaderLength = linkHeaderLength
    }

    package enum CodingKeys: String, CodingKey {
        case name
        case sentBytes = "sent_bytes"
        case receivedBytes = "received_bytes"
        case sentPackets = "sent_packets"
        case receivedPackets = "received_packets"
        case sentBytesPerSecond = "sent_bytes_per_second"
        case receivedBytesPerSecond = "received_bytes_per_second"
        case networkNamespace = "network_namespace"
        case index
        case linkHeaderLength = "link_header_length"
    }
}

/// The sum over all processes, running and exited, since ``Snapshot/countingSince``. If a reader may see only some
/// processes, the sum over these processes.
public struct Totals: Sendable, Decodable, Hashable {
    public var bytes: ByteCounts
    public var rates: PayloadRates
    /// By how far the other end was when the bytes were moved. Bytes without a remote address (unconnected UDP) are in
    /// no scope.
    public var byScope: [String: ByteCounts]
    /// The same by the class of the remote address, with the name of every configured class. Bytes in no class are
    /// missing. `nil` if there are no classes.
    public var byClass: [String: ByteCounts]?

    public init(
        bytes: ByteCounts = ByteCounts(),
        rates: PayloadRates = PayloadRates(),
        byScope: [String: ByteCounts] = [:],
        byClass: [String: ByteCounts]? = nil
    ) {
        self.bytes = bytes
        self.rates = rates
        self.byScope = byScope
        self.byClass = byClass
    }

    /// The sum over some processes. ``byScope`` stays empty and ``byClass`` stays `nil`, because the owners of sockets
    /// that are gone are no longer known.
    package init(of processes: [ProcessUsage], _ exited: [ExitedUsage] = []) {
        self.init()
        for process in processes {
            self.bytes += process.bytes
            self.rates.sent += process.rates.sent
            self.rates.received += process.rates.received
        }
        for usage in exited { self.bytes += usage.bytes }
    }

    package enum CodingKeys: String, CodingKey {
        case byScope = "by_scope"
        case byClass = "by_class"
        case rates
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.bytes = try ByteCounts(from: decoder)
        self.rates = try container.decode(PayloadRates.self, forKey: .rates)
        self.byScope = try container.decode([String: ByteCounts].self, forKey: .byScope)
        self.byClass = try container.decodeIfPresent([String: ByteCounts].self, forKey: .byClass)
    }
}
