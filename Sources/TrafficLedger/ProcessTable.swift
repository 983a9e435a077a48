import TrafficEvents
import TrafficLimits
import TrafficModel

/// The processes that the ledger lists, their groups, and which processes to look up. One place changes all three.
struct ProcessTable: Sendable, Codable {
    private(set) var accounts: [ProcessIdentity: ProcessAccount] = [:]
    private var groups: GroupAccounts
    private var inquiries = Inquiries()
    private var executions = RecentExecutions()
    /// So that the next process of a user has the user's name at once.
    private var userNames: [UInt32: String] = [:]
    /// Processes that ended since the table last folded ended processes.
    private var endsUnfolded = 0
    /// So many ended processes may be listed beyond the limits between two ticks.
    private static let mostEndsUnfolded = 512

    init(_ configuration: LedgerConfiguration) {
        self.groups = GroupAccounts(configuration)
    }

    /// As ``GroupAccounts/goOn(with:endedProcesses:lastLife:)``.
    init(
        _ configuration: LedgerConfiguration,
        goingOnWith totals: GroupTotals,
        endedProcesses: [ProcessGroup: Int],
        lastLife: UInt64
    ) {
        self.init(configuration)
        self.groups.goOn(with: totals, endedProcesses: endedProcesses, lastLife: lastLife)
    }

    mutating func configure(_ configuration: LedgerConfiguration) {
        self.groups.configuration = configuration
    }

    subscript(process: ProcessIdentity) -> ProcessAccount? { self.accounts[process] }

    /// Changes an account in place, except for what decides the group of the process.
    ///
    /// - Returns: The result of `body`; `nil` if the process is not listed.
    @discardableResult
    mutating func change<Result>(_ process: ProcessIdentity, _ body: (inout ProcessAccount) -> Result) -> Result? {
        self.accounts.changeInPlace(process, body)
    }

    // MARK: Bytes

    /// - Parameter boottime: The owner's name is of this time, or of a later one.
    mutating func credit(_ payload: PayloadBytes, to owner: OwnerObservation, at boottime: UInt64) {
        if self.withAccount(of: owner, at: boottime, { $0.add(payload, as: owner) }) { self.inquiries.add(owner) }
    }

    /// The record of a socket names this owner, who has moved nothing over the socket since the last record. A process
    /// that was folded is not listed again because one of its sockets is still there.
    mutating func note(_ owner: OwnerObservation) {
        guard let index = self.accounts.index(forKey: owner.identity),
            !self.accounts.values[index].hasRun(as: owner.uid)
        else { return }
        self.credit(PayloadBytes(), to: owner, at: 0)
    }

    /// The process holds a socket, and may have used none. A list of holders is read in a time in which it may run another
    /// program, so the name is in doubt.
    mutating func note(holder: OwnerObservation) {
        guard self.accounts.index(forKey: holder.identity) == nil else { return }
        var doubted = holder
        doubted.name = ""
        if self.withAccount(of: holder, { $0.add(PayloadBytes(), as: holder) }) { self.inquiries.add(doubted) }
    }

    /// - Parameter boottime: As for ``credit(_:to:at:)``.
    mutating func credit(_ row: FoldedRows.Row, at boottime: UInt64) {
        let isNews = self.withAccount(of: row.owner, at: boottime) { $0.add(row) }
        if isNews && row.owner.identity != .kernel { self.inquiries.add(row.owner) }
    }

    /// Bytes of processes that have no row. Nobody knows more of these processes.
    ///
    /// - Parameter uid: `nil` if the user of these bytes is not known.
    mutating func credit(_ row: FoldedRows.Row, ofUser uid: UInt32?) {
        var bytes = ByteCounts(payload: row.owner.payload, retransmitted: row.retransmitted)
        bytes.add(wire: row.wire)
        self.groups.add(bytes, ofUser: uid)
    }

    /// Packets of the kernel, or of a process that need not be listed any more.
    ///
    /// - Parameter uid: The user of such a process; `nil` if the user is not known.
    mutating func credit(_ wire: WireTotals, to process: ProcessIdentity, ofUser uid: UInt32?) {
        guard process != .kernel else {
            let kernel = OwnerObservation(identity: .kernel, name: "kernel", isKernelThread: true)
            return self.withAccount(of: kernel) { $0.add(wire: wire) }
        }
        guard self.change(process, { $0.add(wire: wire) }) == nil else { return }
        var bytes = ByteCounts()
        bytes.add(wire: wire)
        self.groups.add(bytes, ofUser: uid)
    }

    /// As ``credit(_:to:ofUser:)-(WireTotals,_,_)``.
    mutating func credit(retransmitted: UInt64, to process: ProcessIdentity, ofUser uid: UInt32?) {
        guard self.change(process, { $0.add(retransmitted: retransmitted) }) == nil else { return }
        self.groups.add(ByteCounts(retransmitted: retransmitted), ofUser: uid)
    }

