import TrafficModel

/// A ``Lab`` and the daemon in it, from scenario to scenario: no packet falls between two comparisons.
public final class WireWatch {
    private struct Reading {
        var counters: LabCounters
        var snapshot: Snapshot
    }

    public let lab: Lab
    private let daemon: Daemon
    private var reading: Reading
    /// Every process that a generator has named: whether it is in the near namespace.
    private var known: [ProcessIdentity: Bool] = [:]

    public init(_ lab: Lab, _ daemon: Daemon) async throws {
        self.lab = lab
        self.daemon = daemon
        self.reading = try await Self.quietReading(lab, daemon)
    }

    /// Compares what came since the last comparison.
    ///
    /// - Parameter truth: The generator's result, which knows where its processes were.
    public func compare(_ truth: GeneratorResult) async throws -> WireComparison {
        let later = try await Self.quietReading(self.lab, self.daemon)
        self.learn(truth, from: later.snapshot)
        let comparison = WireComparison(
            truth: WireTruth(
                from: self.reading.counters,
                to: later.counters,
                aggregates: self.lab.hasOffloads
            ),
            from: self.reading.snapshot,
            to: later.snapshot,
            namespace: self.lab.near.inode,
            isNear: { self.known[$0] }
        )
        self.reading = later
        return comparison
    }

    private func learn(_ truth: GeneratorResult, from snapshot: Snapshot) {
        let listed = Dictionary(grouping: snapshot.processes ?? [], by: \.identity.pid)
        for process in truth.processes {
            for row in listed[process.pid] ?? []
            where truth.isSame(row.identity, pid: process.pid, startTicks: process.startBoottimeTicks) {
                self.known[row.identity] = process.networkNamespace == self.lab.near.inode
            }
        }
    }

    /// Counters and a snapshot that was taken while they stood still.
    private static func quietReading(_ lab: Lab, _ daemon: Daemon) async throws -> Reading {
        let deadline = ContinuousClock.now + .seconds(60)
        var before = try await lab.counters()
        while true {
            let snapshot = try await daemon.snapshot()
            let after = try await lab.counters()
            if before == after { return Reading(counters: after, snapshot: snapshot) }
            guard ContinuousClock.now < deadline else {
                throw Program.Failure(description: "the lab's counters never stood still")
            }
            before = after
        }
    }
}
