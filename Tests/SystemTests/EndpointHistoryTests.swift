import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// What a reporting server answers, in history, against curl's own counts; and what an interface counts, against
    /// /sys/class/net.
    @Suite(.needsBPF, .needs("curl", "python3"))
    struct EndpointHistoryTests {
        /// What curl has counted, by route.
        private struct Truth: Equatable {
            var requests: UInt64 = 0
            var failures: UInt64 = 0
            /// Request line and header; response line and header; body.
            var asked: UInt64 = 0
            var answered: UInt64 = 0
            var body: UInt64 = 0
            var ended: UInt64 = 0

            mutating func add(_ transfer: Curl.Transfer) {
                self.requests += 1
                self.ended += 1
                self.failures += transfer.status >= 400 ? 1 : 0
                self.asked += transfer.requestBytes
                self.answered += transfer.headerBytes
                self.body += transfer.bodyBytes
            }
        }

        private static let routes = ["/length/{id}": "length/", "/chunked/{id}": "chunked/", "/status/{id}": "status/"]

        private static func paths(_ random: inout Seeded) -> [String] {
            (0..<Int.random(in: 3...30, using: &random)).map { number in
                switch number % 4 {
                case 0, 1: "length/\(Int.random(in: 0...9_999, using: &random))"
                case 2: "chunked/\(Int.random(in: 0...9_999, using: &random))"
                default: "status/\([404, 500, 204, 503].randomElement(using: &random) ?? 404)"
                }
            }
        }

        /// Lets curl ask, and waits until the daemon has as many exchanges as curl has made, and until a checkpoint has
        /// them: what comes later may be missing if the daemon is killed.
        private static func ask(
            _ paths: [String],
            of server: InstrumentedServer,
            _ daemon: Daemon,
            _ truth: inout [String: Truth]
        ) async throws {
            let transfers = try await Curl.run([], paths.map { "\(server.url)/\($0)" })
            #expect(transfers.count == paths.count)
            for (path, transfer) in zip(paths, transfers) {
                let route = self.routes.first { path.hasPrefix($0.value) }?.key ?? ""
                truth[route, default: Truth()].add(transfer)
            }
            let wanted = truth.values.reduce(0) { $0 + $1.requests }
            let ended = try await look(until: { $0 == wanted }) {
                (try await daemon.snapshot().endpoints ?? []).reduce(0) { $0 + $1.outcomes.values.reduce(0, +) }
            }
            #expect(ended == wanted)
            #expect(try await daemon.waitForCheckpoint(), "no checkpoint")
        }

        private static func report(
            _ directories: DaemonDirectories,
            _ arguments: String...
        ) async throws -> HistoryReport {
            let said = try await Program.run(
                Machine.programs.client,
                ["history", "--since", "1h", "--format", "json"] + arguments + directories.arguments
            )
            #expect(said.code == 0, "\(said.error)")
            return try JSONDecoder().decode(HistoryReport.self, from: said.output)
        }

        private static func truth(_ report: HistoryReport) -> [String: Truth] {
            report.rows.reduce(into: [:]) { sums, row in
                guard case .messages(let counts) = row.amounts else { return }
                var truth = Truth(requests: counts.requests, failures: counts.failures, body: counts.sent.body)
                truth.ended = counts.ended
                truth.asked = counts.received.message - counts.received.body
                // curl does not count the framing of chunks, which are a part of the rest.
                truth.answered = counts.sent.header
                sums[row.name.route ?? ""] = truth
            }
        }

        @Test("history by route has curl's requests and bytes once, over stops, starts and kill -9")
        func routes() async throws {
            var random = Seeded(41)
            let pinned = try PinnedDaemons()
            let arguments = ["--state-directory", pinned.state, "--config", pinned.configuration.path]
            try pinned.configure(0)
            let server = try await InstrumentedServer(reportingTo: pinned.directories.reportSocket.path)
            var truth: [String: Truth] = [:]
            for round in 1...8 {
                let daemon = try await pinned.start(arguments)
                try await Self.ask(Self.paths(&random), of: server, daemon, &truth)
                for minute in 0..<Int.random(in: 0...2, using: &random) {
                    try pinned.configure(round * 10 + minute)
                    daemon.program.signal(SIGHUP)
                    try await Self.ask(Self.paths(&random), of: server, daemon, &truth)
                }
                if round % 2 == 0 {
                    #expect(try await daemon.stop() == 0)
                } else {
                    #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
                }
            }
            // The last daemon hands over what the one before had counted, and ends its minute.
            #expect(try await pinned.start(arguments).stop() == 0)
            let daemon = try await pinned.start(arguments)
            let report = try await Self.report(pinned.directories, "--by", "route")
            var said = Self.truth(report)
            for route in said.keys { said[route]?.answered = 0 }
            var wanted = truth
            for route in wanted.keys { wanted[route]?.answered = 0 }
            #expect(said == wanted)
            #expect(report.rows.allSatisfy { $0.name.host == "127.0.0.1" && $0.name.role == "server" })
            // Lines and headers of the responses are curl's, and the rest is framing.
            let sent = report.sums.sum.sent
            let answered = truth.values.reduce(0) { $0 + $1.answered + $1.body }
            let framing = try await daemon.snapshot().endpoints?.reduce(0) { $0 + $1.sent.framing }
            #expect(sent == answered + (framing ?? 0))
            let hosts = try await Self.report(pinned.directories, "--by", "host")
            #expect(hosts.rows.count == 1 && hosts.sums == report.sums)
            let filtered = try await Self.report(
                pinned.directories,
                "--by",
                "process",
                "--filter",
                "route:/status host:127"
            )
            #expect(Self.truth(filtered).values.map(\.requests) == [truth["/status/{id}"]?.requests])
            let table = try await Program.run(
                Machine.programs.client,
                ["history", "--by", "route"] + pinned.directories.arguments
            )
            let text = String(decoding: table.output, as: UTF8.self)
            #expect(text.contains(" requests, sent ") && text.contains("/length/{id}"), "\(text) \(table.error)")
            let csv = try await Program.run(
                Machine.programs.client,
                ["history", "--by", "host", "--format", "csv"] + pinned.directories.arguments
            )
            #expect(String(decoding: csv.output, as: UTF8.self).contains(",server,127.0.0.1,,,"))
            // Python's own SQLite reads the same requests.
            let script = """
                import sqlite3, sys
                file = sqlite3.connect("file:" + sys.argv[1] + "/history.sqlite?mode=ro", uri=True)
                print(*[file.execute("SELECT sum(requests) FROM endpoint_" + level).fetchone()[0]
                    for level in ("minutes", "hours", "days", "months")])
                """
            let requests = truth.values.reduce(0) { $0 + $1.requests }
            let python = try await Tool.run("python3", ["-c", script, pinned.state]).output
            #expect(python == "\(requests) \(requests) \(requests) \(requests)\n")
            #expect(try await daemon.stop() == 0)
            try await server.stop()
            try await pinned.unload()
        }

        @Test(
            "history by interface has the growth of the interface's own counters",
            .needs("ip")
        )
        func interfaces() async throws {
            try await NetworkNamespace.with { namespace in
                let mover = """
                    import socket
                    ends = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
                    ends[1].bind(("127.0.0.1", 0))
                    for size in (1, 1000, 1471, 9000):
                        for _ in range(50):
                            ends[0].sendto(bytes(size), ends[1].getsockname())
                            ends[1].recv(65536)
                    """
                func counters() async throws -> [UInt64] {
                    let names = ["tx_bytes", "rx_bytes", "tx_packets", "rx_packets"]
                    let paths = names.map { "/sys/class/net/lo/statistics/\($0)" }
                    let said = try await tool("ip", ["netns", "exec", namespace.name, "cat"] + paths)
                    return said.output.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
                }
                // What passed before is not this count's.
                try await namespace.run("python3", "-c", mover)
                let start = try await counters()
                #expect(start.count == 4 && start[0] > 0)
                let directories = try DaemonDirectories()
                let arguments = ["--state-directory", directories.root.appending(path: "state").path]
                let launcher = try namespace.launcher()
                var last: [UInt64] = []
                for round in 1...2 {
                    try await withDaemon(directories: directories, arguments: arguments, launcher: launcher) { daemon in
                        _ = try await daemon.snapshot()
                        for _ in 0..<round { try await namespace.run("python3", "-c", mover) }
                        _ = try await daemon.snapshot()
                    }
                    last = try await counters()
                }
                try await withDaemon(directories: directories, arguments: arguments, launcher: launcher) { _ in
                    let report = try await Self.report(directories, "--by", "interface")
                    let row = try #require(report.rows.first { $0.name.interface == "lo" })
                    let grown = zip(last, start).map { $0 - $1 }
                    let truth = InterfaceCounts(
                        sentBytes: grown[0],
                        receivedBytes: grown[1],
                        sentPackets: grown[2],
                        receivedPackets: grown[3]
                    )
                    #expect(row.amounts == .packets(truth))
                }
            }
        }
    }
}