    private mutating func withAccount<Result>(
        of owner: OwnerObservation,
        at boottime: UInt64 = 0,
        _ body: (inout ProcessAccount) -> Result
    ) -> Result {
        if self.accounts.index(forKey: owner.identity) == nil {
            var account = ProcessAccount(owner, at: boottime, user: self.userNames[owner.uid])
            // What says of the process may be older than what says that it runs another program.
            if let execution = self.executions[owner.identity] { _ = account.rename(execution) }
            self.accounts[owner.identity] = account
        }
        return body(&self.accounts[owner.identity, default: ProcessAccount(owner, at: boottime, user: nil)])
    }

    /// Pending bytes are counted anew at every tick and look.
    mutating func forgetPending() { self.accounts.forEachInPlace { $0.forgetPending() } }

    // MARK: Details

    /// As ``Ledger/takeUnresolved()``.
    mutating func takeUnresolved() -> [OwnerObservation] { self.inquiries.take() }

    /// As ``Inquiries/askAgain(_:)``.
    mutating func askAgain() { self.inquiries.askAgain(self.accounts.values) }

    /// Some process runs another program, and the ledger does not know which process.
    mutating func doubtNames() { self.inquiries.doubtNames() }

    /// The daemon has looked the process up. From then on its bytes count for the group that the details say.
    mutating func resolve(_ process: ProcessIdentity, as details: ProcessDetails) {
        var details = details
        if let user = details.user { self.userNames[details.uid] = user }
        details.user = self.userNames[details.uid]
        // A process that was folded meanwhile is not listed again just for its name.
        guard let index = self.accounts.index(forKey: process) else { return }
        let known = ProcessGroup(self.accounts.values[index].details)
        self.accounts.values[index].resolve(details)
        if ProcessGroup(self.accounts.values[index].details) != known {
            self.accounts.values[index].leave(&self.groups)
        }
        self.accounts.values[index].join(&self.groups)
    }

    /// As ``CaptureEvent/usersNamed(_:)``.
    mutating func nameUsers(_ names: [UInt32: String?]) {
        for (uid, name) in names { self.userNames[uid] = name }
        self.accounts.forEachInPlace { account in
            // The id of a user who is gone may become another user's, and what has ended was not theirs.
            let isNamed = account.exitedAt != nil && account.details.user != nil
            if !isNamed, let name = names[account.details.uid] { account.nameUser(name) }
        }
    }

    /// The process runs another program. Its bytes wait until the daemon has looked it up.
    mutating func executed(_ process: ProcessIdentity, _ execution: Execution) {
        // Most processes that execute a program have never used a socket.
        guard let index = self.accounts.index(forKey: process) else { return self.executions.add(process, execution) }
        guard let owner = self.accounts.values[index].rename(execution) else { return }
        self.accounts.values[index].leave(&self.groups)
        self.inquiries.add(owner)
    }

    /// Nothing more will be found out: every process joins the group of what is known.
    mutating func groupAll() {
        for process in self.ungrouped {
            guard let index = self.accounts.index(forKey: process) else { continue }
            self.accounts.values[index].join(&self.groups)
        }
    }

    /// In order, because one group may take the last room: the same events give the same groups.
    private var ungrouped: [ProcessIdentity] {
        self.accounts.values.lazy.filter { $0.group == nil }.map(\.identity).sorted()
    }

    // MARK: Time

    mutating func tick(at boottime: UInt64, seconds: Double) {
        self.groups.tick(at: boottime)
        self.executions.tick()
        self.accounts.forEachInPlace { $0.tick(seconds: seconds) }
        for process in self.ungrouped {
            guard let index = self.accounts.index(forKey: process) else { continue }
            self.accounts.values[index].joinInTime(&self.groups, at: boottime)
        }
        self.inquiries.tick(boottime: boottime, processes: self.accounts.values)
    }

    /// - Returns: Whether so many processes have ended that it is time to fold.
    mutating func end(_ process: ProcessIdentity, at time: Timestamp, boottime: UInt64) -> Bool {
        self.change(process) { $0.end(at: time, boottime: boottime) }
        self.endsUnfolded += 1
        return self.endsUnfolded >= Self.mostEndsUnfolded
    }

