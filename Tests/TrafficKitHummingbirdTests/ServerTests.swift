import Foundation
import Hummingbird
import HummingbirdCore
import HummingbirdHTTP2
import HummingbirdTLS
import Logging
import NIOCore
import NIOSSL
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitHummingbird

/// A Hummingbird application and curl, with a proxy between them that counts the socket's bytes.
@Suite("Hummingbird against curl")
struct ServerTests {
    struct Run {
        var records: Records
        var bytes: [CountingProxy.Bytes]
    }

    private static func router() -> Router<BasicRequestContext> {
        let router = Router(context: BasicRequestContext.self)
        router.get("/users/:id") { _, context in "user \(context.parameters.get("id") ?? "")" }
        router.get("/private/:id") { _, _ in "private" }
        router.get("/size/:count") { _, context -> ByteBuffer in
            ByteBuffer(repeating: 7, count: context.parameters.get("count", as: Int.self) ?? 0)
        }
        // Answers in chunks, as the body comes.
        router.put("/echo/:name") { request, _ in Response(status: .ok, body: .init(asyncSequence: request.body)) }
        // Answers only when the whole body is there: long after its first bytes.
        router.put("/sum/:name") { request, _ in
            String(try await request.body.collect(upTo: 1 << 20).readableBytesView.reduce(0) { $0 + Int($1) })
        }
        // Whether the route is wanted.
        router.get("/asked") { _, _ in String(RequestRoutes.areWanted) }
        router.get("/broken") { _, _ -> String in throw HTTPError(.internalServerError) }
        return router
    }

