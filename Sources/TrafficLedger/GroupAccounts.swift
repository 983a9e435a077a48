import TrafficModel

/// The bytes of process groups: what a group has moved in all, and the part of its processes that are no longer listed.
///
/// A process joins a group when its details are known, or when it ends. It leaves when its details change, and when it is
/// folded, and what it moved meanwhile stays with the group. So a group's sum never falls.
///
/// A user has a limited number of groups. If a further group needs room, the lives end of the groups of that user that
/// have had no listed process for the longest time: transient units and containers come and go, and would use up any
/// limit within days. What exceeds the limit adds up in the user's group `_other`.
struct GroupAccounts {
    private struct Account {
        let number: UInt64
        let beganAt: UInt64
        /// Listed processes in this group.
        var members = 0
        /// When the last member left: the number of departures so far.
        var leftAt: UInt64 = 0
        /// What processes moved that have left the group.
        var bytes = ByteCounts()
        var explained: UInt64 = 0
        /// All that processes moved, in this group and others, that were in this group when they were folded.
        var exited: ExitedUsage

        init(_ group: ProcessGroup, number: UInt64, at boottime: UInt64) {
            (self.number, self.beganAt, self.exited) = (number, boottime, ExitedUsage(group: group))
        }

        var hasExited: Bool { self.exited.processes > 0 || self.exited.bytes != ByteCounts() }
    }

    /// How many groups a user has, besides `_other`.
    private struct Share {
        var groups = 0
        /// Groups without a listed process.
        var empty = 0
    }

    private let limit: Ledger.Retention.Limit
    private var accounts: [ProcessGroup: Account] = [:]
    private var shares: [UInt32: Share] = [:]
    /// Groups besides `_other`.
    private var count = 0
    private var lives: UInt64 = 0
    private var departures: UInt64 = 0
    private var ended = ByteCounts()
    /// `CLOCK_BOOTTIME` of the last tick.
    var now: UInt64 = 0

    /// - Parameter limit: How many groups a user may have, and all users. If there are too many users, they share one
    ///   group `_other` of no user.
    init(limit: Ledger.Retention.Limit) {
        self.limit = limit
    }

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
        let departures = self.departures
        self.change(group) { account in
            account.members -= 1
            account.leftAt = departures
            account.bytes += bytes
            account.explained +|= explained
        }
    }

    /// The process is no longer listed.
    mutating func fold(_ process: consuming ProcessAccount) {
        process.join(&self)
        let group = process.group ?? .other(of: process.uid)
        process.leave(&self)
        self.change(group) { account in
            account.exited.processes += 1
            account.exited.bytes += process.bytes.settled
            account.exited.explained +|= process.explained
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

    /// - Parameter uid: `nil` if the user of these bytes is not known.
    mutating func add(_ row: FoldedRows.Row, ofUser uid: UInt32?) {
        var bytes = ByteCounts(payload: row.owner.payload, retransmitted: row.retransmitted)
        bytes.add(wire: row.wire)
        self.add(bytes, ofUser: uid)
    }

    /// Changes an account, and makes it if there is none.
    private mutating func change(_ group: ProcessGroup, _ body: (inout Account) -> Void) {
        let (wasEmpty, isEmpty) = self.withAccount(group) { account in
            let wasEmpty = account.members == 0
            body(&account)
            return (wasEmpty, account.members == 0)
        }
        guard wasEmpty != isEmpty, let uid = group.uid, !group.isOther else { return }
        self.shares[uid, default: Share()].empty += isEmpty ? 1 : -1
    }

    private mutating func withAccount<Result>(_ group: ProcessGroup, _ body: (inout Account) -> Result) -> Result {
        if self.accounts[group] == nil {
            self.lives += 1
            self.accounts[group] = Account(group, number: self.lives, at: self.now)
        }
        return body(&self.accounts[group]!)
    }

    // MARK: Lives

    private mutating func admitted(_ group: ProcessGroup) -> ProcessGroup {
        guard let uid = group.uid, !group.isOther else { return self.other(of: group.uid) }
        if self.accounts[group] != nil { return group }
        if !self.hasRoom(for: uid) { self.endLives(for: uid) }
        guard self.hasRoom(for: uid) else { return self.other(of: uid) }
        self.shares[uid, default: Share()].groups += 1
        self.shares[uid, default: Share()].empty += 1
        self.count += 1
        return group
    }

    private func hasRoom(for uid: UInt32) -> Bool {
        self.shares[uid, default: Share()].groups < self.limit.ofUser && self.count < self.limit.inAll
    }

    /// The rows of users and of groups together are at most twice the groups' limit.
    private func other(of uid: UInt32?) -> ProcessGroup {
        let other = ProcessGroup.other(of: uid)
        return self.accounts[other] != nil || self.accounts.count < 2 * self.limit.inAll ? other : .other(of: nil)
    }

    /// Makes room for a group of a user. A user at the user's own limit gives up own groups. Otherwise all users
    /// together are at the limit, and the user with the most groups gives up some.
    private mutating func endLives(for uid: UInt32) {
        var giver = uid
        if self.shares[uid, default: Share()].groups < self.limit.ofUser {
            let most = self.shares.filter { $0.value.empty > 0 }.max {
                ($0.value.groups, $0.key) < ($1.value.groups, $1.key)
            }
            guard let most else { return }
            giver = most.key
        }
        guard self.shares[giver, default: Share()].empty > 0 else { return }
        // Some at a time, because to find the oldest takes a look at all groups.
        let oldest = self.accounts.filter { $0.key.uid == giver && !$0.key.isOther && $0.value.members == 0 }
            .sorted { $0.value.leftAt < $1.value.leftAt }
            .prefix(max(1, self.limit.ofUser / 8))
        for (group, account) in oldest { self.end(group, account, of: giver) }
    }

    /// Nothing that was read of the group before is read again under another name: its bytes go to `ended`.
    private mutating func end(_ group: ProcessGroup, _ account: Account, of uid: UInt32) {
        self.accounts[group] = nil
        self.count -= 1
        self.shares[uid, default: Share()].groups -= 1
        self.shares[uid, default: Share()].empty -= 1
        if self.shares[uid]?.groups == 0 { self.shares[uid] = nil }
        self.ended += account.bytes
        self.withAccount(self.other(of: uid)) { other in
            other.exited.processes += account.exited.processes
            other.exited.bytes += account.exited.bytes
            other.exited.explained +|= account.exited.explained
        }
    }

    // MARK: Readers

    /// What processes moved that are no longer listed.
    var exited: [ExitedUsage] {
        self.accounts.values.filter(\.hasExited).map(\.exited).sorted { $0.group.order < $1.group.order }
    }

    /// - Parameter processes: All that are listed.
    func totals(with processes: some Collection<ProcessAccount>) -> GroupTotals {
        var totals = GroupTotals(ended: self.ended)
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
                totals.unnamed += since.bytes
            }
        }
        return totals
    }
}

extension ProcessGroup {
    fileprivate var isOther: Bool { self == .other(of: self.uid) }

    /// Sorts the same groups into the same order each time.
    fileprivate var order: (String, String, UInt32, String, String) {
        (self.name, self.executable ?? "", self.uid ?? .max, self.systemdUnit ?? "", self.containerID ?? "")
    }
}
