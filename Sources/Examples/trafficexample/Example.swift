import ArgumentParser
import TrafficKit

/// A small shop to try TrafficKit with: a server and a customer. Both have the lines that report what their bytes are
/// for.
@main
struct Example: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficexample",
        abstract: "A server and a client that tell trafficd what their bytes are for.",
        discussion: """
            EXAMPLES
              trafficexample serve --port 8080 &
              trafficexample buy --port 8080 --seconds 60 &
              trafficctl endpoints --sort received
            """,
        subcommands: [Serve.self, Buy.self]
    )
}

struct ReportOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The daemon's socket; also TRAFFICD_REPORT_SOCKET. (default: /run/trafficd/report.sock)",
            valueName: "path"
        )
    )
    var reportSocket: String?

    @Flag(help: "Report nothing: what the same work takes without.")
    var silent = false

    /// All that a process needs in addition to what its HTTP library needs.
    func start() throws {
        if !self.silent { try TrafficMonitor.shared.start(.init(socketPath: self.reportSocket)) }
    }
}
