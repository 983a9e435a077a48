/// What is known of a process apart from its bytes. Everything except the name may be unknown. The kernel gives the
/// name; the daemon reads the rest from `/proc` while the process lives.
public struct ProcessDetails: Sendable, Codable, Hashable {
    /// `comm` of the process (its first thread), at most 15 bytes; a kernel thread's has the prefix `kernel:`.
    public var name: String
    public var executable: String?
    public var commandLine: [String]?
    public var uid: UInt32
    public var user: String?
    /// The unit of the system's service manager. A unit of another manager follows a slash:
    /// `user@1000.service/nginx.service`, `docker/nginx.service`.
    public var systemdUnit: String?
    /// 64 hexadecimal digits; of containers in each other, those of the outer one.
    public var containerID: String?
    /// Path in the cgroup v2 hierarchy.
    public var cgroup: String?
    /// Inode number of `/proc/PID/ns/net`.
    public var networkNamespace: UInt32?
    public var startedAt: Timestamp?

    public init(
        name: String,
        executable: String? = nil,
        commandLine: [String]? = nil,
        uid: UInt32,
        user: String? = nil,
        systemdUnit: String? = nil,
        containerID: String? = nil,
        cgroup: String? = nil,
        networkNamespace: UInt32? = nil,
        startedAt: Timestamp? = nil
    ) {
        self.name = name
        self.executable = executable
        self.commandLine = commandLine
        self.uid = uid
        self.user = user
        self.systemdUnit = systemdUnit
        self.containerID = containerID
        self.cgroup = cgroup
        self.networkNamespace = networkNamespace
        self.startedAt = startedAt
    }

    package enum CodingKeys: String, CodingKey {
        case name, executable
        case commandLine = "command_line"
        case uid, user
        case systemdUnit = "systemd_unit"
        case containerID = "container_id"
        case cgroup
        case networkNamespace = "network_namespace"
        case startedAt = "started_at"
    }
}

/// One process and its bytes since ``Snapshot/countingSince``.
public struct ProcessUsage: Sendable, Decodable, Hashable {
    public enum State: String, Sendable, Codable {
        case running, exited
    }

    public var identity: ProcessIdentity
    public var details: ProcessDetails
    public var state: State
    public var exitedAt: Timestamp?
    public var socketsOpen: Int
    public var bytes: ByteCounts
    public var rates: PayloadRates
    /// The bytes of the payload, both ways, whose purpose the process's own reports tell.
    public var explained: UInt64
    /// The endpoints that the process itself reported, while the process runs. They add up to all that the process
    /// reported. `nil` for a process that exited: what it reported is in ``Snapshot/endpoints``, together with the
    /// other processes of its service.
    public var endpoints: [ProcessEndpoint]?

    public init(
        identity: ProcessIdentity,
        details: ProcessDetails,
        state: State = .running,
        exitedAt: Timestamp? = nil,
        socketsOpen: Int = 0,
        bytes: ByteCounts = ByteCounts(),
        rates: PayloadRates = PayloadRates(),
        explained: UInt64 = 0,
        endpoints: [ProcessEndpoint]? = nil
    ) {
        self.identity = identity
        self.details = details
        self.state = state
        self.exitedAt = exitedAt
        self.socketsOpen = socketsOpen
        self.bytes = bytes
        self.rates = rates
        self.explained = explained
        self.endpoints = endpoints
    }

    /// The payload that no report explains.
    public var unattributed: UInt64 { self.bytes.payload.unattributed(explained: self.explained) }

    package enum CodingKeys: String, CodingKey {
        case state
        case exitedAt = "exited_at"
        case socketsOpen = "sockets_open"
        case rates
        case explained = "explained_bytes"
        case unattributed = "unattributed_bytes"
        case endpoints
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.identity = try ProcessIdentity(from: decoder)
        self.details = try ProcessDetails(from: decoder)
        self.state = try container.decode(State.self, forKey: .state)
        self.exitedAt = try container.decodeIfPresent(Timestamp.self, forKey: .exitedAt)
        self.socketsOpen = try container.decode(Int.self, forKey: .socketsOpen)
        self.bytes = try ByteCounts(from: decoder)
        self.rates = try container.decode(PayloadRates.self, forKey: .rates)
        self.explained = try container.decode(UInt64.self, forKey: .explained)
        self.endpoints = try container.decodeIfPresent([ProcessEndpoint].self, forKey: .endpoints)
    }
}

/// The bytes of processes that are no longer listed, added up by group.
public struct ExitedUsage: Sendable, Decodable, Hashable {
    /// A user's group `_other` has the processes that were too many to tell apart.
    public var group: ProcessGroup
    /// The name of the group's user. `nil` if it is not known, and for processes of several users.
    public var user: String?
    public var processes: Int
    public var bytes: ByteCounts
    /// See ``ProcessUsage/explained``.
    public var explained: UInt64

    public init(
        group: ProcessGroup,
        user: String? = nil,
        processes: Int = 0,
        bytes: ByteCounts = ByteCounts(),
        explained: UInt64 = 0
    ) {
        self.group = group
        self.user = user
        self.processes = processes
        self.bytes = bytes
        self.explained = explained
    }

    public var unattributed: UInt64 { self.bytes.payload.unattributed(explained: self.explained) }

    package enum CodingKeys: String, CodingKey {
        case user, processes
        case explained = "explained_bytes"
        case unattributed = "unattributed_bytes"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.group = try ProcessGroup(from: decoder)
        self.user = try container.decodeIfPresent(String.self, forKey: .user)
        self.processes = try container.decode(Int.self, forKey: .processes)
        self.bytes = try ByteCounts(from: decoder)
        self.explained = try container.decode(UInt64.self, forKey: .explained)
    }
}
