import TrafficModel

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
            if self.namesAreOld || !process.isResolved || process.group == nil { self.pending.append(process.inquiry) }
        }
        self.namesAreOld = false
    }

    /// Asks for all processes that run: after a restart, nobody has watched them for a while.
    mutating func askAgain(_ processes: some Sequence<ProcessAccount>) {
        let asked = Set(self.pending.map(\.identity))
        for process in processes where process.exitedAt == nil && process.identity != .kernel {
            if !asked.contains(process.identity) { self.pending.append(process.inquiry) }
        }
    }

    mutating func take() -> [OwnerObservation] {
        defer { self.pending = [] }
        return self.pending
    }
}
