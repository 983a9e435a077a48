import AsyncHTTPClient
import Foundation
import FoundationNetworking
import GroundTruth
import NIOCore
import NIOPosix
import NIOSSL
import TestSupport
import Testing
import TrafficKit
import TrafficKitAsyncHTTPClient
import TrafficKitNIO
import TrafficKitTestSupport
import TrafficKitURLSession
import TrafficModel
import TrafficReport

extension SystemTests {
    /// In which phases a client's exchanges spend their time, on paths that are slow in one place.
    @Suite(.tags(.peer), .needsBPF, .needs("python3"))
    struct PhaseTests {
        /// The exchanges of clients once `count` of them have ended, in the order of their starts.
        private func ended(_ daemon: Daemon, _ count: Int) async throws -> [ExchangeUsage] {
            try await look(until: { $0.count >= count }) {
                let answer = try await daemon.get("/v1/exchanges")
                return try JSONDecoder().decode(ExchangeReport.self, from: answer.output).exchanges
                    .filter { $0.role == .client && $0.outcome != nil }
            }.sorted { $0.startedAt < $1.startedAt }
        }

        /// All ended exchanges and the endpoints, once an exchange with `host` has ended and the endpoints contain all
        /// ended exchanges.
        private func settled(
            _ daemon: Daemon,
            host: String
        ) async throws -> (exchanges: [ExchangeUsage], endpoints: [EndpointUsage]) {
            try await look(until: { exchanges, endpoints in
                let outcomes = endpoints.filter { $0.role == .client }.flatMap(\.outcomes.values).reduce(0, +)
                return outcomes == exchanges.count && exchanges.contains { $0.host == host }
            }) {
                (try await self.ended(daemon, 0), try await daemon.snapshot().endpoints ?? [])
            }
        }

        private func expectSum(_ exchange: ExchangeUsage) {
            let sum = exchange.phases.values.reduce(0, +)
            let duration = exchange.duration ?? 0
            #expect(max(sum, duration) - min(sum, duration) <= 1_000, "\(exchange.phases) of \(duration)")
        }

        // MARK: Connect

        /// Drops the first SYN of each connection. The kernel sends another SYN after a second.
        private func loseSYNs(_ namespace: NetworkNamespace, port: UInt16) async throws {
            let isSYN = "tcp dport \(port) tcp flags & (syn | ack) == syn"
            for command in [
                "add table inet lossy",
                "add set inet lossy seen { type inet_service; flags dynamic; size 65535; }",
                "add chain inet lossy input { type filter hook input priority 0; }",
                "add rule inet lossy input \(isSYN) tcp sport @seen accept",
                "add rule inet lossy input \(isSYN) add @seen { tcp sport } drop",
            ] { try await namespace.run("nft", command) }
        }

        /// Seconds from a connection's first SYN to the first SYN-ACK, by the client's port, from the output of
        /// tcpdump.
        private func handshakes(_ dump: String, port: UInt16) -> [UInt16: Double] {
            var (asked, took): ([UInt16: Double], [UInt16: Double]) = ([:], [:])
            for line in dump.split(separator: "\n") {
                let words = line.split(separator: " ").map { $0.filter { $0 != ":" && $0 != "," } }
                guard words.count > 6, let time = Double(words[0]) else { continue }
                let ports = [words[2], words[4]].compactMap { $0.split(separator: ".").last.flatMap { UInt16($0) } }
                switch words[6] {
                case "[S]" where asked[ports[0]] == nil: asked[ports[0]] = time
                case "[S.]" where took[ports[1]] == nil: took[ports[1]] = asked[ports[1]].map { time - $0 }
                default: break
                }
            }
            return took
        }

