import TrafficLimits
import TrafficModel

/// The bytes of process groups: what a group has moved in all, and the part of its processes that are no longer listed.
///
/// A process joins a group when the daemon has looked up its details, or has not found them out for long. It leaves when
/// it runs another program, when its details say another group, and when it leaves the list. What it moved meanwhile
/// stays with the group, so a group's sum never falls.
///
/// A user has a limited number of groups. If a further group needs room, the lives end of the groups of that user that
/// have had no listed process for the longest time: transient units and containers come and go, and would use up any
/// limit within days. A reader has the sum of an ended life under its group, so no other group's sum gets these bytes.
/// The row of its ended processes is no such sum: it moves to the user's row `_other`. If every group of a user at the
/// limit has a listed process, further groups add up in the user's group `_other`.
struct GroupAccounts: Codable {
    /// As in ``ExitedUsage``.
    private struct Exited: Codable {
        var processes = 0
        var bytes = ByteCounts()
        var explained: UInt64 = 0
    }

    private struct Departure: Codable {
        var group: ProcessGroup
        /// Its number among all departures.
        var number: UInt64
    }

    private struct Account: Codable {
        let number: UInt64
        let beganAt: UInt64
        /// As ``GroupSeries/begin(_:)`` returned it.
        let series: Int?
        /// What the group had moved when its series began: 0, unless an earlier version of the program counted it.
        var beforeSeries = ByteCounts()
        /// Listed processes in this group.
        var members = 0
        /// The number of the last departure of a member, among all departures.
        var lastDeparture: UInt64 = 0
        /// What processes moved that have left the group.
        var bytes = ByteCounts()
        var explained: UInt64 = 0
        /// All that processes moved, in this group and others, that were in this group when they were folded.
        var exited = Exited()

        init(number: UInt64, at boottime: UInt64, series: Int?) {
            (self.number, self.beganAt, self.series) = (number, boottime, series)
        }

        /// All processes of the life have ended.
        mutating func goOn(with life: GroupLife) {
            self.bytes += life.bytes
            self.explained +|= life.explained
            // A series may have had more lives than this one, and nobody knows what those had. All begin anew.
            self.beforeSeries = self.bytes
            self.exited.bytes += life.bytes
            self.exited.explained +|= life.explained
        }

        var hasExited: Bool { self.exited.processes > 0 || self.exited.bytes != ByteCounts() }
    }

    /// The groups of a user, besides `_other`.
    private struct Share: Codable {
        var groups = 0
        /// Groups in the order in which their last member left, each with the number of that departure. A group that has
        /// got members since, or whose life has ended, is still here.
        var left: [Departure] = []
        /// The first of `left` that was not looked at.
        var next = 0
    }

    var configuration: LedgerConfiguration
    private var accounts: [ProcessGroup: Account] = [:]
    private var shares: [PayingUser: Share] = [:]
    /// Groups besides `_other`.
    private var count = 0
    /// The highest number of a life so far.
    private(set) var lives: UInt64 = 0
    private var departures: UInt64 = 0
    /// By user. A user's bytes are always under the same key; `nil` for users beyond the limit of all groups, and for
    /// subordinate ids.
    private var endedLives: [UInt32?: ByteCounts] = [:]
    private var series = GroupSeries()
    /// There was no group without a process to end since the last tick. A look at all users takes long.
    private var isFull = false
    /// `CLOCK_BOOTTIME` of the last tick; 0: none yet.
    private var now: UInt64 = 0

    init(_ configuration: LedgerConfiguration) {
        self.configuration = configuration
    }

    /// How many groups a user may have, and all users. If there are too many users, they share one group `_other` of no
    /// user.
    private var limit: Ledger.Retention.Limit { self.configuration.retention.groupLimit }

    mutating func tick(at boottime: UInt64) { (self.now, self.isFull) = (boottime, false) }

    // MARK: Processes

    /// - Returns: The group that the process is in now: its own, or `_other`. The process must leave it.
    mutating func join(_ group: ProcessGroup) -> ProcessGroup {
        let admitted = self.admitted(group)
        self.change(admitted) { $0.members += 1 }
        return admitted
    }

