import TrafficEvents
import TrafficModel

/// One process as the ledger knows it.
///
/// Its name is the one that it had when it first used a socket, until it runs another program (execve(2)): then it is that
/// program's. If it gives itself another name meanwhile (prctl(2)), rows, rules and history keep the first. So a program is
/// one program to them, and nobody gets out of a rule by a new name.
struct ProcessAccount: Codable {
    /// What was moved, and how much of it is explained.
    struct Moved: Codable {
        var bytes = ByteCounts()
        var explained: UInt64 = 0
    }

    let identity: ProcessIdentity
    private let firstSeen: OwnerObservation
    var uid: UInt32 { self.firstSeen.uid }
    private(set) var details: ProcessDetails
    /// The name is of this time or of a later one: `CLOCK_BOOTTIME`.
    private var namedAt: UInt64
    /// Somebody was asked for the details.
    private var isAsked = false
    /// As whom the process is known to have run: several because of setuid(2). More than ``userLimit`` are not kept.
    private(set) var users: Set<UInt32>
    private static let userLimit = 8
    private(set) var exitedAt: Timestamp?
    /// When the ledger heard of the end, by `CLOCK_BOOTTIME`, which does not jump.
    private(set) var exitedBoottime: UInt64?

    private(set) var bytes = ByteCounts()
    /// The audit lines of the process's sockets that are no longer listed.
    private(set) var forgottenSockets = AuditTallies()
    private var meter = RateMeter()
    /// How much of the payload is explained by reports of the process.
    private(set) var explained: UInt64 = 0
    /// The group that the process is in; `nil`: the daemon does not know the process yet.
    private(set) var group: ProcessGroup?
    /// What the process had moved when it joined the group.
    private var atJoin = Moved()
    /// The first tick without a group: `CLOCK_BOOTTIME`.
    private var ungroupedSince: UInt64?
    /// How long a process may be without a group. Meanwhile the ledger asks again at least once.
    private static let patience = 5 * Inquiries.period / 2
    /// The daemon has looked the process up in `/proc`.
    private(set) var isResolved = false

    /// - Parameters:
    ///   - owner: What the kernel first said of the process.
    ///   - boottime: The name is of this time or of a later one.
    ///   - user: The user name of the process, if another process has told it.
    init(_ owner: OwnerObservation, at boottime: UInt64, user: String?) {
        self.identity = owner.identity
        self.namedAt = boottime
        self.firstSeen = owner
        self.users = [owner.uid]
        self.details = ProcessDetails(name: owner.displayName, uid: owner.uid, user: user)
    }

    /// - Parameter owner: The user of the process when it first used the socket, and what it has moved since.
    /// - Returns: Whether the daemon should look up the details of the process.
    mutating func add(_ payload: PayloadBytes, as owner: OwnerObservation) -> Bool {
        self.bytes.payload += payload
        self.note(user: owner.uid)
        guard self.exitedAt == nil, !self.isAsked else { return false }
        self.isAsked = true
        return true
    }

    /// Whether the process is known to have run as this user.
    func hasRun(as uid: UInt32) -> Bool { self.users.contains(uid) }

    /// The process has run as this user.
    mutating func note(user uid: UInt32) {
        if self.users.count < Self.userLimit { self.users.insert(uid) }
    }

    /// - Returns: Whether the daemon should look up the details of the process.
    mutating func add(_ row: FoldedRows.Row) -> Bool {
        self.addForgotten(row.tallies)
        self.bytes.add(wire: row.wire)
        if row.retransmitted > 0 { self.add(retransmitted: row.retransmitted) }
        return self.add(row.owner.payload, as: row.owner)
    }

    /// The process runs another program.
    ///
    /// - Returns: What the daemon needs to look up the details; `nil` if the process has ended, or if its name is of a later
    ///   time than this.
    mutating func rename(_ execution: Execution) -> OwnerObservation? {
        guard self.exitedAt == nil, execution.boottimeNanoseconds > self.namedAt else { return nil }
        (self.namedAt, self.details.name) = (execution.boottimeNanoseconds, execution.name)
        var owner = self.firstSeen
        owner.name = execution.name
        return owner
    }

