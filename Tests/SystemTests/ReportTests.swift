import Foundation
import GroundTruth
import NIOSSL
import TestSupport
import Testing
import TrafficEvents
import TrafficKitTestSupport
import TrafficModel
import TrafficReport

extension SystemTests {
    /// A server in this process that reports, the daemon, and curl, which makes its own counts.
    @Suite(.tags(.peer), .needsBPF, .needs("curl", "openssl", "ss"))
    struct ReportTests {
        /// Closed sockets stay listed until the test has looked at all of them.
        private static let keeping = ["--keep-closed", "600"]

        /// The daemon's snapshot once the daemon has settled `requests` exchanges of this process.
        private func settled(_ daemon: Daemon, requests: Int) async throws -> Snapshot {
            try await look(until: { snapshot in
                snapshot.endpoints?.reduce(0) { $0 + $1.outcomes.values.reduce(0, +) } ?? 0 >= requests
            }) { try await daemon.snapshot() }
        }

        /// The daemon's snapshot once every byte of the server's closed sockets is explained, if that comes.
        private func explained(
            _ daemon: Daemon,
            _ server: InstrumentedServer,
            connections: Int
        ) async throws -> Snapshot {
            try await look(until: { snapshot in
                let sockets = self.sockets(snapshot, server)
                return sockets.count == connections
                    && sockets.allSatisfy { $0.closedAt != nil && $0.unattributed == 0 }
            }) { try await daemon.snapshot() }
        }

        private func sockets(_ snapshot: Snapshot, _ server: InstrumentedServer) -> [SocketUsage] {
            let cookies = Set(server.records.requests.map(\.cookie))
            return (snapshot.sockets ?? []).filter { cookies.contains($0.cookie.rawValue) }
        }

        private func expectAllExplained(_ snapshot: Snapshot, _ server: InstrumentedServer, connections: Int) {
            let sockets = self.sockets(snapshot, server)
            #expect(sockets.count == connections)
            #expect(Set(server.records.requests.map(\.cookie)).count == connections)
            for socket in sockets {
                #expect(socket.explained == socket.bytes.payload.total && socket.unattributed == 0)
                #expect(socket.bytes.payload.total > 0)
            }
        }

        @Test(
            "every byte of every socket is explained, and an endpoint's bytes are curl's",
            arguments: [nil, "1.2", "1.3"] as [String?]
        )
        func explained(tls: String?) async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                var options: [String] = []
                var configuration: TLSConfiguration?
                if let tls {
                    let files = try await Certificates.local
                    configuration = try .makeServerConfiguration(
                        certificateChain: NIOSSLCertificate.fromPEMFile(files.certificate).map { .certificate($0) },
                        privateKey: .privateKey(NIOSSLPrivateKey(file: files.key, format: .pem))
                    )
                    options = ["--cacert", files.authority, "--http1.1", "--tlsv\(tls)", "--tls-max", tls]
                }
                let server = try await InstrumentedServer(
                    tls: configuration,
                    reportingTo: daemon.directories.reportSocket.path
                )
                let url = tls == nil ? server.url : "https://localhost:\(server.port)"
                let upload = daemon.directories.root.appending(path: "upload")
                try Data(repeating: 7, count: 1_000_003).write(to: upload)
                let cookie = "Cookie: " + String(repeating: "c", count: 4_096)
                var transfers: [Curl.Transfer] = []
                func transfer(_ more: [String], _ paths: [String]) async throws {
                    transfers += try await Curl.run(options + more, paths.map { "\(url)/\($0)" })
                }
                let mixed = (0..<1_000).map { "\($0 % 2 == 0 ? "length" : "chunked")/\($0 * 131 % 9_973)?q=\($0)" }
                try await transfer(["-H", cookie], mixed)
                #expect(transfers.reduce(0) { $0 + $1.connections } == 1)
                try await transfer(["-T", upload.path], ["length/5"])
                try await transfer(["-T", upload.path, "-H", "Transfer-Encoding: chunked"], ["length/6"])
                try await transfer(["-T", upload.path, "-H", "Expect: 100-continue"], ["length/7"])
                try await transfer([], [503, 429, 404, 500, 302, 304, 204].map { "status/\($0)" })
                let statusTransfers = transfers.suffix(7)
                try await server.stop()