    /// - Parameters:
    ///   - group: As ``join(_:)`` returned it.
    ///   - bytes: What the process has moved since it joined.
    mutating func leave(_ group: ProcessGroup, _ bytes: ByteCounts, explained: UInt64) {
        self.departures += 1
        let departure = self.departures
        let isEmpty = self.accounts.changeInPlace(group) { account in
            account.members -= 1
            account.lastDeparture = departure
            account.bytes += bytes
            account.explained +|= explained
            return account.members == 0
        }
        if isEmpty == true, let user = group.payer, !group.isOther { self.queue(group, departure, of: user) }
    }

    private mutating func queue(_ group: ProcessGroup, _ departure: UInt64, of user: PayingUser) {
        let accounts = self.accounts
        self.shares.changeInPlace(user) { share in
            // Processes that come and go in the same groups leave entries behind.
            if share.left.count > 2 * share.groups + 16 {
                share.left = share.left[share.next...].filter { accounts[$0.group]?.lastDeparture == $0.number }
                share.next = 0
            }
            share.left.append(Departure(group: group, number: departure))
        }
    }

    /// A process that has left the group is no longer listed.
    ///
    /// - Parameter moved: All that the process has moved, in this group and others.
    mutating func fold(_ moved: ProcessAccount.Moved, into group: ProcessGroup) {
        self.change(group) { account in
            account.exited.processes += 1
            account.exited.bytes += moved.bytes.settled
            account.exited.explained +|= moved.explained
        }
    }

    /// Adds bytes of processes that are not listed and have no name.
    ///
    /// - Parameter uid: `nil` if the user of these bytes is not known.
    mutating func add(_ bytes: ByteCounts, ofUser uid: UInt32?) {
        self.change(self.other(of: uid)) { account in
            account.bytes += bytes
            account.exited.bytes += bytes
        }
    }

    /// Changes an account, and makes it if there is none.
    private mutating func change(_ group: ProcessGroup, _ body: (inout Account) -> Void) {
        if self.accounts[group] == nil {
            self.lives += 1
            self.accounts[group] = Account(number: self.lives, at: self.now, series: self.series.begin(group))
        }
        self.accounts.changeInPlace(group, body)
    }

    // MARK: Lives

    private mutating func admitted(_ group: ProcessGroup) -> ProcessGroup {
        guard let user = group.payer, !group.isOther else { return self.other(of: group.uid) }
        if self.accounts[group] != nil { return group }
        guard self.makeRoom(for: user) else { return self.other(of: group.uid) }
        self.shares[user, default: Share()].groups += 1
        self.count += 1
        return group
    }

    /// The rows of users and of groups together are at most three times the groups' limit.
    private func other(of uid: UInt32?) -> ProcessGroup {
        let other = ProcessGroup.other(of: uid)
        return self.accounts[other] != nil || self.accounts.count < 2 * self.limit.inAll ? other : .other(of: nil)
    }

    /// Makes room for a group of a user. A user at the user's own limit gives up an own group. If all users together are
    /// at the limit, the user with the most groups gives up one, but never for a user with as many.
    private mutating func makeRoom(for user: PayingUser) -> Bool {
        // A restored ledger may be far beyond a limit that is lower now.
        while let own = self.shares[user]?.groups, own >= self.limit.ofUser {
            guard self.endOldestLife(of: user) else { return false }
        }
        let own = self.shares[user]?.groups ?? 0
        while self.count >= self.limit.inAll {
            guard !self.isFull,
                let most = self.shares.max(by: { ($0.value.groups, $0.key) < ($1.value.groups, $1.key) })
            else { return false }
            self.isFull = most.value.groups <= own + 1 || !self.endOldestLife(of: most.key)
        }
        return true
    }

    /// - Returns: `false` if each group of the user has a listed process.
    private mutating func endOldestLife(of user: PayingUser) -> Bool {
        while let share = self.shares[user], share.next < share.left.count {
            let departure = share.left[share.next]
            self.shares.changeInPlace(user) { $0.next += 1 }
            guard let account = self.accounts[departure.group], account.members == 0,
                account.lastDeparture == departure.number
            else { continue }
            self.end(departure.group, account, of: user)
            return true
        }
        return false
    }

