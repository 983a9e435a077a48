import Foundation
import FoundationNetworking
import Synchronization
import TestSupport
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitURLSession

/// A session of ours and a server, with a proxy between them that counts the socket's bytes.
@Suite("TrafficSession: exchanges one after the other")
struct SerialTests {
    struct Run {
        var records = Records()
        var bytes: [CountingProxy.Bytes] = []

        /// Checks that all messages have a socket, and explain every byte that the proxy counted.
        func expectEveryByte() {
            let explained = self.records.bytes(role: .client)
            #expect(explained.toServer == self.bytes.reduce(0) { $0 + $1.toServer })
            #expect(explained.toClient == self.bytes.reduce(0) { $0 + $1.toClient })
            for messages in [self.records.requests, self.records.responses] {
                for message in messages {
                    #expect(message.interval.bytes == message.messageBytes + message.tlsBytes)
                    #expect(message.cookie != 0 && message.role == .client && message.host == "localhost")
                }
                for ofOne in Dictionary(grouping: messages, by: \.cookie).values {
                    #expect(ofOne.first?.interval.from == 0)
                    #expect(zip(ofOne, ofOne.dropFirst()).allSatisfy { $0.interval.to == $1.interval.from })
                }
            }
        }
    }

    static func run(
        to port: Int,
        scheme: String = "http",
        _ body: (TrafficSession, _ url: String) async throws -> Void
    ) async throws -> Run {
        let proxy = try CountingProxy(to: port)
        let monitor = TrafficMonitor()
        var run = Run()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [run.records]))
        try await Self.use(.ephemeral, monitor) { try await body($0, "\(scheme)://localhost:\(proxy.port)") }
        run.bytes = await proxy.stop()
        return run
    }

    /// Idle connections of a session are closed when the session is gone.
    static func use(
        _ configuration: URLSessionConfiguration,
        _ monitor: TrafficMonitor,
        _ body: (TrafficSession) async throws -> Void
    ) async throws {
        let session = TrafficSession(configuration: configuration, monitor: monitor)
        defer { session.finishTasksAndInvalidate() }
        try await body(session)
    }

    static func request(_ url: String, _ method: String = "GET", body: Data? = nil) throws -> URLRequest {
        var request = URLRequest(url: try #require(URL(string: url)))
        request.httpMethod = method
        request.httpBody = body
        // After its usual minute, an exchange that a busy machine keeps waiting would have ended otherwise.
        request.timeoutInterval = Program.patience / .seconds(1)
        return request
    }

    @Test("GET, HEAD, POST, PUT, with bodies and without, encoded and not: every byte")
    func kinds() async throws {
        let server = try ScriptedServer()
        let run = try await Self.run(to: server.port) { session, url in
            for target in ["/bytes/0", "/bytes/1", "/bytes/300000?secret=1", "/gzip", "/status/404", "/status/503"] {
                _ = try await session.data(for: Self.request(url + target))
            }
            _ = try await session.data(for: Self.request(url + "/bytes/5000", "HEAD"))
            _ = try await session.data(for: Self.request(url + "/status/204", "DELETE"))
            let body = Data(repeating: 7, count: 1_000_003)
            let (data, _) = try await session.data(for: Self.request(url + "/echo", "POST", body: body))
            #expect(data == body)
            let (same, _) = try await session.upload(for: Self.request(url + "/echo", "PUT"), from: body)
            #expect(same == body)
            _ = try await session.upload(for: Self.request(url + "/echo", "POST"), from: Data())
        }
        server.stop()
        #expect((1...1 + server.idleConnections).contains(run.bytes.count) && server.requests.count == 11)
        run.expectEveryByte()
        let (requests, responses) = (run.records.requests, run.records.responses)
        #expect(requests.allSatisfy { $0.quality == .exact } && responses.allSatisfy { $0.quality == .exact })
        #expect(requests.map { Int($0.lineBytes) } == server.requests.map { $0.line.utf8.count + 2 })
        #expect(requests.map { Int($0.lineBytes + $0.headerBytes) } == server.requests.map { $0.head.utf8.count + 4 })
        #expect(requests.map { Int($0.bodyBytes) } == server.requests.map(\.body.count))
        #expect(responses.map(\.bodyBytes) == [0, 1, 300_000, 52, 2, 2, 0, 0, 1_000_003, 1_000_003, 0])
        #expect(responses[3].decodedBodyBytes == 3_000 && responses[3].declaredBodyBytes == 52)
        #expect(responses.map(\.status) == [200, 200, 200, 200, 404, 503, 200, 204, 200, 200, 200])
        #expect(
            run.records.outcomes.map(\.ending) == [.ok, .ok, .ok, .ok, .http4xx, .http5xx, .ok, .ok, .ok, .ok, .ok]
        )
        #expect(run.records.outcomes.allSatisfy { $0.duration > 0 && $0.chain == 0 })
        #expect(requests[2].route == "/bytes/{id}" && requests[2].method == "GET")
    }

    @Test("an exchange beside an unreported exchange is not alone at its destination")
    func besideUnreported() async throws {
        let server = try ScriptedServer()
        let run = try await Self.run(to: server.port) { session, url in
            try await Self.use(.ephemeral, TrafficMonitor()) { silent in
                let request = try Self.request(url + "/held")
                async let held = silent.data(for: request)
                var arrivals = server.arrivals.makeAsyncIterator()
                _ = await arrivals.next()
                _ = try await session.data(for: Self.request(url + "/bytes/10"))
                server.release()
                _ = try await held
            }
            _ = try await session.data(for: Self.request(url + "/bytes/10"))
        }
        server.stop()
        #expect(run.records.responses.map(\.quality) == [.inferred, .exact])
    }

    @Test("if libcurl writes a path differently, the length of the line is not known")
    func dots() async throws {
        let server = try ScriptedServer()
        let run = try await Self.run(to: server.port) { session, url in
            for target in ["/bytes/10/../20", "/bytes/./10", "/bytes/1.5/..", "/bytes/10?a=/../b", ""] {
                _ = try await session.data(for: Self.request(url + target))
            }
        }
        server.stop()
        run.expectEveryByte()
        #expect(run.records.requests.map(\.quality) == [.inferred, .inferred, .inferred, .exact, .exact])
        for (request, asked) in zip(run.records.requests, server.requests) {
            #expect(Int(request.lineBytes) == (request.quality == .exact ? asked.line.utf8.count + 2 : 0))
            #expect(Int(request.lineBytes + request.headerBytes) == asked.head.utf8.count + 4)
        }
    }

    @Test("with chunks, the socket's bytes count as a whole, because they can't be divided")
    func chunked() async throws {
        let server = try ScriptedServer()
        let nginx = try await Nginx()
        let run = try await Self.run(to: server.port) { session, url in
            let (data, _) = try await session.data(for: Self.request(url + "/chunked"))
            #expect(data.count == 31)
        }
        server.stop()
        run.expectEveryByte()
        #expect(run.records.responses.map(\.quality) == [.inferred] && run.records.responses.map(\.bodyBytes) == [31])
        let encoded = try await Self.run(to: nginx.port) { session, url in
            let (data, _) = try await session.data(for: Self.request(url + "/text"))
            #expect(data == Data(Nginx.text.utf8))
        }
        let log = try nginx.log()
        try await nginx.stop()
        encoded.expectEveryByte()
        let response = try #require(encoded.records.responses.first)
        #expect(response.quality == .inferred && response.decodedBodyBytes == UInt64(Nginx.text.utf8.count))
        #expect(response.interval.bytes == log.first?.responseBytes)
        #expect(response.bodyBytes < UInt64(Nginx.text.utf8.count) && response.bodyBytes > 10_000)
    }

    @Test("50 exchanges on one connection, as many as nginx counts")
    func keepAlive() async throws {
        let nginx = try await Nginx()
        let longRests = Mutex(0)
        let run = try await Self.run(to: nginx.port) { session, url in
            var last = ContinuousClock.now
            for index in 0..<50 {
                let began = ContinuousClock.now
                defer {
                    if last.duration(to: .now) > ScriptedServer.longestIdle { longRests.withLock { $0 += 1 } }
                    last = began
                }
                var request = try Self.request("\(url)/\(index % 3 == 0 ? "none" : "file")?n=\(index)")
                if index % 3 == 1 { request.setValue("a=\(index)", forHTTPHeaderField: "Cookie") }
                let (data, _) = try await session.data(for: request)
                if index % 3 != 0 { #expect(data.count == 300_000) }
            }
        }
        let log = try nginx.log()
        try await nginx.stop()
        #expect((1...1 + longRests.withLock(\.self)).contains(run.bytes.count) && log.count == 50)
        run.expectEveryByte()
        #expect(run.records.requests.map(\.messageBytes) == log.map(\.requestBytes))
        #expect(run.records.responses.map(\.messageBytes) == log.map(\.responseBytes))
        #expect(run.records.responses.map(\.bodyBytes) == log.map(\.bodyBytes))
        #expect(run.records.requests.map(\.cookieBytes) == (0..<50).map { $0 % 3 == 1 ? $0 < 10 ? 13 : 14 : 0 })
        #expect(run.records.requests.allSatisfy { $0.quality == .exact })
    }

    @Test("every hop of a redirect is an exchange of its own", arguments: [301, 302, 303, 307, 308])
    func redirects(status: Int) async throws {
        let server = try ScriptedServer()
        let run = try await Self.run(to: server.port) { session, url in
            let body = Data("body".utf8)
            let (_, response) = try await session.data(for: Self.request(url + "/to/\(status)", "POST", body: body))
            #expect((response as? HTTPURLResponse)?.statusCode == 200)
        }
        server.stop()
        run.expectEveryByte()
        let (requests, responses) = (run.records.requests, run.records.responses)
        try #require(requests.count == 2 && responses.count == 2 && run.records.outcomes.count == 2)
        #expect(requests.map(\.bodyBytes) == [4, 0] && responses.map(\.bodyBytes) == [5, 0])
        #expect(requests.map(\.method) == ["POST", status < 304 ? "GET" : "POST"])
        #expect(responses.map(\.status) == [UInt16(status), 200])
        #expect(requests.map(\.route) == ["/to/{id}", "/echo"] && requests.map(\.hop) == [0, 1])
        for chain in [requests.map(\.chain), responses.map(\.chain), run.records.outcomes.map(\.chain)] {
            #expect(chain == [requests[0].number, requests[0].number])
        }
        #expect(requests[0].number != requests[1].number)
        // One record for each hop.
        #expect(run.records.exchanges.map(\.number) == requests.map(\.number))
        #expect(run.records.exchanges.map(\.startedAt) == requests.map(\.startedAt))
        #expect(requests.map { Int($0.lineBytes + $0.headerBytes) } == server.requests.map { $0.head.utf8.count + 4 })
        #expect(requests.allSatisfy { $0.quality == .exact } && responses.allSatisfy { $0.quality == .exact })
    }
}
