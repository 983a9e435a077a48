/// Everything that is known at one moment. Immutable; every reader of the daemon works from one of these.
///
/// Decoded from the JSON of the control API; TrafficExport is its one encoder. Field names in JSON are an interface
/// (`schema_version` 1, see `Snapshot.schema.json` there). Integers are bytes,
/// nanoseconds or counts since ``countingSince``; absent means unknown.
public struct Snapshot: Sendable, Decodable, Hashable {
    public static let currentSchemaVersion = 1

    public var schemaVersion = Snapshot.currentSchemaVersion
    /// Every byte from before this time is counted.
    public var takenAt: Timestamp
    /// The same on `CLOCK_BOOTTIME`.
    public var takenBoottimeNanoseconds: UInt64
    public var countingSince: Timestamp
    public var host: HostDescription
    public var daemon: DaemonDescription
    public var capture: CaptureStatus
    /// `nil` where the reader did not ask for this part. The same for the other lists.
    public var processes: [ProcessUsage]?
    public var exited: [ExitedUsage]?
    public var sockets: [SocketUsage]?
    /// The pids whose sockets alone are in the list; `nil` where those of all processes are.
    public var socketsOf: [Int32]?
    /// The APIs that cooperating programs reported.
    public var endpoints: [EndpointUsage]?
    public var interfaces: [InterfaceUsage]?
    public var totals: Totals
    /// What an audit works from beside the sockets that are listed. Not in the JSON.
    public var evidence: AuditEvidence?
    /// The exchanges of ``endpoints`` told apart otherwise. Not in the JSON: ``withEndpoints(by:)`` puts one of them there.
    public var groupedEndpoints: [EndpointGrouping: [EndpointUsage]] = [:]
    /// The last ones and those that go on. Not in the JSON of a snapshot: they have a document of their own.
    public var exchanges: [ExchangeUsage]?

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
        endpoints: [EndpointUsage]? = nil,
        interfaces: [InterfaceUsage]? = nil,
        totals: Totals = Totals()
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
        self.endpoints = endpoints
        self.interfaces = interfaces
        self.totals = totals
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case takenAt = "taken_at"
        case takenBoottimeNanoseconds = "taken_boottime_ns"
        case countingSince = "counting_since"
        case host, daemon, capture, processes, exited, sockets
        case socketsOf = "sockets_of"
        case endpoints, interfaces, totals
    }
}

public struct HostDescription: Sendable, Decodable, Hashable {
    public var name: String
    /// `/proc/sys/kernel/random/boot_id`: counters of two snapshots compare only within one boot.
    public var bootID: String
    /// `uname -r`.
    public var kernel: String

    public init(name: String, bootID: String, kernel: String) {
        self.name = name
        self.bootID = bootID
        self.kernel = kernel
    }

    package enum CodingKeys: String, CodingKey {
        case name
        case bootID = "boot_id"
        case kernel
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

/// One interface's own counters (`/sys/class/net/NAME/statistics`) since it came up: link-layer bytes.
public struct InterfaceUsage: Sendable, Codable, Hashable {
    public var name: String
    public var sentBytes: UInt64
    public var receivedBytes: UInt64
    /// Of an aggregate of segmentation offload a virtual interface counts one.
    public var sentPackets: UInt64?
    public var receivedPackets: UInt64?
    /// Since the snapshot before.
    public var sentBytesPerSecond: Double?
    public var receivedBytesPerSecond: Double?
    /// Inode number of its network namespace. Not in the snapshot's JSON, no more than the next three.
    public var networkNamespace: UInt32?
    /// Within that namespace.
    public var index: UInt32?
    /// Bytes of the link header that the interface counts for each packet.
    public var linkHeaderLength: UInt64?
    /// What an audit sets the interface's counters against; `nil` where packets are not seen.
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

/// The sum over all processes, running and exited, since ``Snapshot/countingSince``; where a reader sees only some, over these.
public struct Totals: Sendable, Decodable, Hashable {
    public var bytes: ByteCounts
    public var rates: PayloadRates
    /// By how far the other end was when the bytes were moved. What had no other end's address (unconnected UDP) is in none.
    public var byScope: [String: ByteCounts]
    /// The same by the class of the remote address, every configured class with its name. What is in no class is in none. `nil`
    /// where there are no classes.
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

    /// Of some processes. ``byScope`` and ``byClass`` are left empty and out: of sockets that are gone it is not known any more whose they
    /// were.
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