    private mutating func end(_ group: ProcessGroup, _ account: Account, of user: PayingUser) {
        self.accounts[group] = nil
        self.count -= 1
        self.shares.changeInPlace(user) { $0.groups -= 1 }
        if self.shares[user]?.groups == 0 { self.shares[user] = nil }
        let isKnown = self.endedLives[user.uid] != nil || self.endedLives.count < self.limit.inAll
        self.endedLives[isKnown ? user.uid : nil, default: ByteCounts()] += account.bytes
        self.series.end(group, at: account.series, account.bytes.growth(since: account.beforeSeries))
        self.change(self.other(of: group.uid)) { other in
            other.exited.processes += account.exited.processes
            other.exited.bytes += account.exited.bytes
            other.exited.explained +|= account.exited.explained
        }
    }

    /// Begins with the groups of another ledger. None of their processes is listed: what they moved is in the rows of ended
    /// processes.
    ///
    /// - Parameters:
    ///   - endedProcesses: How many of each group have ended.
    ///   - lastLife: The highest number of a life so far.
    mutating func goOn(with totals: GroupTotals, endedProcesses: [ProcessGroup: Int], lastLife: UInt64) {
        self.lives = lastLife
        for life in totals.lives {
            // To a program that knew more of groups, this one may have been two.
            guard self.accounts.changeInPlace(life.group, { $0.goOn(with: life) }) == nil else { continue }
            let series = self.series.begin(life.group)
            var account = Account(number: life.number, at: life.beganBoottimeNanoseconds, series: series)
            account.goOn(with: life)
            account.exited.processes = endedProcesses[life.group] ?? 0
            self.departures += 1
            account.lastDeparture = self.departures
            self.accounts[life.group] = account
            guard let user = life.group.payer, !life.group.isOther else { continue }
            self.count += 1
            self.shares[user, default: Share()].groups += 1
            self.queue(life.group, self.departures, of: user)
        }
        self.endedLives = totals.endedLives
        for (uid, bytes) in totals.endedLives { self.change(self.other(of: uid)) { $0.exited.bytes += bytes } }
    }

    // MARK: Readers

    /// How many processes of each group are no longer listed.
    var endedProcesses: [ProcessGroup: Int] {
        self.accounts.mapValues(\.exited.processes).filter { $0.value > 0 }
    }

    /// What processes moved that are no longer listed.
    var exited: [ExitedUsage] {
        self.accounts.filter(\.value.hasExited).map { group, account in
            ExitedUsage(
                group: group,
                processes: account.exited.processes,
                bytes: account.exited.bytes,
                explained: account.exited.explained
            )
        }
        .sorted { $0.group.order < $1.group.order }
    }

    /// - Parameters:
    ///   - processes: All that are listed.
    ///   - unowned: As ``GroupTotals/unowned``.
    func totals(with processes: some Collection<ProcessAccount>, unowned: ByteCounts) -> GroupTotals {
        var totals = GroupTotals(endedLives: self.endedLives, unowned: unowned)
        var indexes: [ProcessGroup: Int] = [:]
        for (group, account) in self.accounts.sorted(by: { $0.value.number < $1.value.number }) {
            indexes[group] = totals.lives.count
            totals.lives.append(
                GroupLife(
                    group: group,
                    number: account.number,
                    beganBoottimeNanoseconds: account.beganAt,
                    processes: account.members,
                    bytes: account.bytes,
                    explained: account.explained
                )
            )
        }
        for process in processes {
            let since = process.sinceItJoined
            if let group = process.group, let index = indexes[group] {
                totals.lives[index].bytes += since.bytes
                totals.lives[index].explained +|= since.explained
            } else {
                totals.unknown += since.bytes
            }
        }
        return totals
    }

    /// - Parameter totals: As ``totals(with:unowned:)`` returned them.
    func seriesSums(_ totals: GroupTotals) -> MetricsReading.Sums<ProcessSeries, ByteCounts> {
        self.series.sums(
            with: totals.lives.lazy.map { life in
                let account = self.accounts[life.group]
                let bytes = life.bytes.growth(since: account?.beforeSeries ?? ByteCounts())
                return (account?.series, life.group.uid, bytes)
            }
        )
    }
}

extension ProcessGroup {
    /// Sorts the same groups into the same order each time.
    fileprivate var order: (String, String, UInt32, String, String) {
        (self.name, self.executable ?? "", self.uid ?? .max, self.systemdUnit ?? "", self.containerID ?? "")
    }
}
