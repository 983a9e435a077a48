import TestSupport
import TrafficAudit
import TrafficModel

/// A ``NetworkLab`` and the daemon in it, compared after each scenario. No packet falls between two comparisons.
public final class WireWatch {
    private struct Reading {
        var counters: LabCounters
        var daemon: WireComparison.Reading
    }

    /// How many rounds the daemon may take to tell packets of no socket from packets on their way to a socket. This is
    /// not a time, because rounds take longer on a busy machine.
    private static let patience = 6

    public let lab: NetworkLab
    private let daemon: Daemon
    private var reading: Reading
    /// Every process that a generator has named, and its namespace.
    private var whereabouts: [ProcessIdentity: UInt32] = [:]

    public init(_ lab: NetworkLab, _ daemon: Daemon) async throws {
        self.lab = lab
        self.daemon = daemon
        self.reading = try await Self.quietReading(lab, daemon)
        for _ in 0..<Self.patience { self.reading = try await Self.quietReading(lab, daemon) }
        self.reading.daemon.audit = self.reading.daemon.audit.withoutUnexplained
    }

    /// Compares what passed since the last comparison.
    ///
    /// - Parameter truth: The generator's result, which knows where its processes were.
    /// - Returns: `nil` if the daemon does not count packets at interfaces.
    public func compare(_ truth: GeneratorResult) async throws -> WireComparison? {
        var rounds = 0
        while true {
            let later = try await Self.quietReading(self.lab, self.daemon)
            self.learn(truth, from: later.daemon.snapshot)
            guard later.daemon.audit.countsInterfaces else { return nil }
            var comparison = WireComparison(
                truth: WireTruth(
                    from: self.reading.counters,
                    to: later.counters,
                    aggregates: self.lab.hasOffloads
                ),
                from: self.reading.daemon,
                to: later.daemon,
                near: self.lab.near.inode,
                acrossLink: truth.acrossNamespaces,
                copied: truth.copiedBytes,
                ownersAreKnown: truth.phase != .skipped,
                whereabouts: { self.whereabouts[$0] }
            )
            comparison.differences += later.daemon.audit.differences(truth)
            rounds += 1
            if comparison.differences.isEmpty || rounds > Self.patience {
                self.reading = later
                return comparison
            }
        }
    }

    private func learn(_ truth: GeneratorResult, from snapshot: Snapshot) {
        let listed = Dictionary(grouping: snapshot.processes ?? [], by: \.identity.pid)
        for process in truth.processes {
            for row in listed[process.pid] ?? []
            where truth.isSame(row.identity, pid: process.pid, startTicks: process.startBoottimeTicks) {
                self.whereabouts[row.identity] = process.networkNamespace
            }
        }
    }

    /// Counters, and the daemon's numbers of a round that began and was read while the counters stood still.
    private static func quietReading(_ lab: NetworkLab, _ daemon: Daemon) async throws -> Reading {
        var before = try await lab.counters()
        let reading = try await look(every: .zero, until: { $0 != nil }) { () -> Reading? in
            let snapshot = try await daemon.snapshot()
            let host = try await daemon.audit()
            let audit = WireAudit(
                link: host.countsInterfaces ? try await daemon.audit(interface: NetworkLab.interface) : nil,
                loopback: host.countsInterfaces ? try await daemon.audit(interface: "lo") : nil,
                host: host
            )
            let after = try await lab.counters()
            defer { before = after }
            guard before == after else { return nil }
            return Reading(counters: after, daemon: WireComparison.Reading(snapshot: snapshot, audit: audit))
        }
        guard let reading else { throw Program.Failure(description: "the lab's counters never stood still") }
        return reading
    }
}
