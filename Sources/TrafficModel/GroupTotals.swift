/// What process groups have moved, each since its life began.
///
/// The bytes of a process move between the rows of a snapshot: from its own row to the row of ended processes. They never
/// leave their group, so a group's sum never falls. A process's bytes count once the daemon knows the process; until then
/// they are in ``unknown``. The lives of groups, ``endedLives``, ``unknown`` and ``unowned`` add up to ``Balance/bytes``.
public struct GroupTotals: Sendable, Hashable, Codable {
    public var lives: [GroupLife]
    /// By user, what the groups had moved whose lives are over: the user had too many groups, and none of their processes
    /// is listed any more. Never falls. `nil`: of several users.
    public var endedLives: [UInt32?: ByteCounts]
    /// Of processes whose details the daemon has not found out yet.
    public var unknown: ByteCounts
    /// Of sockets that no process is known to have used. Of these, packets get a process with the socket's first call, or
    /// go to the kernel when the socket ends.
    public var unowned: ByteCounts

    public init(
        lives: [GroupLife] = [],
        endedLives: [UInt32?: ByteCounts] = [:],
        unknown: ByteCounts = ByteCounts(),
        unowned: ByteCounts = ByteCounts()
    ) {
        self.lives = lives
        self.endedLives = endedLives
        self.unknown = unknown
        self.unowned = unowned
    }

    /// ``unknown`` and ``unowned``, for a count that has lost the processes and sockets.
    package var withoutProcess: ByteCounts { (self.unowned + self.unknown).settled }
}

/// A group from its first process until it is forgotten. A group may have a second life, which begins at 0 again.
public struct GroupLife: Sendable, Hashable, Codable {
    public var group: ProcessGroup
    /// Unique among all lives of all groups, and later lives have higher numbers.
    public var number: UInt64
    /// The last tick before the life began: `CLOCK_BOOTTIME`, nanoseconds. 0: it began before the first tick.
    public var beganBoottimeNanoseconds: UInt64
    /// Processes of the group that are listed.
    public var processes: Int
    public var bytes: ByteCounts
    /// See ``ProcessUsage/explained``.
    public var explained: UInt64

    public init(
        group: ProcessGroup,
        number: UInt64,
        beganBoottimeNanoseconds: UInt64,
        processes: Int = 0,
        bytes: ByteCounts = ByteCounts(),
        explained: UInt64 = 0
    ) {
        self.group = group
        self.number = number
        self.beganBoottimeNanoseconds = beganBoottimeNanoseconds
        self.processes = processes
        self.bytes = bytes
        self.explained = explained
    }
}
