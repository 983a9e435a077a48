package import TrafficLimits

/// Processes that are one program to a person who watches: of one executable and name, of one user, in one systemd unit
/// and one container, whatever their pids are.
///
/// Ended processes and endpoints add up by group.
public struct ProcessGroup: Sendable, Codable, Hashable {
    public var name: String
    public var executable: String?
    /// With a `*` in place of what differs each time: all logins are `session-*.scope`.
    public var systemdUnit: String?
    public var containerID: String?
    /// The user who owns the processes, and so may see what they do. `nil` for processes of several users.
    public var uid: UInt32?

    public init(
        name: String,
        executable: String? = nil,
        systemdUnit: String? = nil,
        containerID: String? = nil,
        uid: UInt32? = nil
    ) {
        self.name = name
        self.executable = executable
        self.systemdUnit = systemdUnit
        self.containerID = containerID
        self.uid = uid
    }

    public init(_ details: ProcessDetails) {
        self.init(
            name: details.name,
            executable: details.executable,
            systemdUnit: details.systemdUnit.map(SystemdUnit.pattern),
            containerID: details.containerID,
            uid: details.uid
        )
    }

    /// The group in which everything of a user beyond a limit adds up. Subordinate ids have none of their own: a user may
    /// have 65,536 of them.
    ///
    /// - Parameter uid: `nil`: of several users.
    public static func other(of uid: UInt32?) -> ProcessGroup {
        ProcessGroup(name: EndpointUsage.other, uid: uid.flatMap { PayingUser($0).uid })
    }

    /// What is beyond a limit adds up here.
    package var isOther: Bool { self == ProcessGroup(name: EndpointUsage.other, uid: self.uid) }

    /// Who pays for what is kept of the group; `nil`: nobody.
    package var payer: PayingUser? { self.uid.map(PayingUser.init) }

    package enum CodingKeys: String, CodingKey {
        case name, executable
        case systemdUnit = "systemd_unit"
        case containerID = "container_id"
        case uid
    }
}
