/// One scenario against one daemon.
public struct AccuracyCheck: Sendable {
    public enum Outcome: Sendable {
        /// The machine cannot make this traffic.
        case skipped(reason: String)
        case compared(bytes: UInt64, differences: [Difference])
    }

    public var scenario: String
    public var outcome: Outcome
    public var notes: String?

    /// Compares twice: with the sockets open, and after they were closed.
    public static func run(
        _ scenario: String,
        daemon: Daemon,
        programs: Programs,
        arguments: [String] = []
    ) async throws -> AccuracyCheck {
        let generator = try Generator(programs, scenario: scenario, arguments: arguments)
        let truth = try await generator.result()
        if truth.phase == .skipped {
            try await generator.exit()
            return AccuracyCheck(scenario: scenario, outcome: .skipped(reason: truth.reason ?? "no reason given"))
        }
        let held = Comparison(truth: truth, snapshot: try await daemon.snapshot(), socketsHeld: true)
        try generator.goOn()
        try await generator.exit()
        let closed = Comparison(truth: truth, snapshot: try await daemon.snapshot(), socketsHeld: false)
        return AccuracyCheck(
            scenario: scenario,
            outcome: .compared(
                bytes: truth.bytes,
                differences: held.differences.map { $0.marked("open") } + closed.differences.map { $0.marked("closed") }
            ),
            notes: truth.notes
        )
    }

    /// The daemon starts in mid-transfer: it must have exactly what was moved since.
    public static func runFromTheMiddle(
        _ scenario: String,
        programs: Programs,
        startDaemon: () async throws -> Daemon
    ) async throws -> (differences: [Difference], bytes: UInt64, daemon: Daemon) {
        let generator = try Generator(programs, scenario: scenario, pause: true)
        let before = try await generator.result()
        let daemon = try await startDaemon()
        try generator.goOn()
        let truth = try await generator.result().growth(since: before)
        let held = Comparison(truth: truth, snapshot: try await daemon.snapshot(), socketsHeld: true)
        try generator.goOn()
        try await generator.exit()
        let closed = Comparison(truth: truth, snapshot: try await daemon.snapshot(), socketsHeld: false)
        let differences = held.differences.map { $0.marked("open") } + closed.differences.map { $0.marked("closed") }
        return (differences, truth.bytes, daemon)
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