                _ = try await self.settled(daemon, requests: transfers.count)
                let snapshot = try await self.explained(daemon, server, connections: 5)
                self.expectAllExplained(snapshot, server, connections: 5)
                let reports = snapshot.capture.reports
                #expect(reports.joined == UInt64(2 * transfers.count) && reports.inferred == 0 && reports.rejected == 0)

                let endpoints = try #require(snapshot.endpoints)
                #expect(endpoints.allSatisfy { $0.role == .server && $0.quality == .exact })
                #expect(Set(endpoints.map(\.host)) == [tls == nil ? "127.0.0.1" : "localhost"])
                #expect(Set(endpoints.map(\.route)) == ["/length/{id}", "/chunked/{id}", "/status/{id}"])
                let sent = endpoints.reduce(into: MessageBytes()) { $0 += $1.sent }
                let received = endpoints.reduce(into: MessageBytes()) { $0 += $1.received }
                #expect(received.line + received.header == transfers.reduce(0) { $0 + $1.requestBytes })
                // curl counts the framing of its uploads.
                #expect(received.body + received.framing == transfers.reduce(0) { $0 + $1.uploadBytes })
                #expect(sent.line + sent.header == transfers.reduce(0) { $0 + $1.headerBytes })
                #expect(sent.body == transfers.reduce(0) { $0 + $1.bodyBytes })
                #expect((sent.tls > 0) == (tls != nil))
                #expect(received.cookie == UInt64(1_000 * (cookie.utf8.count + 2)))
                // "Set-Cookie: a=b" and "set-cookie: c=d; Path=/", with their line ends.
                #expect(sent.cookie == UInt64(transfers.count * (17 + 25)))
                #expect(endpoints.reduce(0) { $0 + $1.requests } == transfers.count)
                #expect(endpoints.reduce(0) { $0 + $1.responses } == transfers.count)
                // The server labels its bodies as JSON. curl does not label its uploads. Neither encodes bodies.
                #expect(endpoints.reduce(0) { $0 + ($1.content[.json] ?? 0) } == sent.body)
                #expect(endpoints.reduce(0) { $0 + ($1.content[.unknown] ?? 0) } == received.body)
                #expect(endpoints.reduce(0) { $0 + ($1.decodedBody ?? 0) } == sent.body + received.body)

