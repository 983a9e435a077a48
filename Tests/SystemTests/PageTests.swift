import Foundation
import GroundTruth
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// The page in a real browser, beside what programs say themselves.
    @Suite(.needsBPF, .needs("chromium", "chromedriver", "python3"))
    struct PageTests {
        /// Debian's Python, because its libraries come as packages.
        private static let python = URL(filePath: "/usr/bin/python3")
        private static let script = Documents.root.appending(path: "Tests/Tools/page/check_page.py").path

        private struct Ways: Decodable, Equatable {
            var sent: UInt64
            var received: UInt64

            init(_ bytes: PayloadBytes) { (self.sent, self.received) = (bytes.sent, bytes.received) }
        }

        /// What a case of the script observed. Each of its waits has a limit, and a busy machine may take long for all of
        /// them together.
        private static func observe<Observation: Decodable>(
            _ case: String,
            _ url: String,
            _ arguments: [String] = [],
            as type: Observation.Type = Observation.self
        ) async throws -> Observation {
            let words = [Self.script, "--url", url] + arguments + [`case`]
            let said = try await Tool.run(Self.python.path, words, mayFail: true)
            try #require(said.status == 0, "\(`case`): \(said.error)")
            return try JSONDecoder().decode(type, from: said.outputData)
        }

        private struct Anything: Decodable {}

        private final class Flag: Sendable {
            private let state = Mutex(false)

            var isSet: Bool { self.state.withLock { $0 } }

            func set() { self.state.withLock { $0 = true } }
        }

        /// A file that only its owner reads.
        private static func secret(_ text: String, in directories: DaemonDirectories) throws -> String {
            let file = directories.root.appending(path: "secret-\(text.prefix(5))")
            try Data(text.utf8).write(to: file)
            try #require(chmod(file.path, 0o600) == 0)
            return file.path
        }

        private static let token = "admin-token-of-the-test"

        /// TLS with a certificate that the browser is told to take: what it shows is the question here.
        private static func listener(_ target: String, _ directories: DaemonDirectories) async throws -> [String] {
            let certificates = try await Certificates.local
            return [
                "--listen", target, "--listen-admin-token-file", try Self.secret(Self.token, in: directories),
                "--listen-certificate-file", certificates.certificate, "--listen-key-file", certificates.key,
            ]
        }

        /// A daemon whose page shows everything to whoever has the token.
        private static func start(
            _ directories: DaemonDirectories,
            _ target: String,
            _ arguments: [String] = [],
            configuration: String? = nil
        )
            async throws -> Daemon
        {
            try await Daemon(
                Machine.programs,
                method: Machine.method,
                directories: directories,
                configuration: configuration,
                arguments: try await Self.listener(target, directories)
                    + ["--state-directory", directories.root.appending(path: "state").path] + arguments
            )
        }

        private struct Process: Decodable {
            var table: Ways
            var detail: Ways
            var name: String
        }

        private struct Live: Decodable {
            var first: Ways
            var second: Ways
        }

        private struct Load: Decodable {
            var first_contentful_paint_ms: Int
            var foreign_requests: [String]
        }

        private struct Hosts: Decodable {
            struct Row: Decodable, Equatable {
                var address: String
                var sockets: Int
                var sent: UInt64
                var received: UInt64
            }

            var rows: [Row]
        }

        private struct Scopes: Decodable {
            var scopes: [String: Ways]
            var interfaces: [String: Ways]
            var all_received: UInt64
        }

        /// What the kernel counted of the interface `lo`.
        private static func loopback() throws -> PayloadBytes {
            func count(_ name: String) throws -> UInt64 {
                let text = try String(contentsOfFile: "/sys/class/net/lo/statistics/\(name)", encoding: .utf8)
                return try #require(UInt64(text.trimmingCharacters(in: .whitespacesAndNewlines)))
            }
            return PayloadBytes(sent: try count("tx_bytes"), received: try count("rx_bytes"))
        }

        private struct Filtered: Decodable {
            var rows: Int
            var rows_before: Int
            var process_ids: [String]
            var problem: String
        }

        private struct Hostile: Decodable {
            var name: String
            var heading: String
        }

        @Test(
            "the page shows the bytes that a program moved, lives, rests while hidden, filters, and takes names as text"
        )
        func processes() async throws {
            let (directories, target) = (try DaemonDirectories(), "127.0.0.1:\(try FreePort.next())")
            let daemon = try await Self.start(directories, target)
            let (url, admin) = ("https://\(target)/", ["--token", Self.token])

            let mover = try Mover()
            try await mover.tell("churn 50 12345")
            try await mover.tell("hold 3 0")
            try await mover.tell("use 3 777")
            let still = mover.moved
            let ofMover = admin + ["--pid", "\(mover.pid)"]
            let shown: Process = try await Self.observe("process", url, ofMover)
            #expect(shown.table == Ways(still) && shown.detail == Ways(still) && shown.name.contains(mover.name))

            let load: Load = try await Self.observe("load", url, admin)
            #expect(load.foreign_requests == [] && load.first_contentful_paint_ms > 0)
            let filtered: Filtered = try await Self.observe("filter", url, ofMover + ["--filter", "pid:\(mover.pid)"])
            #expect(filtered.rows == 1 && filtered.process_ids.allSatisfy { $0.hasPrefix("\(mover.pid)-") })
            #expect(filtered.problem.contains("nothing"), "\(filtered.problem)")
            _ = try await Self.observe("exact", url, admin, as: Anything.self)
            _ = try await Self.observe("rates", url, admin, as: Anything.self)
            _ = try await Self.observe("links", url, admin, as: Anything.self)
            _ = try await Self.observe("accessibility", url, admin, as: Anything.self)

            // It moves until the page has been looked at.
            let isDone = Flag()
            let looking = Task {
                defer { isDone.set() }
                let live: Live = try await Self.observe("live", url, ofMover)
                _ = try await Self.observe("pause", url, ofMover, as: Anything.self)
                _ = try await Self.observe("hidden", url, ofMover, as: Anything.self)
                return live
            }
            // With pauses: thousands of closed sockets would make each look slower, and so the next ones more.
            while !isDone.isSet {
                try await mover.tell("churn 1 1000")
                try await Task.sleep(for: .milliseconds(50))
            }
            let live = try await looking.value
            #expect(live.second.sent > live.first.sent && live.first.sent >= still.sent)
            #expect(live.second.sent <= mover.moved.sent && (live.second.sent - still.sent) % 1_000 == 0)

            let name = "<img src=x onerror=alert(1)>"
            let hostile = try Mover(name: name)
            try await hostile.tell("churn 1 1")
            let taken: Hostile = try await Self.observe("hostile", url, admin + ["--pid", "\(hostile.pid)"])
            #expect(taken.name.contains("<img src=x") && taken.heading.contains("<img src=x"), "\(taken.name)")

            #expect(try await daemon.stop() == 0)
        }

        @Test("addresses, scopes and interfaces have the bytes that a program moved and the kernel counted")
        func host() async throws {
            let (directories, target) = (try DaemonDirectories(), "127.0.0.1:\(try FreePort.next())")
            let daemon = try await Self.start(directories, target)
            let (url, admin) = ("https://\(target)/", ["--token", Self.token])

            // Both ends of each connection are its own, and have the other end at this address.
            let holder = try Mover()
            try await holder.tell("hold 2 0")
            try await holder.tell("use 2 999")
            let hosts: Hosts = try await Self.observe("hosts", url, admin + ["--pid", "\(holder.pid)"])
            let address = Hosts.Row(
                address: "127.0.0.1",
                sockets: 4,
                sent: holder.moved.sent,
                received: holder.moved.received
            )
            #expect(hosts.rows == [address])

            // What the page shows of the host lies between what the kernel says before and after.
            let loBefore = try Self.loopback()
            let scopes: Scopes = try await Self.observe("scopes", url, admin)
            let (lo, loAfter) = (try #require(scopes.interfaces["lo"]), try Self.loopback())
            #expect(loBefore.sent <= lo.sent && lo.sent <= loAfter.sent, "\(loBefore) \(lo) \(loAfter)")
            #expect(loBefore.received <= lo.received && lo.received <= loAfter.received)
            let loopback = try #require(scopes.scopes["loopback"])
            let moved = holder.moved
            #expect(loopback.sent >= moved.sent && loopback.received >= moved.received)
            #expect(scopes.scopes.values.reduce(0) { $0 + $1.received } == scopes.all_received)

            #expect(try await daemon.stop() == 0)
        }

        private struct Drilled: Decodable {
            var apis: Int
            var socket_bytes: Ways
        }

        private struct Alerts: Decodable {
            struct Row: Decodable, Equatable {
                var rule: String
                var bytes: UInt64
            }

            var rows: [Row]
        }

        private struct Past: Decodable {
            var total: Ways
            var filtered: Ways
            var zoom_before: [Double]
            var zoom_after: [Double]
        }

        private struct Audited: Decodable {
            struct Section: Decodable {
                struct Line: Decodable { var line: String }

                var lines: [Line]
            }

            var verdict: String
            var sections: [Section]
        }

        @Test("from a process to its API to a socket, by keyboard and with exact bytes; the audit of an interface")
        func depths() async throws {
            let (directories, target) = (try DaemonDirectories(), "127.0.0.1:\(try FreePort.next())")
            let daemon = try await Self.start(directories, target, ["--wire", "audited"])
            let (url, admin) = ("https://\(target)/", ["--token", Self.token])
            let server = try await InstrumentedServer(reportingTo: directories.reportSocket.path)
            // A client whose connection stays open, so that its socket can be looked at.
            let client = try Program(
                Self.python,
                [
                    "-c",
                    """
                    import socket, sys, urllib.parse
                    place = urllib.parse.urlparse(sys.argv[1])
                    connection = socket.create_connection((place.hostname, place.port))
                    request = f"GET /length/1000 HTTP/1.1\\r\\nHost: {place.netloc}\\r\\n\\r\\n".encode()
                    sent = received = 0
                    for _ in range(3):
                        sent += connection.send(request)
                        answer = b""
                        while len(answer.partition(b"\\r\\n\\r\\n")[2]) < 1000:
                            answer += connection.recv(65536) or sys.exit("the server closed the connection")
                        received += len(answer)
                    print(sent, received, flush=True)
                    sys.stdin.read()
                    """, server.url,
                ]
            )
            let words = String(decoding: try #require(try await client.line()), as: UTF8.self).split(separator: " ")
            let ofClient = words.compactMap { UInt64($0) }
            let drilled: Drilled = try await Self.observe("drill", url, admin + ["--pid", "\(getpid())"])
            // What the client sent, the server's socket received.
            #expect(drilled.apis >= 1 && [drilled.socket_bytes.received, drilled.socket_bytes.sent] == ofClient)
            client.closeInput()
            let audited: Audited = try await Self.observe("audit", url, admin + ["--interface", "lo"])
            #expect(audited.verdict == "right" && audited.sections.contains { $0.lines.count > 3 })

            try await server.stop()
            #expect(try await daemon.stop() == 0)
        }

        @Test("history with zoom; a filtered history and an alert have exactly the bytes that a program moved")
        func past() async throws {
            let (directories, target) = (try DaemonDirectories(), "127.0.0.1:\(try FreePort.next())")
            let mover = try Mover()
            let file = directories.root.appending(path: "rules.yaml")
            let rule = "  - {name: budget, match: \"process:\(mover.name)\", bytes: 1k, per: month}"
            try Data("interval: 500ms\nalerts:\n\(rule)\n".utf8).write(to: file)
            try #require(chmod(file.path, 0o600) == 0)
            let daemon = try await Self.start(directories, target, configuration: file.path)
            let (url, admin) = ("https://\(target)/", ["--token", Self.token])

            try await mover.tell("churn 10 5000")
            // A byte is in history at the end of its minute, and then the rule judges it.
            func asked<Report: Decodable>(
                _ command: [String],
                as type: Report.Type = Report.self
            ) async throws -> Report? {
                let arguments = command + ["--format", "json"] + directories.arguments
                let said = try await Program.run(Machine.programs.client, arguments)
                return said.code == 0 ? try JSONDecoder().decode(type, from: said.output) : nil
            }
            let isInHistory = try await eventually {
                let history: HistoryReport? = try await asked([
                    "history", "--since", "1h", "--by", "total", "--filter", "process:\(mover.name)",
                ])
                let alerts: AlertReport? = try await asked(["alerts"])
                return history?.rows.map(\.bytes.payload) == [mover.moved]
                    && alerts?.alerts.map(\.bytes) == [mover.moved.total]
            }
            #expect(isInHistory)
            let alerts: Alerts = try await Self.observe("alerts", url, admin)
            #expect(alerts.rows == [.init(rule: "budget", bytes: mover.moved.total)])
            _ = try await Self.observe("alert-burst", url, admin, as: Anything.self)
            let past: Past = try await Self.observe("history", url, admin + ["--filter", "process:\(mover.name)"])
            #expect(past.filtered == Ways(mover.moved))
            #expect(past.total.sent >= mover.moved.sent && past.total.received >= mover.moved.received)
            #expect(past.zoom_after[1] - past.zoom_after[0] < past.zoom_before[1] - past.zoom_before[0])
            _ = try await Self.observe("zones", url, admin, as: Anything.self)

            #expect(try await daemon.stop() == 0)
        }

        private struct Restarted: Decodable {
            var now: String?
            var back: String?
        }

        @Test("the page says that the daemon is gone and that it is back, and asks for a token that it does not keep")
        func restarts() async throws {
            let pinned = try PinnedDaemons()
            let target = "127.0.0.1:\(try FreePort.next())"
            let arguments =
                try await Self.listener(target, pinned.directories)
                + ["--listen-token-file", Self.secret("other-token-of-the-test", in: pinned.directories)]
            var daemon = try await pinned.start(arguments)
            let admin = ["--token", Self.token]
            _ = try await Self.observe("token", "https://\(target)/", admin, as: Anything.self)
            _ = try await Self.observe(
                "withheld",
                "https://\(target)/",
                ["--token", "other-token-of-the-test"],
                as: Anything.self
            )

            let page = try Program(Self.python, [Self.script, "--url", "https://\(target)/"] + admin + ["restart"])
            func word() async throws -> Restarted {
                let line = try #require(try await page.line(), "\(page.errorText)")
                return try JSONDecoder().decode(Restarted.self, from: line)
            }
            #expect(try await word().now == "ready")
            #expect(try await daemon.stop() == 0)
            #expect(try await word().now == "lost")
            daemon = try await pinned.start(arguments)
            try page.writeLine()
            let back = try await word()
            #expect(back.back?.contains("go on") == true, "\(back)")
            #expect(try await page.exit() == 0)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test(
            "screenshots of every view, for whoever looks at them",
            .enabled(if: ProcessInfo.processInfo.environment["TRAFFICD_TEST_SCREENSHOTS"] != nil, "only on request")
        )
        func screenshots() async throws {
            let folder = try #require(ProcessInfo.processInfo.environment["TRAFFICD_TEST_SCREENSHOTS"])
            let (directories, target) = (try DaemonDirectories(), "127.0.0.1:\(try FreePort.next())")
            let daemon = try await Self.start(directories, target, ["--wire", "audited"])
            let mover = try Mover()
            try await mover.tell("churn 10 5000")
            let arguments = ["--token", Self.token, "--screenshots", folder]
            _ = try await Self.observe("screenshots", "https://\(target)/", arguments, as: Anything.self)
            #expect(try FileManager.default.contentsOfDirectory(atPath: folder).count >= 8 * 3 * 2)
            #expect(try await daemon.stop() == 0)
        }
    }
}