    /// What the daemon needs to look up the details again: the process with the name that is shown.
    ///
    /// - Parameter doubtsName: The process may run another program. Then the name is empty, and the answer has it.
    func inquiry(doubtsName: Bool) -> OwnerObservation {
        var owner = self.firstSeen
        if !owner.isKernelThread { owner.name = doubtsName ? "" : self.details.name }
        return owner
    }

    mutating func nameUser(_ name: String?) { self.details.user = name }

    /// The daemon can find out less about a process that is gone than about a living process. So details without an
    /// executable do not replace details with an executable.
    mutating func resolve(_ details: ProcessDetails) {
        self.isResolved = true
        guard details.executable != nil || self.details.executable == nil else { return }
        // Of the same program, the name that is in use stays.
        let isSame = details.executable != nil && details.executable == self.details.executable
        let name = isSame || details.name.isEmpty ? self.details.name : details.name
        self.details = details
        self.details.name = name
    }

    /// The first event that tells of the end counts.
    mutating func end(at time: Timestamp, boottime: UInt64) {
        guard self.exitedAt == nil else { return }
        self.exitedAt = time
        self.exitedBoottime = boottime
    }

    mutating func add(retransmitted: UInt64) {
        self.bytes.retransmitted = (self.bytes.retransmitted ?? 0) +| retransmitted
    }

    mutating func add(wire: WireTotals) {
        self.bytes.add(wire: wire)
    }

    mutating func explain(_ bytes: UInt64) {
        self.explained +|= bytes
    }

    mutating func addForgotten(_ tallies: AuditTallies) {
        self.forgottenSockets += tallies
    }

    /// Pending bytes are counted anew at every tick and look.
    mutating func forgetPending() {
        self.bytes.pendingSent = 0
    }

    mutating func addPending(_ bytes: UInt64) {
        self.bytes.pendingSent +|= bytes
    }

    var moved: Moved { Moved(bytes: self.bytes, explained: self.explained) }

    /// What the process has moved since it joined its group; without a group, since it left the last one.
    var sinceItJoined: Moved {
        Moved(
            bytes: self.bytes.growth(since: self.atJoin.bytes),
            explained: self.explained -| self.atJoin.explained
        )
    }

    mutating func join(_ groups: inout GroupAccounts) {
        guard self.group == nil else { return }
        self.group = groups.join(ProcessGroup(self.details))
    }

    /// - Returns: The group that the process was in.
    @discardableResult
    mutating func leave(_ groups: inout GroupAccounts) -> ProcessGroup? {
        guard let group = self.group.take() else { return nil }
        self.ungroupedSince = nil
        let since = self.sinceItJoined
        groups.leave(group, since.bytes, explained: since.explained)
        self.atJoin = Moved(bytes: self.bytes.settled, explained: self.explained)
        return group
    }

    /// Joins the group of what is known, if the daemon has not found out more for long, or there is nothing to find out.
    mutating func joinInTime(_ groups: inout GroupAccounts, at boottime: UInt64) {
        guard self.group == nil else { return }
        let since = self.ungroupedSince ?? boottime
        self.ungroupedSince = since
        if self.identity == .kernel || boottime >= since +| Self.patience { self.join(&groups) }
    }

    mutating func tick(seconds: Double) {
        self.meter.tick(self.bytes.payloadSoFar, seconds: seconds)
    }

    var usage: ProcessUsage {
        ProcessUsage(
            identity: self.identity,
            details: self.details,
            state: self.exitedAt == nil ? .running : .exited,
            exitedAt: self.exitedAt,
            bytes: self.bytes,
            rates: self.meter.rates,
            explained: self.explained
        )
    }
}