                let statuses = try #require(endpoints.first { $0.route == "/status/{id}" })
                #expect(statuses.outcomes == [.http5xx: 2, .http4xx: 2, .ok: 3])
                let wasted = { (statuses: Set<UInt16>) in
                    statusTransfers.filter { statuses.contains($0.status) }
                        .reduce(0) { $0 + $1.requestBytes + $1.headerBytes + $1.bodyBytes }
                }
                #expect(statuses.waste.throttled == wasted([429, 503]))
                #expect(statuses.waste.failed == wasted([404, 500]))
                #expect(statuses.waste.redirected == wasted([302]))
                #expect(statuses.duration?.count == 7)
                // All wire bytes except those of handshakes and of the ends of connections, after the last message.
                let estimated = endpoints.reduce(0) { $0 + $1.wireEstimated }
                let sockets = self.sockets(snapshot, server)
                let wire = sockets.reduce(0) { $0 + ($1.bytes.wireSent ?? 0) + ($1.bytes.wireReceived ?? 0) }
                let payload = sockets.reduce(0) { $0 + $1.bytes.payload.total }
                let beside = payload - min(payload, sent.total + received.total)
                #expect((beside > 0) == (tls != nil))
                #expect(estimated <= wire && wire - estimated <= 2 * beside + UInt64(sockets.count * 4 * 80))
            }
        }

        @Test("the commands show the same endpoints and the same last requests")
        func commands() async throws {
            try await withDaemon { daemon in
                let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                let transfers = try await Curl.run([], (0..<10).map { "\(server.url)/length/\($0)000" })
                try await server.stop()
                _ = try await self.settled(daemon, requests: 10)
                func trafficctl(_ arguments: String...) async throws -> String {
                    let result = try await Program.run(
                        Machine.programs.client,
                        arguments + ["--runtime-directory", daemon.directories.runtime.path]
                    )
                    #expect(result.code == 0 && result.error.isEmpty)
                    return String(decoding: result.output, as: UTF8.self)
                }
                let rows = try await trafficctl("endpoints", "--sort", "received", "--format", "tsv").split(
                    separator: "\n"
                )
                .map { $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init) }
                let column = { (name: String) in rows[0].firstIndex(of: name) ?? 0 }
                #expect(rows.count == 2)
                #expect(rows[1][column("route")] == "/length/{id}" && rows[1][column("requests")] == "10")
                let received = transfers.reduce(0) { $0 + $1.requestBytes }
                #expect(rows[1][column("received_message_bytes")] == String(received))
                func endpoints(by grouping: String) async throws -> [EndpointUsage] {
                    let json = try await trafficctl(
                        "endpoints",
                        "--by",
                        grouping,
                        "--format",
                        "json",
                        "--sort",
                        "requests"
                    )
                    return try #require(try JSONDecoder().decode(Snapshot.self, from: Data(json.utf8)).endpoints)
                }
                let hosts = try await endpoints(by: "host")
                #expect(hosts.map(\.subject) == [.host("127.0.0.1")])
                // The first response has no body.
                let types = try await endpoints(by: "type")
                #expect(types.map(\.subject) == [.content(.json), .content(.none)])
                #expect(types.map(\.requests) == [9, 1] && types.map(\.duration?.count) == [9, 1])
                #expect(types.map(\.sent.body) == [transfers.reduce(0) { $0 + $1.bodyBytes }, 0])
                for rows in [hosts, types] {
                    #expect(rows.reduce(0) { $0 + $1.requests } == 10)
                    #expect(rows.reduce(0) { $0 + $1.received.message } == received)
                    #expect(rows.reduce(0) { $0 + $1.sent.body } == transfers.reduce(0) { $0 + $1.bodyBytes })
                    #expect(rows.allSatisfy { $0.quality == .exact })
                }

                let lines = try await trafficctl("exchanges", "--format", "ndjson", "--limit", "4")
                let exchanges = try lines.split(separator: "\n").map {
                    try JSONDecoder().decode(ExchangeUsage.self, from: Data($0.utf8))
                }
                #expect(exchanges.map(\.request?.message) == transfers.suffix(4).map(\.requestBytes))
                #expect(exchanges.map(\.response?.message) == transfers.suffix(4).map { $0.headerBytes + $0.bodyBytes })
                #expect(exchanges.map(\.version?.rawValue) == transfers.suffix(4).map(\.version))
                #expect(lines.contains("\"network_protocol_version\":\"1.1\""))
                let slowest = try await trafficctl("exchanges", "-s", "time", "-n", "1", "--format", "tsv")
                    .split(separator: "\n").map { $0.split(separator: "\t", omittingEmptySubsequences: false) }
                let duration = try #require(slowest[0].firstIndex(of: "duration_us"))
                let all = try await trafficctl("exchanges", "--format", "ndjson").split(separator: "\n").map {
                    try JSONDecoder().decode(ExchangeUsage.self, from: Data($0.utf8))
                }
                #expect(UInt64(slowest[1][duration]) == all.compactMap(\.duration).max())
                let passing = try await trafficctl("exchanges", "-f", "status:2xx host:127.0.0.1", "--format", "ndjson")
                #expect(passing.split(separator: "\n").count == all.count)
                #expect(try await trafficctl("exchanges", "--filter", "-status:2xx", "--format", "ndjson").isEmpty)
                for exchange in exchanges {
                    #expect(exchange.outcome == .ok && exchange.status == 200 && exchange.process.pid == getpid())
                    let phases = exchange.phases.values.reduce(0, +)
                    // Each phase and the duration are rounded down to microseconds.
                    #expect(phases <= exchange.duration ?? 0 && (exchange.duration ?? 0) - phases <= 3)
                }
                func process() async throws -> ProcessUsage {
                    try #require(try await daemon.snapshot().processes?.first { $0.identity.pid == getpid() })
                }
                let before = try await process()
                #expect(before.explained == received + transfers.reduce(0) { $0 + $1.headerBytes + $1.bodyBytes })
                let top = try await trafficctl("top", "--once")
                let after = try await process()
                // Other tests of this process may have moved bytes in the meantime.
                let shares = [after, before].map { $0.explained * 100 / max(1, $0.bytes.payload.total) }
                #expect(top.contains("EXPL%") && (shares[0]...shares[1]).contains { top.contains("\($0)%") }, "\(top)")
            }
        }

        @Test("HTTP/2, 50 streams at a time: every byte is explained", .needs("h2load"), arguments: [false, true])
        func http2(isTLS: Bool) async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                var configuration: TLSConfiguration?
                if isTLS {
                    let files = try await Certificates.local
                    configuration = try .makeServerConfiguration(
                        certificateChain: NIOSSLCertificate.fromPEMFile(files.certificate).map { .certificate($0) },
                        privateKey: .privateKey(NIOSSLPrivateKey(file: files.key, format: .pem))
                    )
                    configuration?.applicationProtocols = ["h2"]
                }
                let server = try await InstrumentedServer(
                    tls: configuration,
                    isHTTP2: !isTLS,
                    reportingTo: daemon.directories.reportSocket.path
                )
                let load = try await Nghttp.load(
                    ["-n", "2000", "-c", "4", "-m", "50"],
                    "\(isTLS ? "https" : "http")://127.0.0.1:\(server.port)/length/5003"
                )
                #expect(load.succeeded == 2_000)
                try await server.stop()
                _ = try await self.settled(daemon, requests: 2_000)
                let snapshot = try await self.explained(daemon, server, connections: 4)
                self.expectAllExplained(snapshot, server, connections: 4)
                let reports = snapshot.capture.reports
                #expect(reports.joined == 4_000 && reports.inferred == 0 && reports.rejected == 0)
                let endpoint = try #require(snapshot.endpoints?.first)
                #expect(snapshot.endpoints?.count == 1 && endpoint.route == "/length/{id}")
                #expect(endpoint.quality == .exact && endpoint.requests == 2_000 && endpoint.responses == 2_000)
                #expect(endpoint.sent.line + endpoint.sent.header == load.headers && endpoint.sent.body == load.data)
                #expect((endpoint.sent.tls > 0) == isTLS && endpoint.outcomes == [.ok: 2_000])
                let answer = try await daemon.get("/v1/exchanges")
                let exchanges = try JSONDecoder().decode(ExchangeReport.self, from: answer.output).exchanges
                #expect(!exchanges.isEmpty && exchanges.allSatisfy { $0.version == .http2 })
            }
        }

        @Test("a streamed gigabyte is counted to the byte", .needs("truncate"))
        func gigabyte() async throws {
            try await withDaemon(arguments: Self.keeping) { daemon in
                let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                let upload = daemon.directories.root.appending(path: "gigabyte")
                _ = try await tool("truncate", ["--size", "1G", upload.path])
                let transfers = try await Curl.run(["-T", upload.path], ["\(server.url)/length/5"])
                try await server.stop()
                _ = try await self.settled(daemon, requests: 1)
                let snapshot = try await self.explained(daemon, server, connections: 1)
                let received = try #require(snapshot.endpoints?.first).received
                #expect(received.body == 1 << 30 && received.body == transfers.first?.uploadBytes)
                self.expectAllExplained(snapshot, server, connections: 1)
            }
        }

        @Test("secrets in queries, cookies, credentials and bodies never reach the daemon or its answers")
        func secrets() async throws {
            let directories = try DaemonDirectories()
            let recording = directories.root.appending(path: "events.ndjson")
            let secret = "s3cr3t-\(UUID().uuidString)"
            var documents: [Data] = []
            try await withDaemon(
                directories: directories,
                arguments: ["--record-events", recording.path, "--log-level", "trace"]
            ) { daemon in
                let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                _ = try await Curl.run(
                    ["-H", "Cookie: id=\(secret)", "-H", "Authorization: Bearer \(secret)", "-d", "pin=\(secret)"],
                    ["\(server.url)/length/1?token=\(secret)"]
                )
                try await server.stop()
                _ = try await self.settled(daemon, requests: 1)
                for path in ["/v1/snapshot", "/v1/endpoints", "/v1/exchanges", "/v1/doctor"] {
                    documents.append(try await daemon.get(path).output)
                }
                documents.append(Data(daemon.program.errorText.utf8))
            }
            struct Event: Decodable {
                struct Reports: Decodable { var _0: [ReceivedReport] }
                var reports: Reports?
            }
            let events = try String(contentsOf: recording, encoding: .utf8).split(separator: "\n")
            let datagrams = try events.compactMap { try JSONDecoder().decode(Event.self, from: Data($0.utf8)).reports }
                .flatMap(\._0).map { Data($0.datagram) }
            #expect(!datagrams.isEmpty)
            for document in documents + datagrams { #expect(document.range(of: Data(secret.utf8)) == nil) }
            // The documents do contain the exchange, by the name of its route.
            #expect(documents[1].range(of: Data("/length/{id}".utf8)) != nil)
        }

        @Test("a process that claims a socket of another process is rejected and counted", .needs("python3"))
        func foreign() async throws {
            try await withDaemon { daemon in
                let server = try await InstrumentedServer(reportingTo: daemon.directories.reportSocket.path)
                // The process has a socket of its own, so that the kernel counts for this process. It keeps the
                // connection, because the daemon lists closed sockets only for a short time.
                let script = """
                    import socket, sys
                    own = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
                    own.sendall(b"GET /length/1 HTTP/1.1\\r\\nHost: h\\r\\n\\r\\n")
                    own.recv(100)
                    forged = bytes.fromhex(sys.stdin.readline())
                    socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(forged, sys.argv[2])
                    sys.stdin.read()
                    """
                let python = try Program(
                    try #require(Machine.path(of: "python3")),
                    ["-c", script, "\(server.port)", daemon.directories.reportSocket.path]
                )
                // The server's end of that connection.
                let request = try await #require(self.firstRequest(of: server))
                var forged = request.exchange
                (forged.number, forged.host) = (4_711, "evil.example")
                (forged.response, forged.outcome) = (nil, nil)
                var writer = ReportWriter()
                _ = writer.append(forged)
                let hex = writer.finish(.init()) { bytes in
                    bytes.indices.map { String(format: "%02x", bytes[$0]) }.joined()
                }
                try python.writeLine(hex)
                _ = try await self.settled(daemon, requests: 1)
                let snapshot = try await look(until: { $0.capture.reports.foreign > 0 }) { try await daemon.snapshot() }
                #expect(snapshot.capture.reports.foreign == 1 && snapshot.capture.loss.reportsRejected == 1)
                #expect(snapshot.endpoints?.map(\.host) == ["h"])
                self.expectAllExplained(snapshot, server, connections: 1)
                python.closeInput()
                #expect(try await python.exit() == 0, "\(python.errorText)")
                try await server.stop()
            }
        }

        private func firstRequest(of server: InstrumentedServer) async throws -> MessagePart? {
            try await look(every: .milliseconds(10), until: { $0 != nil }) { server.records.requests.first }
        }

        @Test("a daemon that hangs or is gone does not disturb the app; a daemon that comes back explains later bytes")
        func absent() async throws {
            let directories = try DaemonDirectories()
            let server = try await InstrumentedServer(reportingTo: directories.reportSocket.path)
            let transfers = try await Curl.run([], ["\(server.url)/length/1"])
            try await withDaemon(directories: directories) { daemon in
                daemon.program.signal(SIGSTOP)
                // More requests than a Unix socket can queue records for.
                let stopped = try await Curl.run([], (0..<3_000).map { "\(server.url)/length/\($0 % 10)" })
                #expect(stopped.count == 3_000 && stopped.allSatisfy { $0.status == 200 })
                daemon.program.signal(SIGCONT)
                let snapshot = try await daemon.snapshot()
                #expect(snapshot.capture.reports.rejected == 0)
            }
            let gone = try await Curl.run([], (0..<10).map { "\(server.url)/length/\($0)" })
            #expect(transfers.count + gone.count == 11)
            try await withDaemon(directories: directories) { daemon in
                // The sender looks for the daemon again within a second.
                try await Task.sleep(for: .milliseconds(1_500))
                _ = try await Curl.run([], ["\(server.url)/chunked/1234"])
                // Before it the sender may report requests of the time when no daemon was there.
                let requests = { (snapshot: Snapshot) in
                    snapshot.endpoints?.first { $0.route == "/chunked/{id}" }?.requests
                }
                let snapshot = try await look(until: { requests($0) != nil }) { try await daemon.snapshot() }
                #expect(requests(snapshot) == 1)
            }
            try await server.stop()
        }

        @Test("on a connection older than the daemon, only the bytes it counted are explained, as inferred")
        func restarted() async throws {
            let directories = try DaemonDirectories()
            // It takes the first report. Otherwise a slow sender could give it to the daemon.
            try FileManager.default.createDirectory(at: directories.runtime, withIntermediateDirectories: true)
            var receiver = try ReportReceiver(path: directories.reportSocket.path) as ReportReceiver?
            let server = try await InstrumentedServer(reportingTo: directories.reportSocket.path)
            let script = """
                import http.client, sys
                connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
                for line in sys.stdin:
                    connection.request("GET", "/length/1000")
                    print(len(connection.getresponse().read()), flush=True)
                """
            let python = try Program(try #require(Machine.path(of: "python3")), ["-c", script, "\(server.port)"])
            try python.writeLine("go")
            #expect(try await python.line() == Data("1000".utf8))
            let before = try await self.firstRequest(of: server)
            let isReported = try await eventually(every: .milliseconds(10)) {
                try await receiver?.everything().records.contains {
                    if case .exchange(let exchange) = $0 { exchange.outcome != nil } else { false }
                } ?? false
            }
            try #require(isReported)
            receiver = nil
            try await withDaemon(directories: directories) { daemon in
                try await Task.sleep(for: .milliseconds(1_500))
                try python.writeLine("go")
                #expect(try await python.line() == Data("1000".utf8))
                let snapshot = try await self.settled(daemon, requests: 1)
                let socket = try #require(snapshot.sockets?.first { $0.cookie.rawValue == before?.cookie })
                #expect(
                    socket.preexisting && socket.unattributed == 0 && socket.explained == socket.bytes.payload.total
                )
                #expect(snapshot.endpoints?.map(\.quality) == [.inferred])
                #expect(snapshot.capture.reports.inferred == 2 && snapshot.capture.reports.rejected == 0)
            }
            python.signal(SIGTERM)
            _ = try await python.exit()
            try await server.stop()
        }

        /// The example's server and client.
        private func shop(
            _ daemon: Daemon,
            seconds: Int,
            _ options: [String] = [],
            _ body: (Program) async throws -> Void
        ) async throws {
            let example = Machine.programs.directory.appending(path: "trafficexample")
            let port = String(try FreePort.next())
            let socket = ["--port", port, "--report-socket", daemon.directories.reportSocket.path]
            let server = try Program(example, ["serve"] + socket)
            // Otherwise the client's time may be over before.
            try await awaitListener(on: port, of: server)
            let buy = ["buy", "--seconds", "\(seconds)", "--rate", "20", "--timeout", "600"]
            let client = try Program(example, buy + options + socket)
            try await body(client)
            server.signal(SIGTERM)
            _ = try await server.exit()
        }

        @Test("exchanges --follow prints each exchange once, when the exchange has ended")
        func follow() async throws {
            try await withDaemon { daemon in
                let arguments = [
                    "exchanges", "--follow", "-i", "200ms", "--format", "ndjson", "--filter", "status:2xx",
                ]
                let follower = try Program(
                    Machine.programs.client,
                    arguments + ["--runtime-directory", daemon.directories.runtime.path]
                )
                try await self.shop(daemon, seconds: 2) { client in
                    let code = try await client.exit()
                    #expect(code == 0)
                }
                _ = try await self.settledShop(daemon)
                func key(_ line: Data) throws -> String {
                    let exchange = try JSONDecoder().decode(ExchangeUsage.self, from: line)
                    #expect(exchange.outcome != nil)
                    return "\(exchange.process.pid) \(exchange.exchange)"
                }
                let listed = try await Program.run(
                    Machine.programs.client,
                    arguments.filter { $0 != "--follow" } + ["--runtime-directory", daemon.directories.runtime.path]
                ).output
                let wanted = Set(try listed.split(separator: UInt8(ascii: "\n")).map(key))
                var followed: [String] = []
                while followed.count < wanted.count, let line = try await follower.line() {
                    followed.append(try key(line))
                }
                #expect(wanted.count > 20 && Set(followed) == wanted && followed.count == wanted.count)
                follower.signal(SIGTERM)
                _ = try await follower.exit()
            }
        }

        @Test(
            "Hummingbird and a client: both ends of every endpoint have the same bytes, all of them exact",
            arguments: ["AsyncHTTPClient", "SwiftNIO"]
        )
        func example(client: String) async throws {
            try await withDaemon { daemon in
                try await self.shop(daemon, seconds: 3, client == "SwiftNIO" ? ["--nio"] : []) { client in
                    let told = String(decoding: try #require(try await client.line()), as: UTF8.self)
                    #expect(try await client.exit() == 0, "\(client.errorText)")
                    let visits = try #require(UInt64(told.dropFirst("visits: ".count)))
                    let endpoints = try #require(try await self.settledShop(daemon).endpoints)
                    let client = endpoints.filter { $0.role == .client }.sorted { $0.sent.total < $1.sent.total }
                    let server = endpoints.filter { $0.role == .server }.sorted {
                        $0.received.total < $1.received.total
                    }
                    #expect(endpoints.allSatisfy { $0.quality == .exact })
                    #expect(client.count > 6 && client.count == server.count)
                    // Twelve requests, one more, and the request that the redirect leads to.
                    #expect(visits > 0 && client.reduce(0) { $0 + $1.requests } == 14 * visits)
                    for (one, other) in zip(client, server) {
                        #expect(one.sent == other.received && one.received == other.sent)
                        #expect(one.requests == other.requests && one.responses == other.responses)
                    }
                    #expect(server.contains { $0.route == "/images/{name}" })
                    #expect(client.contains { $0.route == "/images/{id}.png" })
                    #expect(server.first { $0.route == "/recommendations" }?.waste.throttled ?? 0 > 0)
                    #expect(client.first { $0.route == "/cart" }?.waste.redirected ?? 0 > 0)
                    #expect(server.first { $0.route == "/checkout" }?.duration?.p50 ?? 0 >= 80_000)
                }
                let snapshot = try await daemon.snapshot()
                let explained = (snapshot.processes ?? []).filter { $0.explained > 0 }
                #expect(explained.count == 2)
                for process in explained {
                    #expect(process.details.name == "trafficexample")
                    #expect(process.unattributed == 0 && process.explained == process.bytes.payload.total)
                }
                #expect(snapshot.capture.reports.inferred == 0 && snapshot.capture.reports.rejected == 0)
            }
        }

        /// The daemon's snapshot once both ends have reported equally many exchanges.
        private func settledShop(_ daemon: Daemon) async throws -> Snapshot {
            try await look(until: { snapshot in
                let ended = [EndpointRole.client, .server].map { role in
                    (snapshot.endpoints ?? []).filter { $0.role == role }
                        .reduce(0) { $0 + $1.outcomes.values.reduce(0, +) }
                }
                return ended[0] > 0 && ended[0] == ended[1]
            }) { try await daemon.snapshot() }
        }

        @Test(
            "a program that is killed between request and response leaves a request, and no response",
            .needs("python3")
        )
        func killed() async throws {
            let script = """
                import socket
                with socket.create_server(("127.0.0.1", 0)) as server:
                    print(server.getsockname()[1], flush=True)
                    connection, _ = server.accept()
                    request = b""
                    while not request.endswith(b"\\r\\n\\r\\n"):
                        request += connection.recv(4096)
                    print("asked", flush=True)
                    connection.recv(4096)
                """
            try await withDaemon { daemon in
                let listener = try Program(try #require(Machine.path(of: "python3")), ["-c", script])
                let port = String(decoding: try #require(try await listener.line()), as: UTF8.self)
                let client = try Program(
                    Machine.programs.directory.appending(path: "trafficexample"),
                    [
                        "buy", "--timeout", "600", "--port", port, "--report-socket",
                        daemon.directories.reportSocket.path,
                    ]
                )
                #expect(try await listener.line() == Data("asked".utf8))
                // The library sends a record after it has waited for a tenth of a second.
                #expect(try await eventually { try await daemon.snapshot().endpoints?.isEmpty == false })
                client.signal(SIGKILL)
                _ = try? await client.exit()
                let snapshot = try await daemon.snapshot()
                let endpoint = try #require(snapshot.endpoints?.first)
                #expect(endpoint.requests == 1 && endpoint.responses == 0 && endpoint.outcomes == [:])
                #expect(endpoint.received == MessageBytes() && endpoint.sent.message > 0)
                let answer = try await daemon.get("/v1/exchanges")
                let exchanges = try JSONDecoder().decode(ExchangeReport.self, from: answer.output).exchanges
                let exchange = try #require(exchanges.first)
                #expect(exchange.request?.message == endpoint.sent.message && exchange.response == nil)
                let process = try #require(snapshot.processes?.first { $0.explained > 0 })
                #expect(process.explained == process.bytes.payload.total)
            }
        }
    }
}
