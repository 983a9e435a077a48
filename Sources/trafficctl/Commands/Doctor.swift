import ArgumentParser
import FoundationEssentials
import NIOCore
import TrafficModel
import TrafficView

struct Doctor: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "How well trafficd counts on this machine, what it can't see, and what would help.",
        discussion: """
            Exits with 0 also where something is degraded, and with 1 where a check failed.

            EXAMPLES
              trafficctl doctor
              trafficctl doctor --format json | jq '.checks[] | select(.status != "ok")'
            """
    )

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, json
    }

    @OptionGroup var connection: ConnectionOptions

    @Option(help: "table: for people. json: as the daemon has it.")
    var format = Format.table

    @OptionGroup var color: ColorOptions

    func run() async throws {
        let answer = try await self.connection.client.get("/v1/doctor")
        let report: DoctorReport
        do {
            report = try JSONDecoder().decode(DoctorReport.self, from: Data(answer.readableBytesView))
        } catch {
            throw Failure.unreadableAnswer(reason: "\(error)")
        }
        let output = StandardStream.output
        switch self.format {
        case .json:
            try output.write(answer)
        case .table:
            let view = DoctorView(typeface: TerminalLocale.typeface(ascii: false), width: output.columns ?? 80)
            try output.write(view.frame(of: report), inColor: self.color.isWanted)
        }
        if report.status == .failed { throw ExitCode.failure }
    }
}
