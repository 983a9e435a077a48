import TrafficModel

/// The newest snapshot and the rates before it.
struct Timeline: Sendable {
    private(set) var snapshot: Snapshot?
    private var histories: [ProcessIdentity: RateHistory] = [:]
    private(set) var sent = RateHistory()
    private(set) var received = RateHistory()

    /// Takes in a snapshot. Starts over where the snapshot is of another boot, or of a daemon that counts anew.
    mutating func append(_ snapshot: Snapshot) {
        if let before = self.snapshot,
            before.host.bootID != snapshot.host.bootID || before.countingSince != snapshot.countingSince
        {
            self = Timeline()
        }
        // A change of stream can bring the same moment again. Then the history stays as it is.
        let isNew = self.snapshot.map { snapshot.takenBoottimeNanoseconds > $0.takenBoottimeNanoseconds } ?? true
        self.snapshot = snapshot
        guard isNew else { return }
        self.sent.append(snapshot.totals.rates.sent)
        self.received.append(snapshot.totals.rates.received)
        var histories: [ProcessIdentity: RateHistory] = [:]
        let processes = snapshot.processes ?? []
        histories.reserveCapacity(processes.count)
        for process in processes {
            var history = self.histories[process.identity] ?? RateHistory()
            history.append(process.rates.total)
            histories[process.identity] = history
        }
        self.histories = histories
    }

    /// The rates of one process, or of several processes together.
    func history(of processes: some Sequence<ProcessIdentity>) -> RateHistory {
        var sum = RateHistory()
        for process in processes {
            if let history = self.histories[process] { sum.add(history) }
        }
        return sum
    }
}
