import ArgumentParser
import FoundationEssentials
import NIOCore
import TrafficAudit
import TrafficModel
import TrafficView

struct Audit: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks that every byte between the calls and the network interface is accounted for.",
        discussion: """
            Compares what the calls moved with what TCP and the packets say of the same bytes. Between them lie \
            retransmissions, headers, acknowledgements, packets of no socket, and link headers. The last line is what \
            remains, and must be 0. A socket whose numbers disagree is listed with all its numbers.

            Covers all sockets of all network namespaces. If trafficd runs with --wire audited, it also covers the \
            packets of no socket and the interfaces of the namespace in which trafficd runs.

            EXIT CODES
              0   every byte is accounted for
              1   some bytes are not
              2   no audit could be made
              64  wrong usage

            EXAMPLES
              sudo trafficctl audit
              sudo trafficctl audit --interface eth0     (with --wire audited)
              trafficctl audit --process 1234
              trafficctl audit --socket 4711 --format json | jq '.sections[0].sent'
            """
    )

    enum Format: String, CaseIterable, ExpressibleByArgument {
        case table, json
    }

    @OptionGroup var connection: ConnectionOptions

    @Option(help: ArgumentHelp("Only this interface.", valueName: "name"))
    var interface: String?

    @Option(help: ArgumentHelp("Only what this process moved.", valueName: "pid"))
    var process: Int32?

    @Option(
        help: ArgumentHelp(
            "Only this socket, by its cookie: the last column of `trafficctl sockets`, on a wide terminal or in a pipe.",
            valueName: "cookie"
        )
    )
    var socket: UInt64?

    @Option(help: "table: for people. json: as the daemon has it.")
    var format = Format.table

    @OptionGroup var color: ColorOptions

    func validate() throws {
        let subjects = [self.interface != nil, self.process != nil, self.socket != nil].filter(\.self)
        guard subjects.count < 2 else {
            throw ValidationError("--interface, --process and --socket exclude each other.")
        }
        guard (self.process ?? 0) >= 0 else { throw ValidationError("--process must not be negative.") }
    }

    func run() async throws {
        let report: AuditReport
        do {
            report = try await self.printReport()
        } catch let failure as Failure {
            // Exit code 1 would say that a byte is unexplained, but there was no audit.
            throw Trouble(failure: failure)
        }
        if report.unexplained > 0 { throw ExitCode.failure }
    }

    private func printReport() async throws -> AuditReport {
        let answer = try await self.connection.client.get(
            "/v1/audit",
            [
                ("interface", self.interface), ("process", self.process.map(String.init)),
                ("socket", self.socket.map(String.init)),
            ]
        )
        let report = try answer.decoded(as: AuditReport.self)
        let output = StandardStream.output
        do {
            switch self.format {
            case .json:
                try output.write(answer)
            case .table:
                let view = AuditView(typeface: TerminalLocale.typeface(ascii: false), width: output.columns ?? 80)
                try output.write(view.frame(of: report), color: self.color)
            }
        } catch is OutputClosed {
            // The reader has closed the output. The exit code still tells the result.
        }
        return report
    }
}
