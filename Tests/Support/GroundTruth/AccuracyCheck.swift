import Foundation
import TestSupport
import TrafficModel

/// Checks one scenario against one daemon.
public struct AccuracyCheck: Sendable {
    public enum Outcome: Sendable {
        /// The machine cannot make this traffic.
        case skipped(reason: String)
        /// - Parameters:
        ///   - bytes: What the generator's processes moved.
        ///   - off: By how many bytes the daemon's processes differ from that.
        ///   - notes: What the generator has to say about the run.
        case compared(bytes: UInt64, off: UInt64, differences: [Difference], notes: String?)
    }

    public var scenario: String
    public var outcome: Outcome
    /// `nil` outside a lab.
    public var wire: WireComparison?
    /// Whether the traffic went from one namespace to another.
    public var acrossNamespaces = false

    /// - Parameter watch: A lab. The generator then runs in its near namespace, with servers in the peer namespace only
    ///   where `arguments` say so.
    public static func run(
        _ scenario: String,
        daemon: Daemon,
        programs: Programs,
        arguments: [String] = [],
        in watch: WireWatch? = nil
    ) async throws -> AccuracyCheck {
        let reports = try await daemon.latestSnapshot().capture.reports
        let generator = try Generator(
            programs,
            scenario: scenario,
            arguments: ["--report-socket", daemon.directories.reportSocket.path] + arguments,
            launcher: watch?.lab.near.launcher
        )
        let truth = try await generator.result()
        if truth.phase == .skipped {
            try await generator.exit()
            return AccuracyCheck(
                scenario: scenario,
                outcome: .skipped(reason: truth.reason ?? "no reason given"),
                wire: try await watch?.compare(truth),  // what the generator sent before it gave up
                acrossNamespaces: truth.acrossNamespaces
            )
        }
        let outcome = try await self.compare(truth, generator, daemon, since: reports)
        return AccuracyCheck(
            scenario: scenario,
            outcome: outcome,
            wire: try await watch?.compare(truth),
            acrossNamespaces: truth.acrossNamespaces
        )
    }

    /// Starts the daemon in mid-transfer. The daemon must have exactly what was moved since its start.
    public static func runFromTheMiddle(
        _ scenario: String,
        programs: Programs,
        startDaemon: () async throws -> Daemon
    ) async throws -> (check: AccuracyCheck, daemon: Daemon) {
        let generator = try Generator(programs, scenario: scenario, pause: true)
        let before = try await generator.result()
        let daemon = try await startDaemon()
        try generator.goOn()
        let truth = try await generator.result().growth(since: before)
        return (AccuracyCheck(scenario: scenario, outcome: try await self.compare(truth, generator, daemon)), daemon)
    }

    /// A snapshot taken after the daemon has decided about every record. A claim may wait until counts confirm it.
    private static func snapshot(
        _ daemon: Daemon,
        after reports: GeneratorResult.Reports,
        since before: ReportCounters
    ) async throws -> Snapshot {
        try await look(until: { snapshot in
            let now = snapshot.capture.reports
            let settled = now.joined + now.rejected - before.joined - before.rejected
            return settled >= reports.joined + reports.rejected
        }) { try await daemon.snapshot() }
    }

    /// Compares again while the daemon says that bytes come later.
    private static func comparison(_ compare: () async throws -> Comparison) async throws -> Comparison {
        try await look(until: { $0.differences.isEmpty || !$0.isOfLateSnapshot }, compare)
    }

    /// Compares twice: with the sockets open, and after they were closed.
    private static func compare(
        _ truth: GeneratorResult,
        _ generator: Generator,
        _ daemon: Daemon,
        since reports: ReportCounters = ReportCounters()
    ) async throws -> Outcome {
        let held = try await self.comparison {
            let open = try await self.snapshot(daemon, after: truth.reports, since: reports)
            return Comparison(truth: truth, snapshot: open, socketsHeld: true, since: reports)
        }
        try generator.goOn()
        try await generator.exit()
        let closed = try await self.comparison {
            Comparison(truth: truth, snapshot: try await daemon.snapshot(), socketsHeld: false, since: reports)
        }
        return .compared(
            bytes: truth.bytes,
            off: max(held.processDifference, closed.processDifference),
            differences: held.differences.map { $0.marked("open") } + closed.differences.map { $0.marked("closed") },
            notes: truth.notes
        )
    }
}

extension Difference {
    /// - Parameter phase: Whether the sockets were open or closed.
    func marked(_ phase: String) -> Difference {
        var marked = self
        marked.subject = "[\(phase)] " + marked.subject
        return marked
    }
}
