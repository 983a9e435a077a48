import TrafficModel

/// The bytes of processes that are no longer listed, per executable.
struct ExitedAccounts {
    private struct Group: Hashable {
        var name: String
        var executable: String?
        /// Set only in a user's row `_other`.
        var uid: UInt32?

        static func other(of uid: UInt32?) -> Group { Group(name: "_other", uid: uid) }
    }

    private let limit: Ledger.Retention.Limit
    private var accounts: [Group: ExitedUsage] = [:]
    /// How many executables the ledger first saw with each user.
    private var groupsOfUser: [UInt32: Int] = [:]

    /// - Parameter limit: How many executables have a row of their own. Further executables add up in a row `_other` of
    ///   their user. If there are too many users, they add up in one row `_other` of no user.
    init(limit: Ledger.Retention.Limit) {
        self.limit = limit
    }

    mutating func fold(_ process: ProcessAccount) {
        // One executable under several names (busybox) has a row for each name. A name without an executable stands for
        // processes that were gone before the daemon could read /proc.
        let group = self.admitted(
            Group(name: process.details.name, executable: process.details.executable),
            of: process.uid
        )
        self.add(process.bytes, explained: process.explained, processes: 1, to: group)
    }

    /// - Parameter uid: `nil` if the user of these bytes is not known.
    mutating func add(_ row: FoldedRows.Row, ofUser uid: UInt32?) {
        var bytes = ByteCounts(payload: row.owner.payload, retransmitted: row.retransmitted)
        bytes.add(wire: row.wire)
        self.add(bytes, ofUser: uid)
    }

    /// - Parameter uid: `nil` if the user of these bytes is not known.
    mutating func add(_ bytes: ByteCounts, ofUser uid: UInt32?) {
        self.add(bytes, explained: 0, processes: 0, to: uid.map { self.other(of: $0) } ?? .other(of: nil))
    }

    private mutating func admitted(_ group: Group, of uid: UInt32) -> Group {
        if self.accounts[group] != nil { return group }
        let ofUser = self.groupsOfUser[uid, default: 0]
        guard ofUser < self.limit.ofUser, self.accounts.count < self.limit.inAll else { return self.other(of: uid) }
        self.groupsOfUser[uid] = ofUser + 1
        return group
    }

    /// The rows of users and of executables together are at most twice the executables' limit.
    private func other(of uid: UInt32) -> Group {
        let group = Group.other(of: uid)
        return self.accounts[group] != nil || self.accounts.count < 2 * self.limit.inAll ? group : .other(of: nil)
    }

    private mutating func add(_ bytes: ByteCounts, explained: UInt64, processes: Int, to group: Group) {
        var usage =
            self.accounts[group]
            ?? ExitedUsage(
                name: group.name,
                executable: group.executable,
                uid: group.uid,
                processes: 0,
                bytes: ByteCounts()
            )
        usage.processes += processes
        usage.bytes += bytes
        usage.explained +|= explained
        usage.bytes.pendingSent = 0  // a gauge of open sockets only
        self.accounts[group] = usage
    }

    var usages: [ExitedUsage] {
        self.accounts.values.sorted {
            ($0.name, $0.executable ?? "", $0.uid ?? 0) < ($1.name, $1.executable ?? "", $1.uid ?? 0)
        }
    }
}
