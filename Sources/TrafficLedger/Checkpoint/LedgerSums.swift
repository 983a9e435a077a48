import TrafficModel

/// The sums of a ledger: what a program goes on with that can't read the rest of a checkpoint. They have numbers and texts
/// alone, so any program can read those of any other.
struct LedgerSums: Codable, Hashable {
    /// Without endpoints and interfaces (``HistorySums``). No ledger knows when the count began:
    /// ``Balance/countingSince`` is 0.
    var balance: Balance
    /// How many processes of each group are no longer listed.
    var endedProcesses: [ProcessGroup: Int]
    /// The highest number of a life so far.
    var lastLife: UInt64
    var loss: CaptureLoss

    init(_ ledger: Ledger) {
        self.balance = ledger.balanceOfSockets(countingSince: Timestamp(nanosecondsSinceEpoch: 0))
        self.endedProcesses = ledger.processes.endedProcesses
        self.lastLife = ledger.processes.lastLife
        self.loss = ledger.wholeLoss
    }

    /// Whether a ledger can go on with them.
    var areSound: Bool {
        let numbers = Set(self.balance.groups.lives.map(\.number))
        return numbers.count == self.balance.groups.lives.count && numbers.allSatisfy { $0 <= self.lastLife }
            && self.lastLife <= UInt64(Int64.max)
            && self.endedProcesses.values.allSatisfy { $0 >= 0 && $0 <= Int(Int32.max) }
    }

    /// Whether the ledger has moved these bytes: in all, by scope, by each life of a group, and besides. Nothing else is
    /// compared, because programs may know more or less of a group.
    func areOf(_ ledger: Ledger) -> Bool {
        func bytes(_ groups: GroupTotals) -> [UInt64: ByteCounts] {
            groups.lives.reduce(into: [:]) { $0[$1.number] = $1.bytes }
        }
        let (known, now) = (self.balance.groups, ledger.groupTotals)
        return self.balance.bytes == ledger.totals.settled
            && self.balance.byScope == ledger.destinations.byScope.mapValues(\.settled)
            && bytes(known) == bytes(now) && known.endedLives == now.endedLives
            && known.unknown == now.unknown && known.unowned == now.unowned
    }
}

/// What history has of a ledger besides: a program that can't read these goes on without them.
struct HistorySums: Codable, Hashable {
    /// As ``Ledger/seriesSince``: these sums of two ledgers can be compared only if it is the same.
    var since: Timestamp?
    var endpoints: [EndpointSum] = []
    var interfaces = InterfaceTotals()
}
