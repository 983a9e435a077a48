import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A client of ours against nginx, which counts messages, with a proxy between them that counts the socket's bytes.
@Suite("AsyncHTTPClient against nginx")
struct ClientTests {
    enum Security: Sendable, CaseIterable {
        case none, tls12, tls13

        /// What a record adds to its plaintext, AES-GCM on both sides.
        var overhead: UInt64 { self == .tls12 ? 29 : 22 }
    }

    /// Requests in their order, then everything that was seen of them.
    struct Run {
        var records: Records
        var bytes: [CountingProxy.Bytes]
        var log: [Nginx.Entry]
    }

    private func run(
        _ security: Security,
        cutAfter cut: UInt64? = nil,
        _ body: (HTTPClient, _ url: String) async throws -> Void
    ) async throws -> Run {
        let nginx = try await Nginx()
        let proxy = try CountingProxy(to: security == .none ? nginx.port : nginx.tlsPort, cutAfter: cut)
        let monitor = TrafficMonitor()
        let records = Records()
        monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        let client = HTTPClient(configuration: try await Self.configuration(security, monitor))
        do {
            try await body(client, "\(security == .none ? "http" : "https")://localhost:\(proxy.port)")
        } catch {
            try await client.shutdown()
            throw error
        }
        try await client.shutdown()
        let bytes = await proxy.stop()
        let log = try nginx.log()
        try await nginx.stop()
        return Run(records: records, bytes: bytes, log: log)
    }

    static func configuration(_ security: Security, _ monitor: TrafficMonitor) async throws -> HTTPClient.Configuration
    {
        var configuration = HTTPClient.Configuration.singletonConfiguration
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(try await Certificates.local.authority)
        (tls.minimumTLSVersion, tls.maximumTLSVersion) = security == .tls12 ? (.tlsv12, .tlsv12) : (.tlsv13, .tlsv13)
        configuration.tlsConfiguration = tls
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.reportTraffic(to: monitor)
        return configuration
    }

    /// Sockets as the proxy saw them, messages as nginx did.
    private func expectEveryByte(_ run: Run, _ security: Security) {
        let (requests, responses) = (run.records.requests, run.records.responses)
        let explained = run.records.bytes(role: .client)
        #expect(explained.toServer == run.bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == run.bytes.reduce(0) { $0 + $1.toClient })
        for messages in [requests, responses] {
            for message in messages {
                #expect(message.interval.bytes == message.messageBytes + message.tlsBytes)
                #expect(message.cookie != 0 && message.role == .client && message.quality == .exact)
                #expect(message.host == "localhost")
            }
            for ofOne in Dictionary(grouping: messages, by: \.cookie).values {
                #expect(zip(ofOne, ofOne.dropFirst()).allSatisfy { $0.interval.to <= $1.interval.from })
            }
        }
        guard security != .none else {
            #expect(requests.allSatisfy { $0.tlsBytes == 0 } && responses.allSatisfy { $0.tlsBytes == 0 })
            #expect(requests.first?.interval.from == 0)
            return
        }
        #expect(requests.allSatisfy { $0.tlsBytes > 0 && $0.tlsBytes.isMultiple(of: security.overhead) })
        #expect(responses.allSatisfy { $0.tlsBytes > 0 && $0.tlsBytes.isMultiple(of: security.overhead) })
        // It began after a handshake that nobody here saw.
        #expect(requests.allSatisfy { $0.interval.from > 200 } && responses.allSatisfy { $0.interval.from > 500 })
    }

    private func expectLog(_ run: Run) {
        #expect(run.records.requests.map(\.messageBytes) == run.log.map(\.requestBytes))
        #expect(run.records.responses.map(\.messageBytes) == run.log.map(\.responseBytes))
        #expect(run.records.responses.map(\.status) == run.log.map(\.status))
        #expect(run.records.responses.map { $0.bodyBytes + $0.framingBytes } == run.log.map(\.bodyBytes))
    }

    @Test("100 exchanges on one connection", arguments: Security.allCases)
    func keepAlive(security: Security) async throws {
        let run = try await self.run(security) { client, url in
            for index in 0..<100 {
                var request = HTTPClientRequest(url: "\(url)/\(index % 3 == 0 ? "none" : "text")?n=\(index)")
                if index % 3 == 1 { request.headers.add(name: "Cookie", value: "a=\(index)") }
                let response = try await client.execute(request, timeout: .seconds(60))
                let body = try await response.body.collect(upTo: 1_000_000)
                #expect(response.status == (index % 3 == 0 ? .notFound : .ok))
                if response.status == .ok { #expect(body.readableBytes == Nginx.text.utf8.count) }
            }
        }
        #expect(run.bytes.count == 1 && run.log.count == 100)
        self.expectEveryByte(run, security)
        self.expectLog(run)
        // Decompressed behind us: what is counted is what was on the wire.
        #expect(run.records.responses.contains { $0.framingBytes > 0 && $0.bodyBytes < UInt64(Nginx.text.utf8.count) })
        #expect(run.records.outcomes.map(\.ending) == (0..<100).map { $0 % 3 == 0 ? .http4xx : .ok })
        #expect(Set(run.records.requests.map(\.route)) == ["/none", "/text"])
        #expect(run.records.connections.count == (security == .none ? 0 : 1))
    }

    @Test("uploads with a length and in chunks, and a redirect, whose hops are exchanges", arguments: Security.allCases)
    func uploadsAndRedirects(security: Security) async throws {
        let run = try await self.run(security) { client, url in
            var request = HTTPClientRequest(url: url + "/put/a")
            request.method = .PUT
            let piece = ByteBuffer(repeating: 7, count: 40_000)
            request.body = .bytes(ByteBuffer(repeating: 7, count: 1_000_003))
            #expect(try await client.execute(request, timeout: .seconds(60)).status == .created)
            request = HTTPClientRequest(url: url + "/put/b")
            request.method = .PUT
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .stream([piece, piece, piece].async, length: .unknown)
            #expect(try await client.execute(request, timeout: .seconds(60)).status == .created)
            let response = try await client.execute(HTTPClientRequest(url: url + "/to/1"), timeout: .seconds(60))
            #expect(try await response.body.collect(upTo: 1_000_000).readableBytes == 300_000)
        }
        self.expectEveryByte(run, security)
        self.expectLog(run)
        #expect(run.records.requests.map(\.bodyBytes) == [1_000_003, 120_000, 0, 0])
        #expect(run.records.requests.map(\.method) == ["PUT", "PUT", "GET", "GET"])
        #expect(run.records.requests[1].framingBytes > 0 && run.records.requests[1].contentClass == .json)
        #expect(run.records.responses.map(\.status) == [201, 201, 302, 200])
        #expect(run.records.responses.last?.bodyBytes == 300_000)
    }

    @Test("a body that is cut off", arguments: Security.allCases)
    func cut(security: Security) async throws {
        let run = try await self.run(security, cutAfter: 100_000) { client, url in
            await #expect(throws: (any Error).self) {
                let response = try await client.execute(HTTPClientRequest(url: url + "/file"), timeout: .seconds(60))
                _ = try await response.body.collect(upTo: 1_000_000)
            }
        }
        self.expectEveryByte(run, security)
        let response = try #require(run.records.responses.first)
        #expect(response.isIncomplete && response.declaredBodyBytes == 300_000 && response.bodyBytes < 300_000)
        #expect(run.records.outcomes.map(\.ending) == [.truncated])
    }
}

extension Array where Element: Sendable {
    fileprivate var async: AsyncStream<Element> {
        AsyncStream { continuation in
            for element in self { continuation.yield(element) }
            continuation.finish()
        }
    }
}
