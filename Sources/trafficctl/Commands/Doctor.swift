import ArgumentParser
import CommandOptions
import FoundationEssentials
import NIOCore
import TrafficDocuments
import TrafficModel
import TrafficView

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "How well trafficd counts on this machine, what it can't see, and what would help.",
        discussion: """
            The exit code is 0 even if a check is degraded, and 1 if a check failed. Receivers of metrics have a check \
            each.

            With --cost the daemon switches the kernel's BPF statistics on for a moment, and tells how often its \
            programs ran and how long they took. While statistics are on, every call of every BPF program on the \
            machine takes some nanoseconds longer; doctor measures that too. Only root and the group trafficd may ask \
            for the cost. By default the daemon may not switch them on: start it with --keep-sys-admin, or switch them \
            on yourself for the measurement (sudo sysctl kernel.bpf_stats_enabled=1, then =0).

            EXAMPLES
              trafficctl doctor
              trafficctl doctor --limits
              trafficctl doctor --cost
              trafficctl doctor --cost --duration 10s --format json | jq .cost
              trafficctl doctor --format json | jq '.checks[] | select(.status != "ok")'
            """
    )

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, json
    }

    @OptionGroup var connection: ConnectionOptions

    @Option(help: "table: for people. json: as the daemon has it.")
    var format = Format.table

    @Flag(help: "Show how much a process, a user and all users together may make trafficd keep.")
    var limits = false

    @Flag(help: "Measure what counting costs in the kernel, and wait for it.")
    var cost = false

    @Option(help: ArgumentHelp("For how long to measure with --cost, 100ms to 10s. (default: 2s)", valueName: "time"))
    var duration: TimeSpan?

    @OptionGroup var color: ColorOptions

    func validate() throws {
        guard let duration else { return }
        guard self.cost else { throw ValidationError("--duration goes with --cost.") }
        try duration.check("--duration", within: TimeSpan(seconds: 0.1)...TimeSpan(seconds: 10))
    }

    func run() async throws {
        let answer = try await self.answer()
        let report = try answer.decoded(as: DoctorReport.self)
        let output = StandardStream.output
        switch self.format {
        case .json:
            try output.write(answer)
        case .table:
            let view = DoctorView(typeface: TerminalLocale.typeface(ascii: false), width: output.columns ?? 80)
            try output.write(view.frame(of: report, showsLimits: self.limits), color: self.color)
        }
        if report.status == .failed { throw ExitCode.failure }
    }

    private func answer() async throws -> ByteBuffer {
        let client = try self.connection.client
        guard self.cost else { return try await client.get("/v1/doctor") }
        let seconds = self.duration?.seconds ?? 2
        return try await waiting("measuring", seconds: seconds) {
            try await client.get("/v1/doctor", [("cost", "\(seconds)")])
        }
    }
}