    private static func server(
        _ monitor: TrafficMonitor,
        isTLS: Bool,
        isHTTP2: Bool
    ) async throws -> HTTPServerBuilder {
        guard isTLS else { return isHTTP2 ? .plaintextHTTP2(reportingTo: monitor) : .http1(reportingTo: monitor) }
        let certificates = try await Certificates.local
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
        )
        // A client's closure alert that comes later is not read, but the proxy counts it.
        configuration.shutdownTimeout = .minutes(10)
        guard isHTTP2 else { return try .tls(.http1(reportingTo: monitor), tlsConfiguration: configuration) }
        return try .http2Upgrade(reportingTo: monitor, tlsConfiguration: configuration)
    }

    /// Runs a server while `body` runs. `body` gets the server's port.
    private static func withServer<Result: Sendable>(
        _ monitor: TrafficMonitor,
        isTLS: Bool,
        isHTTP2: Bool,
        _ body: (Int) async throws -> Result
    ) async throws -> Result {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        let application = Application(
            router: Self.router().reportingRoutes(),
            server: try await Self.server(monitor, isTLS: isTLS, isHTTP2: isHTTP2),
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { port.yield($0.localAddress?.port ?? 0) },
            logger: logger
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await application.run() }
            let result = try await body(try #require(await ports.first { _ in true }))
            group.cancelAll()
            try await group.waitForAll()
            return result
        }
    }

    private func run(
        isTLS: Bool,
        isHTTP2: Bool = false,
        _ body: (CountingProxy) async throws -> Void
    ) async throws -> Run {
        try await Nghttp.patiently {
            let monitor = TrafficMonitor()
            let records = Records()
            let filter = TrafficFilter(exclude: [.init(path: "/private")])
            try monitor.start(.init(socketPath: "/nowhere/report.sock", filter: filter, observers: [records]))
            let bytes = try await Self.withServer(monitor, isTLS: isTLS, isHTTP2: isHTTP2) { port in
                let proxy = try CountingProxy(to: port)
                do {
                    try await body(proxy)
                } catch {
                    _ = await proxy.stop()
                    throw error
                }
                return await proxy.stop()
            }
            return Run(records: records, bytes: bytes)
        }
    }

    private func curl(
        _ proxy: CountingProxy,
        isTLS: Bool,
        _ options: [String],
        _ paths: [String]
    ) async throws
        -> [Curl.Transfer]
    {
        let authority = try await Certificates.local.authority
        let base = "\(isTLS ? "https" : "http")://localhost:\(proxy.port)"
        return try await Curl.run(["--http1.1", "--cacert", authority] + options, paths.map { base + $0 })
    }

    private func expectEveryByte(_ run: Run) {
        let explained = run.records.bytes(role: .server)
        #expect(explained.toServer == run.bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == run.bytes.reduce(0) { $0 + $1.toClient })
        for message in run.records.requests + run.records.responses {
            #expect(message.interval.bytes == message.messageBytes + message.tlsBytes && message.quality == .exact)
        }
    }

    @Test("90 exchanges on one connection have the router's paths", arguments: [false, true])
    func routes(isTLS: Bool) async throws {
        var transfers: [Curl.Transfer] = []
        let run = try await self.run(isTLS: isTLS) { proxy in
            let paths = (0..<90).map { ["/users/\($0)?q=secret", "/size/\($0 * 1_000)", "/nothing/\($0)"][$0 % 3] }
            transfers = try await self.curl(proxy, isTLS: isTLS, [], paths)
        }
        #expect(run.bytes.count == 1)
        self.expectEveryByte(run)
        let routes = (0..<90).map { ["/users/{id}", "/size/{count}", "_unmatched"][$0 % 3] }
        #expect(run.records.requests.map(\.route) == routes)
        #expect(run.records.responses.map(\.route) == routes)
        #expect(run.records.outcomes.map(\.route) == routes)
        #expect(run.records.outcomes.map(\.ending) == (0..<90).map { $0 % 3 == 2 ? .http4xx : .ok })
        #expect(run.records.requests.map(\.messageBytes) == transfers.map(\.requestBytes))
        #expect(run.records.responses.map(\.bodyBytes) == transfers.map(\.bodyBytes))
        #expect(
            run.records.responses.map { UInt64($0.lineBytes) + UInt64($0.headerBytes) } == transfers.map(\.headerBytes)
        )
    }

    @Test("uploads that come back in chunks, an error, and an excluded exchange", arguments: [false, true])
    func bodies(isTLS: Bool) async throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "upload-\(UUID().uuidString)")
        try Data(repeating: 7, count: 500_009).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        var transfers: [Curl.Transfer] = []
        let run = try await self.run(isTLS: isTLS) { proxy in
            transfers = try await self.curl(proxy, isTLS: isTLS, ["-H", "Expect:", "-T", file.path], ["/echo/one"])
            let chunked = ["-H", "Expect:", "-H", "Transfer-Encoding: chunked", "-T", file.path]
            transfers += try await self.curl(proxy, isTLS: isTLS, chunked, ["/echo/two"])
            transfers += try await self.curl(proxy, isTLS: isTLS, ["-H", "Expect:", "-T", file.path], ["/sum/three"])
            _ = try await self.curl(proxy, isTLS: isTLS, [], ["/private/1", "/broken", "/private/2", "/users/1"])
        }
        self.expectEveryByte(run)
        #expect(run.bytes.count == 4)
        let routes = ["/echo/{name}", "/echo/{name}", "/sum/{name}", "/broken", "/users/{id}"]
        #expect(run.records.requests.map(\.route) == routes)
        #expect(run.records.outcomes.map(\.ending) == [.ok, .ok, .ok, .http5xx, .ok])
        let (requests, responses) = (run.records.requests.prefix(3), run.records.responses.prefix(2))
        #expect(requests.map { $0.bodyBytes + $0.framingBytes } == transfers.map(\.uploadBytes))
        #expect(requests.allSatisfy { $0.bodyBytes == 500_009 } && responses.map(\.bodyBytes) == [500_009, 500_009])
        #expect(responses.allSatisfy { $0.framingBytes > 0 })
        let excluded = run.records.connections.values.map(\.received.excluded).reduce(0, +)
        #expect(excluded > 100)
    }

    @Test("100 pipelined requests have their own routes", arguments: [false, true])
    func pipelined(isTLS: Bool) async throws {
        let requests = (0..<100).map { index in
            "GET \(["/users/\(index)", "/none/\(index)", "/private/\(index)", "/broken"][index % 4]) HTTP/1.1\r\nHost: h\r\n"
                + (index == 99 ? "Connection: close\r\n\r\n" : "\r\n")
        }
        let run = try await self.run(isTLS: isTLS) { proxy in
            let input = Data(requests.joined().utf8)
            if isTLS {
                let arguments = [
                    "s_client", "-quiet", "-connect", "127.0.0.1:\(proxy.port)", "-servername", "localhost",
                ]
                try await Tool.run("openssl", arguments, input: input)
            } else {
                try await Tool.run(
                    "bash",
                    ["-c", "exec 3<>/dev/tcp/127.0.0.1/\(proxy.port); cat >&3; cat <&3"],
                    input: input
                )
            }
        }
        self.expectEveryByte(run)
        let routes = (0..<100).filter { $0 % 4 != 2 }.map { ["/users/{id}", "_unmatched", "", "/broken"][$0 % 4] }
        #expect(run.records.requests.map(\.route) == routes)
        #expect(run.records.responses.map(\.route) == routes)
        #expect(Set(run.records.responses.map(\.status)) == [200, 404, 500])
    }

    /// Requests one after the other on one connection: `GET` of a path with a host.
    private func ask(_ requests: [(path: String, host: String)]) async throws -> Run {
        try await self.run(isTLS: false) { proxy in
            let lines = requests.map { "GET \($0.path) HTTP/1.1\r\nHost: \($0.host)\r\n" }
            let text = lines.joined(separator: "\r\n") + "Connection: close\r\n\r\n"
            _ = try await RawConnection.open(to: proxy.port) { connection in
                connection.send(text.utf8)
                return connection.readToEnd()
            }
        }
    }

    @Test("paths that the router does not know share one name; their hosts have none unless the app named them")
    func junk() async throws {
        let words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
        let junk = (0..<30).map { (path: "/\(words[$0 % 6])/\(words[$0 / 6])", host: "\(words[$0 % 6]).\($0).example") }
        let real = (path: "/users/1", host: "api.example")
        let run = try await self.ask([real] + junk + [real, (path: "/none", host: "API.example:80")])
        self.expectEveryByte(run)
        let names = Set(run.records.requests.map { [$0.host, $0.route] })
        #expect(
            names == [["api.example", "/users/{id}"], ["_other", "_unmatched"], ["api.example", "_unmatched"]]
        )
        #expect(run.records.requests.count == 33)
        #expect(Set(run.records.responses.map { [$0.host, $0.route] }) == names)
    }

    @Test("with a new host in every request to a known path, the first hosts have rows and the rest share one")
    func junkHosts() async throws {
        let run = try await self.ask((0..<40).map { (path: "/users/1", host: "host\($0).example") })
        let hosts = run.records.requests.map(\.host)
        #expect(hosts == (0..<40).map { $0 < 32 ? "host\($0).example" : "_other" })
        #expect(Set(run.records.requests.map(\.route)) == ["/users/{id}"])
    }

    @Test("HTTP/2: 60 streams at a time have their own routes, and HTTP/1.1 beside it", arguments: [false, true])
    func http2(isTLS: Bool) async throws {
        var frames = Nghttp.Frames()
        let run = try await self.run(isTLS: isTLS, isHTTP2: true) { proxy in
            let base = "\(isTLS ? "https" : "http")://localhost:\(proxy.port)"
            let paths = (0..<60).map {
                ["/users/\($0)", "/size/\($0 * 1_000)", "/private/\($0)", "/broken?\($0)"][$0 % 4]
            }
            frames = try await Nghttp.fetch([], paths.map { base + $0 })
            if isTLS { _ = try await self.curl(proxy, isTLS: true, [], ["/users/1"]) }
        }
        self.expectEveryByte(run)
        let requests = run.records.requests.filter { $0.version == .http2 }.sorted { $0.number < $1.number }
        let responses = run.records.responses.filter { $0.version == .http2 }
        let routes = (0..<60).filter { $0 % 4 != 2 }.map { ["/users/{id}", "/size/{count}", "", "/broken"][$0 % 4] }
        #expect(requests.map(\.route) == routes)
        #expect(responses.sorted { $0.number < $1.number }.map(\.route) == routes)
        let named = zip(0..<60, frames.received.keys.sorted()).filter { $0.0 % 4 != 2 }.map(\.1)
        let bodies = named.map { frames.received[$0]?.body }
        #expect(responses.sorted { $0.number < $1.number }.map(\.bodyBytes) == bodies)
        #expect(run.records.responses.filter { $0.version == .http1_1 }.map(\.route) == (isTLS ? ["/users/{id}"] : []))
        #expect(Set(run.records.outcomes.map(\.ending)) == [.ok, .http5xx])
        let excluded = run.records.connections.values.map { ($0.received.excluded, $0.sent.excluded) }
        #expect(excluded.contains { $0.0 > 100 && $0.1 > 100 })
    }

    @Test(
        "a connection that begins without a listener is reported from the first request after the daemon is found"
    )
    func lateDaemon() async throws {
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let receiver = try daemon.come()
        let paths = ["/users/1", "/users/2", "/size/6", "/users/4"]
        try await Self.withServer(daemon.monitor, isTLS: false, isHTTP2: false) { port in
            let (heads, isNoticed) = try await RawConnection.open(to: port) { connection in
                var heads: [String] = []
                var isNoticed = false
                for (index, path) in paths.enumerated() {
                    if index == 1 { isNoticed = daemon.lookAgain() }
                    connection.send(Self.request(path).utf8)
                    heads.append(connection.readHead())
                    connection.read(6)
                }
                return (heads, isNoticed)
            }
            #expect(isNoticed && heads.allSatisfy { $0.hasPrefix("HTTP/1.1 200") })
            let url = "http://127.0.0.1:\(port)/users/3"
            #expect(try await Curl.run([], [url]).map(\.bodyBytes) == [6])
        }
        daemon.monitor.stop()
        let messages = try await receiver.stop().all.messages
        let late = messages.filter { $0.quality == .inferred }
        #expect(late.map(\.route) == ["/size/{count}", "/size/{count}", "/users/{id}", "/users/{id}"])
        let requests = late.filter { $0.status == 0 }.map(\.interval)
        let ends = (1...4).map { UInt64(paths[..<$0].reduce(0) { $0 + Self.request($1).utf8.count }) }
        #expect(requests == [.init(from: ends[1], to: ends[2]), .init(from: ends[2], to: ends[3])])
        let responses = late.filter { $0.status != 0 }
        #expect(responses[0].interval.to == responses[1].interval.from)
        #expect(responses.allSatisfy { $0.interval.bytes == $0.messageBytes && $0.bodyBytes == 6 })
        #expect(messages.filter { $0.quality == .exact }.map(\.route) == ["/users/{id}", "/users/{id}"])
        #expect(messages.count == 6)
    }

    private static func request(_ path: String) -> String { "GET \(path) HTTP/1.1\r\nHost: h\r\n\r\n" }

    @Test("the same with TLS and HTTP/2", arguments: [(true, false), (false, true), (true, true)])
    func lateDaemon(isTLS: Bool, isHTTP2: Bool) async throws {
        let daemon = try LateDaemon()
        #expect(daemon.giveUp())
        let receiver = try daemon.come()
        let authority = try await Certificates.local.authority
        try await Self.withServer(daemon.monitor, isTLS: isTLS, isHTTP2: isHTTP2) { port in
            let version = isHTTP2 ? isTLS ? "--http2" : "--http2-prior-knowledge" : "--http1.1"
            // The sizes of the bodies.
            let ask = { (paths: [String]) in
                let urls = paths.map { "\(isTLS ? "https" : "http")://localhost:\(port)\($0)" }
                // With --http2-prior-knowledge, curl 7.88 fails at the second request on a connection: here each request
                // has its own.
                let runs = isHTTP2 && !isTLS ? urls.map { [$0] } : [urls]
                var sizes: [UInt64] = []
                for urls in runs {
                    let transfers = try await Curl.run([version, "--cacert", authority], urls)
                    #expect(transfers.allSatisfy { ($0.version == "2") == isHTTP2 })
                    sizes += transfers.map(\.bodyBytes)
                }
                return sizes
            }
            let before = try await ask(["/users/1", "/asked"])
            #expect(before == [6, UInt64("false".utf8.count)])
            #expect(daemon.lookAgain())
            let after = try await ask(["/asked", "/users/2"])
            #expect(after == [UInt64("true".utf8.count), 6])
        }
        daemon.monitor.stop()
        let records = try await receiver.stop().all
        #expect(records.messages.map(\.route).sorted() == ["/asked", "/asked", "/users/{id}", "/users/{id}"])
    }
}
