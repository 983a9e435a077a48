import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A client of ours and nghttpd, which prints frames, with a proxy between them that counts the socket's bytes.
@Suite("AsyncHTTPClient with HTTP/2 against nghttpd")
struct HTTP2ClientTests {
    /// 50 streams at a time, uploads among them.
    private static func run(
        _ security: ClientTests.Security
    ) async throws -> (records: Records, bytes: [CountingProxy.Bytes], frames: Nghttp.Frames) {
        let server = try await Nghttpd()
        let proxy = try CountingProxy(to: server.port)
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        var configuration = try await ClientTests.configuration(security, monitor)
        configuration.httpVersion = .automatic
        let client = HTTPClient(configuration: configuration)
        let url = "https://localhost:\(proxy.port)"
        do {
            // Make the connection first. Otherwise each request would make its own connection.
            _ = try await client.execute(HTTPClientRequest(url: url + "/small"), timeout: .minutes(10)).body.collect(
                upTo: 10
            )
            try await withThrowingTaskGroup(of: Int.self) { group in
                for index in 0..<50 {
                    group.addTask {
                        var request = HTTPClientRequest(
                            url: "\(url)/\(index % 2 == 0 ? "large" : "none/\(index)")?q=\(index)"
                        )
                        request.headers.add(name: "Cookie", value: "k=\(index)")
                        if index % 5 == 0 {
                            request.method = .POST
                            request.body = .bytes(ByteBuffer(repeating: 7, count: 50_000 + index))
                        }
                        let response = try await client.execute(request, timeout: .minutes(10))
                        return try await response.body.collect(upTo: 1_000_000).readableBytes
                    }
                }
                var bytes = 0
                for try await count in group { bytes += count }
                #expect(bytes > 25 * 300_000)
            }
        } catch {
            try await client.shutdown()
            // Throws the error for which the measurement begins anew, if that is the cause.
            _ = try server.stop()
            throw error
        }
        try await client.shutdown()
        return (records, await proxy.stop(), try server.stop())
    }

    @Test("50 streams at a time, uploads among them", arguments: [ClientTests.Security.tls12, .tls13])
    func streams(security: ClientTests.Security) async throws {
        let (records, bytes, frames) = try await Nghttp.patiently { try await Self.run(security) }
        #expect(bytes.count == 1)
        let explained = records.bytes(role: .client)
        #expect(explained.toServer == bytes.reduce(0) { $0 + $1.toServer })
        #expect(explained.toClient == bytes.reduce(0) { $0 + $1.toClient })
        let (requests, responses) = (records.requests, records.responses)
        #expect(requests.count == 51 && responses.count == 51)
        for (messages, theirs) in [(requests, frames.received), (responses, frames.sent)] {
            let ours = messages.sorted { $0.number < $1.number }.map { message in
                Nghttp.Message(
                    header: UInt64(message.lineBytes) + UInt64(message.headerBytes),
                    body: message.bodyBytes,
                    framing: message.framingBytes
                )
            }
            #expect(ours == theirs.keys.sorted().compactMap { theirs[$0] })
            for message in messages {
                #expect(message.interval.bytes == message.messageBytes + message.tlsBytes)
                #expect(message.quality == .exact && message.version == .http2 && message.host == "localhost")
            }
        }
        #expect(Set(requests.map(\.route)) == ["/small", "/large", "/none/{id}"])
        #expect(Set(records.outcomes.map(\.ending)) == [.ok, .http4xx])
        let first = try #require(records.outcomes.min { $0.startedAt < $1.startedAt })
        #expect(first.route == "/small" && first.tlsEndedAt > 0 && first.tlsEndedAt <= first.startedAt)
        #expect(records.outcomes.filter { $0.tlsEndedAt != 0 } == [first])
        #expect(records.outcomes.filter(\.isFirst) == [first])
    }
}
