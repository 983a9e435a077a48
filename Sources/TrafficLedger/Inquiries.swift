import TrafficModel

/// Which processes should be looked up (again).
struct Inquiries {
    /// How long until processes without details, or with a name in doubt, are asked for again.
    private static let period: UInt64 = 10_000_000_000

    private var pending: [OwnerObservation] = []
    private var namesAreOld = false
    private var nextRound: UInt64 = 0

    mutating func add(_ owner: OwnerObservation) { self.pending.append(owner) }

    /// Some process runs another program.
    mutating func doubtNames() { self.namesAreOld = true }

    /// Asks again for what may have found no room, so that no user's flood costs another's process its details or hides its end.
    mutating func tick(boottime: UInt64, processes: some Sequence<ProcessAccount>) {
        guard boottime >= self.nextRound else { return }
        let isFirst = self.nextRound == 0
        self.nextRound = boottime +| Self.period
        if isFirst { return }
        for process in processes where process.exitedAt == nil && process.identity != .kernel {
            if self.namesAreOld || !process.isResolved { self.pending.append(process.inquiry) }
        }
        self.namesAreOld = false
    }

    mutating func take() -> [OwnerObservation] {
        defer { self.pending = [] }
        return self.pending
    }
}