        /// One exchange over a socket of its own, reported by a program in another language. The program prints its
        /// port and the microseconds that its call took.
        private static let reporter = """
            import socket, struct, sys, time
            sys.path.insert(0, sys.argv[1])
            from send_report import CLIENT, EXCHANGE, OK, OUTCOME, REQUEST, RESPONSE, datagram, message, name, record
            clock = lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            client = socket.socket()
            before = clock()
            client.connect(("127.0.0.1", int(sys.argv[2])))
            connected = clock()
            line, fields = b"GET /orders/7 HTTP/1.1\\r\\n", b"Host: python.example\\r\\nConnection: close\\r\\n\\r\\n"
            client.sendall(line + fields)
            start, answer = clock(), b""
            while part := client.recv(65536):
                answer += part
            end = clock()
            head = answer.index(b"\\r\\n\\r\\n") + 4
            status = answer.index(b"\\r\\n") + 2
            cookie = int.from_bytes(client.getsockopt(socket.SOL_SOCKET, 57, 8), "little")  # SO_COOKIE
            lengths = [(0, len(line), len(fields)), (len(answer) - head, status, head - status)]
            # Without phases of the connection: the daemon finds them.
            exchange = struct.pack("<HHQQQ", REQUEST | RESPONSE | OUTCOME, 0, 1, cookie, start)
            for body, line_bytes, field_bytes in lengths:
                total = body + line_bytes + field_bytes
                exchange += message(0, total, body, 0, end - start, line_bytes, field_bytes)
            exchange += struct.pack("<Q III HBx", end - start, 0, (end - start) // 1000, 0, 200, OK)
            records = [name("GET", "python.example", "/orders/{id}"), record(EXCHANGE, CLIENT, exchange)]
            sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender.sendto(datagram(0, records, end), sys.argv[3])
            print(client.getsockname()[1], (connected - before) // 1000, flush=True)
            sys.stdin.readline()
            """

