import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A client of ours and nginx, which counts messages, with a proxy between them that counts the socket's bytes.
@Suite("AsyncHTTPClient against nginx")
struct ClientTests {
    enum Security: Sendable, CaseIterable {
        case none, tls12, tls13

        /// What a record adds to its plaintext, AES-GCM on both sides.
        var overhead: UInt64 { self == .tls12 ? 29 : 22 }
    }

    /// The records of the client, the proxy's bytes and nginx's log.
    struct Run {
        var records: Records
        var bytes: [CountingProxy.Bytes]
        var log: [Nginx.Entry]
    }

    private func run(
        _ security: Security,
        cutAfter cut: UInt64? = nil,
        byReset resets: Bool = false,
        _ body: (HTTPClient, _ url: String) async throws -> Void
    ) async throws -> Run {
        let nginx = try await Nginx()
        let port = security == .none ? nginx.port : nginx.tlsPort
        let proxy = try CountingProxy(to: port, cutAfter: cut, byReset: resets)
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
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
        // The timer for a read runs on while a busy machine keeps the reader waiting.
        (configuration.timeout.read, configuration.timeout.connect) = (.minutes(10), .minutes(10))
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.trustRoots = .file(try await Certificates.local.authority)
        (tls.minimumTLSVersion, tls.maximumTLSVersion) = security == .tls12 ? (.tlsv12, .tlsv12) : (.tlsv13, .tlsv13)
        // A server's closure alert that comes later is not read, but the proxy counts it.
        tls.shutdownTimeout = .minutes(10)
        configuration.tlsConfiguration = tls
        configuration.connectionPool.retryConnectionEstablishment = false
        configuration.reportTraffic(to: monitor)
        return configuration
    }

    /// Compares sockets with the proxy's counts, and messages with nginx's log.
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
        // The exchange began after a handshake that the handlers did not see.
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
        let start = TrafficClock.nanoseconds()
        let run = try await self.run(security) { client, url in
            for index in 0..<100 {
                var request = HTTPClientRequest(url: "\(url)/\(index % 3 == 0 ? "none" : "text")?n=\(index)")
                if index % 3 == 1 { request.headers.add(name: "Cookie", value: "a=\(index)") }
                let response = try await client.execute(request, timeout: .minutes(10))
                let body = try await response.body.collect(upTo: 1_000_000)
                #expect(response.status == (index % 3 == 0 ? .notFound : .ok))
                if response.status == .ok { #expect(body.readableBytes == Nginx.text.utf8.count) }
            }
        }
        #expect(run.bytes.count == 1 && run.log.count == 100)
        self.expectEveryByte(run, security)
        self.expectLog(run)
        // The client decompresses after our handlers, so the bytes on the wire count.
        #expect(run.records.responses.contains { $0.framingBytes > 0 && $0.bodyBytes < UInt64(Nginx.text.utf8.count) })
        // Only the first exchange has the handshake, which ended before it.
        let handshakes = run.records.outcomes.map(\.tlsEndedAt)
        #expect(handshakes.map { $0 != 0 } == (0..<100).map { $0 == 0 && security != .none })
        #expect(run.records.outcomes.map(\.isFirst) == (0..<100).map { $0 == 0 })
        #expect(security == .none || (start...run.records.outcomes[0].startedAt).contains(handshakes[0]))
        #expect(run.records.outcomes.map(\.ending) == (0..<100).map { $0 % 3 == 0 ? .http4xx : .ok })
        #expect(Set(run.records.requests.map(\.route)) == ["/none", "/text"])
        #expect(run.records.connections.count == (security == .none ? 0 : 1))
    }