    /// Takes processes off the list that ended before `moment`, and ended processes beyond the limits. Their groups keep
    /// their bytes.
    ///
    /// - Returns: These processes.
    mutating func fold(endedBefore moment: UInt64 = 0, within limit: UserLimit) -> [ProcessIdentity] {
        self.endsUnfolded = 0
        var gone = self.accounts.values.compactMap { process in
            process.exitedBoottime.map {
                (boottime: $0, wall: process.exitedAt, identity: process.identity, user: PayingUser(process.uid))
            }
        }
        // Processes that ended between the same two ticks are in the order of the wall clock.
        gone.sort {
            ($0.boottime, $0.wall?.nanosecondsSinceEpoch ?? 0, $0.identity)
                < ($1.boottime, $1.wall?.nanosecondsSinceEpoch ?? 0, $1.identity)
        }
        var counts: [PayingUser: Int] = [:]
        for process in gone { counts[process.user, default: 0] += 1 }
        let kept = FairShare.kept(of: counts, within: limit)
        var surplus = counts.merging(kept, uniquingKeysWith: -)
        var folded: [ProcessIdentity] = []
        for process in gone {
            let isSurplus = (surplus[process.user] ?? 0) > 0
            if isSurplus { surplus[process.user]? -= 1 }
            guard isSurplus || process.boottime < moment else { continue }
            self.fold(process.identity)
            folded.append(process.identity)
        }
        return folded
    }

    private mutating func fold(_ process: ProcessIdentity) {
        guard var account = self.accounts.removeValue(forKey: process) else { return }
        account.join(&self.groups)
        if let group = account.leave(&self.groups) { self.groups.fold(account.moved, into: group) }
    }

    // MARK: Readers

    /// What processes moved that are no longer listed.
    var exited: [ExitedUsage] {
        self.groups.exited.map { usage in
            var usage = usage
            usage.user = usage.group.uid.flatMap { self.userNames[$0] }
            return usage
        }
    }

    /// How many processes of each group are no longer listed.
    var endedProcesses: [ProcessGroup: Int] { self.groups.endedProcesses }

    /// The highest number of a group's life so far.
    var lastLife: UInt64 { self.groups.lives }

    /// - Parameter unowned: As ``GroupTotals/unowned``.
    func totals(unowned: ByteCounts) -> GroupTotals {
        self.groups.totals(with: self.accounts.values, unowned: unowned)
    }

    var seriesSums: MetricsReading.Sums<ProcessSeries, ByteCounts> {
        self.groups.seriesSums(self.totals(unowned: ByteCounts()))
    }
}

/// Programs that processes have executed which are not listed, of the last two intervals: what such a process moved before
/// may come later.
struct RecentExecutions: Codable {
    /// Of an interval.
    private static let limit = UserLimit(256, inAll: 4_096)

    private var present: [ProcessIdentity: Execution] = [:]
    private var previous: [ProcessIdentity: Execution] = [:]
    private var counts: [PayingUser: Int] = [:]

    subscript(process: ProcessIdentity) -> Execution? { self.present[process] ?? self.previous[process] }

    mutating func add(_ process: ProcessIdentity, _ execution: Execution) {
        let user = PayingUser(execution.uid)
        guard self.counts[user, default: 0] < Self.limit.ofUser, self.present.count < Self.limit.inAll else { return }
        self.counts[user, default: 0] += 1
        self.present[process] = execution
    }

    mutating func tick() { (self.previous, self.present, self.counts) = (self.present, [:], [:]) }
}

/// Processes whose details the daemon should look up, for the first time or again.
struct Inquiries: Codable {
    /// The time between two rounds in which the ledger asks again. It asks for processes without details, or with a
    /// name in doubt.
    static let period: UInt64 = 10_000_000_000

    private var pending: [OwnerObservation] = []
    private var namesAreOld = false
    private var nextRound: UInt64 = 0

    mutating func add(_ owner: OwnerObservation) { self.pending.append(owner) }

    /// Some process runs another program, and the ledger does not know which process.
    mutating func doubtNames() { self.namesAreOld = true }

    /// Asks again for processes whose event may have found no room. So a flood by one user can't hide the details or
    /// the end of another user's process.
    mutating func tick(boottime: UInt64, processes: some Sequence<ProcessAccount>) {
        guard boottime >= self.nextRound else { return }
        let isFirst = self.nextRound == 0
        self.nextRound = boottime +| Self.period
        if isFirst { return }
        for process in processes where process.exitedAt == nil && process.identity != .kernel {
            // A process without a group runs another program, and what was asked then may have found no room.
            if self.namesAreOld || !process.isResolved || process.group == nil {
                self.pending.append(process.inquiry(doubtsName: self.namesAreOld))
            }
        }
        self.namesAreOld = false
    }

    /// Asks for all processes that run: after a restart, nobody has watched them for a while.
    mutating func askAgain(_ processes: some Sequence<ProcessAccount>) {
        let asked = Set(self.pending.map(\.identity))
        for process in processes where process.exitedAt == nil && process.identity != .kernel {
            if !asked.contains(process.identity) { self.pending.append(process.inquiry(doubtsName: true)) }
        }
    }

    mutating func take() -> [OwnerObservation] {
        defer { self.pending = [] }
        return self.pending
    }
}