        @Test(
            "a lost SYN's second is in connect of the first exchange only, as tcpdump, curl and the caller measure",
            .needs("ip", "nft", "tcpdump", "curl", "ss")
        )
        func lostSYN() async throws {
            try await withDaemon { daemon in
                try await NetworkNamespace.with { namespace in
                    let inside = try namespace.launcher()
                    func start(_ command: [String]) throws -> Program {
                        try Program(inside.program, inside.arguments + command)
                    }
                    let port = UInt16(try FreePort.next())
                    let example = Machine.programs.directory.appending(path: "trafficexample").path
                    let options = ["--port", "\(port)", "--report-socket", daemon.directories.reportSocket.path]
                    let shop = try start([example, "serve"] + options)
                    try await awaitListener(on: "\(port)", of: shop, launcher: ["ip"] + inside.arguments)
                    try await self.loseSYNs(namespace, port: port)
                    let dump = try start([
                        "tcpdump", "-i", "lo", "-n", "-l", "-tt", "--time-stamp-precision=nano", "-Z", "root",
                        "tcp port \(port) and tcp[tcpflags] & tcp-syn != 0",
                    ])
                    while !dump.errorText.contains("listening on") {
                        try #require(dump.isRunning, "\(dump.errorText)")
                        try await Task.sleep(for: .milliseconds(50))
                    }

                    let once = ["buy", "--seconds", "1", "--rate", "2", "--timeout", "600"]
                    let buy = try start([example] + once + options)
                    #expect(try await buy.exit() == 0, "\(buy.errorText)")
                    let scripts = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                        .appending(path: "TrafficReportTests").path
                    let reportSocket = daemon.directories.reportSocket.path
                    // With -B, Python leaves no compiled script behind.
                    let python = try start(["python3", "-B", "-c", Self.reporter, scripts, "\(port)", reportSocket])
                    let line = String(decoding: try await python.line() ?? Data(), as: UTF8.self)
                    let call = line.split(separator: " ").compactMap { UInt64($0) }
                    try #require(call.count == 2, "\(python.errorText)")
                    let curl = try await tool(
                        "ip",
                        inside.arguments + [
                            "curl", "--silent", "--output", "/dev/null", "--write-out", "%{local_port} %{time_connect}",
                            "http://127.0.0.1:\(port)/orders/1",
                        ]
                    )

                    let (exchanges, endpoints) = try await self.settled(daemon, host: "python.example")
                    let shopping = exchanges.filter { $0.processName == "trafficexample" }
                    let other = try #require(exchanges.first { $0.host == "python.example" })
                    let socket = try await daemon.snapshot().sockets?.first { $0.cookie == other.cookie }
                    try python.writeLine()
                    // At its end tcpdump forgets the packets that it has not printed.
                    var printed = ""
                    let last = [UInt16(call[0]), UInt16(curl.output.prefix { $0 != " " }) ?? 0]
                    while !last.allSatisfy({ self.handshakes(printed, port: port)[$0] != nil }) {
                        printed += String(decoding: try #require(try await dump.line()), as: UTF8.self) + "\n"
                    }
                    dump.signal(SIGINT)
                    let handshakes = self.handshakes(
                        printed + String(decoding: try await dump.rest(), as: UTF8.self),
                        port: port
                    )
                    shop.signal(SIGTERM)
                    _ = try await shop.exit()

                    try #require(shopping.count >= 12 && shopping.allSatisfy { $0.cookie != nil }, "\(shopping)")
                    // The client may have several connections.
                    let connections = Dictionary(grouping: exchanges, by: \.cookie).values
                    #expect(handshakes.count == connections.count + 1, "\(handshakes)")
                    for exchanges in connections {
                        #expect(exchanges.map { $0.phases[.connect] != nil } == exchanges.indices.map { $0 == 0 })
                        #expect(exchanges[0].duration ?? 0 >= exchanges[0].phases[.connect] ?? .max)
                    }
                    #expect(exchanges.allSatisfy { $0.phases[.tls] == nil && $0.phases[.dns] == nil })
                    for exchange in exchanges { self.expectSum(exchange) }
                    // The second may be shorter by a clock tick.
                    let connects = connections.compactMap { $0[0].phases[.connect] }
                    #expect(connects.allSatisfy { $0 >= 990_000 })
                    // The time on the wire is within the kernel's time, and the kernel's time is within the call's
                    // time.
                    let connect = try #require(other.phases[.connect])
                    let seen = try #require(handshakes[UInt16(call[0])])
                    #expect(Double(connect) >= seen * 1e6 - 1_000 && connect <= call[1])
                    #expect(socket?.connectMicroseconds == connect)
                    // curl, which does not report, waited equally long on the same path.
                    let words = curl.output.split(whereSeparator: \.isWhitespace)
                    try #require(words.count == 2, "\(curl)")
                    let seenOfCurl = try #require(handshakes[UInt16(words[0]) ?? 0])
                    #expect(seenOfCurl >= 0.99 && Double(words[1]) ?? 0 >= seenOfCurl - 0.001)
                    #expect(Double(connects.min() ?? 0) >= (handshakes.values.min() ?? 2) * 1e6 - 1_000)
                    // The endpoints have the same times, and no server has a connect phase.
                    let phases = { (role: EndpointRole) in
                        endpoints.filter { $0.role == role }.compactMap { $0.phases[.connect] }
                    }
                    #expect(phases(.client).reduce(0) { $0 + $1.count } == connections.count)
                    #expect(phases(.client).reduce(0) { $0 + $1.sum } == connects.reduce(0, +))
                    #expect(phases(.server).isEmpty)
                    for endpoint in endpoints where endpoint.phases[.connect] != nil {
                        #expect(endpoint.duration?.max ?? 0 >= 980_000)
                    }
                }
            }
        }

        /// Has room for one connection that is not accepted, and fills this room itself. Makes room once a client waits
        /// for an answer to its SYN.
        private static let crowded = """
            import socket, time
            server = socket.socket()
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            filler = socket.create_connection(server.getsockname())
            port = server.getsockname()[1]
            print(port, flush=True)
            SYN_SENT, waiting = "02", False
            while not waiting:
                rows = [row.split() for row in open("/proc/net/tcp").readlines()[1:]]
                waiting = any(row[2].endswith(":%04X" % port) and row[3] == SYN_SENT for row in rows)
                time.sleep(0.05)
            server.accept()
            connection, _ = server.accept()
            while request := connection.recv(65536):
                connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
            """

        @Test("connect is known for URLSession too, which does not show its sockets: within the task's duration")
        func session() async throws {
            try await withDaemon { daemon in
                let server = try Program(try #require(Machine.path(of: "python3")), ["-c", Self.crowded])
                let port = String(decoding: try #require(try await server.line()), as: UTF8.self)
                let monitor = TrafficMonitor()
                try monitor.start(.init(socketPath: daemon.directories.reportSocket.path))
                let session = TrafficSession(configuration: .ephemeral, monitor: monitor)
                for _ in 0..<2 {
                    let url = try #require(URL(string: "http://127.0.0.1:\(port)/crowded"))
                    let patience = Program.patience / .seconds(1)
                    _ = try await session.data(for: URLRequest(url: url, timeoutInterval: patience))
                }
                let exchanges = try await self.ended(daemon, 2)
                session.finishTasksAndInvalidate()
                monitor.stop()
                try #require(exchanges.count == 2)
                #expect(exchanges[0].phases.keys.sorted { $0.rawValue < $1.rawValue } == [.connect])
                #expect(exchanges[0].phases[.connect] ?? 0 >= 900_000)
                #expect(exchanges[0].phases[.connect] ?? .max <= exchanges[0].duration ?? 0)
                #expect(exchanges[1].phases.isEmpty)
            }
        }

        /// When the test adds a connection's handlers.
        enum Arrival: CaseIterable {
            case beforeConnecting, connected, behindPreface
        }

        /// The preface, with empty settings (RFC 9113 sections 3.4 and 6.5).
        private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + [0, 0, 0, 4, 0, 0, 0, 0, 0]

        /// `GET /` of `http://h` without a body: HEADERS with entries of HPACK's static table (RFC 7541 appendix A).
        private static func request(_ stream: UInt8) -> [UInt8] {
            [0, 0, 6, 1, 5, 0, 0, 0, stream, 0x82, 0x86, 0x84, 0x41, 1, UInt8(ascii: "h")]
        }

        /// Two exchanges of HTTP/2 without TLS, one after the other.
        private func converse(_ port: Int, _ arrival: Arrival, _ daemon: Daemon) async throws {
            let (monitor, records) = (TrafficMonitor(), Records())
            try monitor.start(.init(socketPath: daemon.directories.reportSocket.path, observers: [records]))
            let add = { @Sendable (channel: any Channel) in
                try channel.pipeline.syncOperations.addTrafficHandlers(role: .client, version: .http2, monitor: monitor)
            }
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .channelInitializer { channel in
                    channel.eventLoop.makeCompletedFuture {
                        if arrival == .beforeConnecting { try add(channel) }
                    }
                }
                .connect(host: "127.0.0.1", port: port).get()
            if arrival == .connected { try await channel.eventLoop.submit { try add(channel) }.get() }
            try await channel.writeAndFlush(ByteBuffer(bytes: Self.preface))
            if arrival == .behindPreface { try await channel.eventLoop.submit { try add(channel) }.get() }
            for index in 0..<2 {
                try await channel.writeAndFlush(ByteBuffer(bytes: Self.request(UInt8(1 + 2 * index))))
                try #require(try await eventually(every: .milliseconds(5)) { records.outcomes.count > index })
            }
            try await channel.close()
            monitor.stop()
        }

        @Test("connect is known for HTTP/2 without TLS too, if the handlers were there before the preface")
        func preface() async throws {
            // The sockets close one after the other, and all are read at the end.
            try await withDaemon(arguments: ["--keep-closed", "600"]) { daemon in
                let server = try await InstrumentedServer(isHTTP2: true)
                for arrival in Arrival.allCases { try await self.converse(server.port, arrival, daemon) }
                let exchanges = try await self.ended(daemon, 2 * Arrival.allCases.count)
                try await server.stop()
                try #require(exchanges.count == 2 * Arrival.allCases.count)
                let sockets = try await daemon.snapshot().sockets ?? []
                for (index, arrival) in Arrival.allCases.enumerated() {
                    let (first, second) = (exchanges[2 * index], exchanges[2 * index + 1])
                    let socket = try #require(sockets.first { $0.cookie == first.cookie })
                    let known = try #require(socket.connectMicroseconds)
                    #expect(first.phases[.connect] == (arrival == .behindPreface ? nil : known))
                    #expect(second.cookie == first.cookie && second.phases[.connect] == nil)
                    for exchange in [first, second] {
                        #expect(exchange.version == .http2 && exchange.outcome == .ok && exchange.phases[.tls] == nil)
                        self.expectSum(exchange)
                    }
                }
            }
        }

        // MARK: TLS

        /// Waits between accept() and the handshake, and before each answer. Prints when accept() returned.
        private static let slow = """
            import socket, ssl, sys, time
            certificate, key, handshake, answer = sys.argv[1:]
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            with socket.create_server(("127.0.0.1", 0)) as server:
                print(server.getsockname()[1], flush=True)
                connection, _ = server.accept()
                print(time.clock_gettime_ns(time.CLOCK_BOOTTIME), flush=True)
                time.sleep(float(handshake))
                connection = context.wrap_socket(connection, server_side=True)
                while request := connection.recv(65536):
                    time.sleep(float(answer))
                    connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\nhello")
            """

        /// Two exchanges of AsyncHTTPClient on one connection, and the time when the server had accepted that
        /// connection.
        private func exchanges(
            _ daemon: Daemon,
            handshake: Int,
            answer: Int,
            _ records: Records
        ) async throws -> (exchanges: [ExchangeUsage], acceptedAt: UInt64) {
            let certificates = try await Certificates.local
            let server = try Program(
                try #require(Machine.path(of: "python3")),
                ["-c", Self.slow, certificates.certificate, certificates.key, "\(handshake)", "\(answer)"]
            )
            let port = String(decoding: try #require(try await server.line()), as: UTF8.self)
            let before = try await self.ended(daemon, 0).count
            let monitor = TrafficMonitor()
            try monitor.start(.init(socketPath: daemon.directories.reportSocket.path, observers: [records]))
            var configuration = HTTPClient.Configuration()
            var tls = TLSConfiguration.makeClientConfiguration()
            tls.trustRoots = .file(certificates.authority)
            configuration.tlsConfiguration = tls
            configuration.reportTraffic(to: monitor)
            configuration.timeout.connect = .minutes(10)
            let client = HTTPClient(configuration: configuration)
            do {
                for _ in 0..<2 {
                    let request = HTTPClientRequest(url: "https://localhost:\(port)/slow")
                    let response = try await client.execute(request, timeout: .minutes(10))
                    #expect(try await response.body.collect(upTo: 100).readableBytes == 5)
                }
            } catch {
                try await client.shutdown()
                throw error
            }
            let exchanges = try await self.ended(daemon, before + 2).dropFirst(before)
            try await client.shutdown()
            monitor.stop()
            let accepted = String(decoding: try #require(try await server.line()), as: UTF8.self)
            return (Array(exchanges), try #require(UInt64(accepted)))
        }

        @Test("the delay of a slow handshake is only in tls, the delay of a slow answer only in wait")
        func slowPeer() async throws {
            try await withDaemon { daemon in
                // A step of a busy machine may take a second, too. Then this looks at two other connections.
                let isUndisturbed = try await eventually { try await self.measureSlowPeers(daemon) }
                #expect(isUndisturbed, "the delay is in a step of its own in no measurement")
            }
        }

        /// - Returns: Whether each step that the server delayed took at least that long, and the others less.
        private func measureSlowPeers(_ daemon: Daemon) async throws -> Bool {
            let records = (Records(), Records())
            let start = TrafficClock.nanoseconds()
            let (slow, acceptedAt) = try await self.exchanges(daemon, handshake: 1, answer: 0, records.0)
            let (lazy, _) = try await self.exchanges(daemon, handshake: 0, answer: 1, records.1)
            try #require(slow.count == 2 && lazy.count == 2)
            for exchanges in [slow, lazy] {
                for exchange in exchanges { self.expectSum(exchange) }
                #expect(exchanges.map { $0.phases[.connect] != nil } == [true, false])
                #expect(exchanges.map { $0.phases[.tls] != nil } == [true, false])
            }
            let phase = { (exchange: ExchangeUsage, phase: ExchangePhase) in exchange.phases[phase] ?? 0 }
            #expect(phase(slow[0], .tls) >= 1_000_000)
            // The kernel established the connection after the client began to connect, and before the server accepted
            // it.
            let told = try #require(records.0.outcomes.first?.tlsEndedAt)
            try #require(start < acceptedAt && acceptedAt < told)
            #expect(phase(slow[0], .tls) >= (told - acceptedAt) / 1_000)
            #expect(phase(slow[0], .connect) + phase(slow[0], .tls) <= (told - start) / 1_000)

            let all = slow + lazy
            // An exchange begins for the library when the kernel has taken the first bytes. The server may have them, and
            // sleep, before the library has looked at the clock.
            return lazy.allSatisfy { phase($0, .send) + phase($0, .wait) >= 1_000_000 }
                && phase(lazy[0], .tls) < 1_000_000
                && slow.allSatisfy { phase($0, .wait) < phase(lazy[0], .wait) }
                && lazy.allSatisfy { phase($0, .wait) > phase($0, .send) }
                && all.allSatisfy { exchange in
                    [.connect, .send, .receive].allSatisfy { phase(exchange, $0) < 1_000_000 }
                }
        }
    }
}