    @Test("uploads with a length and in chunks, and a redirect: each hop is an exchange", arguments: Security.allCases)
    func uploadsAndRedirects(security: Security) async throws {
        let run = try await self.run(security) { client, url in
            var request = HTTPClientRequest(url: url + "/put/a")
            request.method = .PUT
            let piece = ByteBuffer(repeating: 7, count: 40_000)
            request.body = .bytes(ByteBuffer(repeating: 7, count: 1_000_003))
            #expect(try await client.execute(request, timeout: .minutes(10)).status == .created)
            request = HTTPClientRequest(url: url + "/put/b")
            request.method = .PUT
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .stream([piece, piece, piece].async, length: .unknown)
            #expect(try await client.execute(request, timeout: .minutes(10)).status == .created)
            let response = try await client.execute(HTTPClientRequest(url: url + "/to/1"), timeout: .minutes(10))
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
                let response = try await client.execute(HTTPClientRequest(url: url + "/file"), timeout: .minutes(10))
                _ = try await response.body.collect(upTo: 1_000_000)
            }
        }
        self.expectEveryByte(run, security)
        let response = try #require(run.records.responses.first)
        #expect(response.isIncomplete && response.declaredBodyBytes == 300_000 && response.bodyBytes < 300_000)
        #expect(run.records.outcomes.map(\.ending) == [.truncated])
    }

    @Test("a connection that is reset in the middle of a body", arguments: Security.allCases)
    func reset(security: Security) async throws {
        let run = try await self.run(security, cutAfter: 150_000, byReset: true) { client, url in
            await #expect(throws: (any Error).self) {
                let response = try await client.execute(HTTPClientRequest(url: url + "/file"), timeout: .minutes(10))
                _ = try await response.body.collect(upTo: 1_000_000)
            }
        }
        self.expectEveryByte(run, security)
        #expect(run.bytes.count == 1 && run.records.requests.map(\.isIncomplete) == [false])
        let response = try #require(run.records.responses.first)
        #expect(response.isIncomplete && response.declaredBodyBytes == 300_000 && response.status == 200)
        #expect((100_000..<300_000).contains(response.bodyBytes))
        #expect(run.records.outcomes.map(\.ending) == [.reset] && run.records.outcomes.map(\.status) == [200])
    }

    @Test("content codings: the bytes on the wire count, and the handlers decode nothing", arguments: Security.allCases)
    func codings(security: Security) async throws {
        let text = Array(Nginx.text.utf8.prefix(60_000))
        let (br, deflate) = (Self.brotli(text), Self.zlib(text))
        let run = try await self.run(security) { client, url in
            for (name, body) in [("br", br), ("deflate", deflate)] {
                var request = HTTPClientRequest(url: "\(url)/put/\(name)")
                request.method = .PUT
                request.headers.add(name: "Content-Encoding", value: name)
                request.body = .bytes(ByteBuffer(bytes: body))
                #expect(try await client.execute(request, timeout: .minutes(10)).status == .created)
                request = HTTPClientRequest(url: "\(url)/\(name)/\(name)")
                let response = try await client.execute(request, timeout: .minutes(10))
                #expect(response.headers["Content-Encoding"] == [name])
                let collected = try await response.body.collect(upTo: 1_000_000)
                // The client decodes deflate, after our handlers, and leaves brotli as it is.
                #expect(Array(collected.readableBytesView) == (name == "br" ? br : text))
            }
        }
        self.expectEveryByte(run, security)
        self.expectLog(run)
        #expect(run.records.responses.map(\.status) == [201, 200, 201, 200])
        let lengths = [UInt64(br.count), UInt64(deflate.count)]
        for (messages, isCoded) in [(run.records.requests, [0, 2]), (run.records.responses, [1, 3])] {
            #expect(isCoded.map { messages[$0].bodyBytes } == lengths)
            #expect(isCoded.map { messages[$0].declaredBodyBytes } == lengths)
            #expect(messages.indices.map { messages[$0].decodedBodyBytes == nil } == (0..<4).map(isCoded.contains))
        }
        #expect(run.records.outcomes.map(\.ending) == [.ok, .ok, .ok, .ok])
    }

    /// One uncompressed meta-block, and an empty meta-block at the end (RFC 7932 section 9.2).
    private static func brotli(_ bytes: [UInt8]) -> [UInt8] {
        let header = UInt32(bytes.count - 1) << 4 | 1 << 20
        return (0..<3).map { UInt8(truncatingIfNeeded: header >> ($0 * 8)) } + bytes + [3]
    }

    /// One stored block (RFC 1950 section 2.2, RFC 1951 section 3.2.4).
    private static func zlib(_ bytes: [UInt8]) -> [UInt8] {
        let (one, two) = bytes.reduce((UInt32(1), UInt32(0))) { sums, byte in
            let one = (sums.0 + UInt32(byte)) % 65_521
            return (one, (sums.1 + one) % 65_521)
        }
        let (count, sum) = (UInt16(bytes.count), two << 16 | one)
        let length = [UInt8(count & 0xff), UInt8(count >> 8)]
        let check = (0..<4).map { UInt8(truncatingIfNeeded: sum >> (24 - $0 * 8)) }
        return [0x78, 1, 1] + length + length.map { ~$0 } + bytes + check
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
