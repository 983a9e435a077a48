import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import NIOSSL
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

/// A client and a server of ours with a connection older than the daemon. A proxy between them counts the socket's
/// bytes.
@Suite("Connections that began without a listener")
struct LateJoinTests {
    @Test("from the third request on every byte is reported, as inferred", arguments: [false, true])
    func joined(isTLS: Bool) async throws {
        let (here, there) = (try LateDaemon(), try LateDaemon())
        #expect(here.giveUp() && there.giveUp())
        let certificates = try await Certificates.local
        let tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: try NIOSSLCertificate.fromPEMFile(certificates.certificate).map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(file: certificates.key, format: .pem))
        )
        let server = try await InstrumentedServer(tls: isTLS ? tls : nil, late: there)
        let proxy = try CountingProxy(to: server.port)
        let client = HTTPClient(
            configuration: try await ClientTests.configuration(isTLS ? .tls13 : .none, here.monitor)
        )
        let url = "\(isTLS ? "https" : "http")://localhost:\(proxy.port)"
        let ask = { (path: String, body: Int) in
            var request = HTTPClientRequest(url: url + path)
            request.method = body == 0 ? .GET : .POST
            if body > 0 { request.body = .bytes(ByteBuffer(repeating: 7, count: body)) }
            let response = try await client.execute(request, timeout: .minutes(10))
            _ = try await response.body.collect(upTo: 1 << 20)
        }
        try await ask("/length/1", 0)
        let daemons = [try here.come(), try there.come()]
        #expect(here.lookAgain() && there.lookAgain())
        try await ask("/length/2", 0)
        for index in 0..<6 {
            try await ask(index % 2 == 0 ? "/length/\(index * 30_000)" : "/chunked/\(index * 10_000)", index * 10_000)
        }
        try await client.shutdown()
        let bytes = await proxy.stop()
        #expect(bytes.count == 1)
        try await server.stop()
        here.monitor.stop()
        for (daemon, role) in zip(daemons, [Report.Role.client, .server]) {
            let records = try await daemon.stop()
            let explained = records.bytes(role: role)
            let (requests, responses) = (records.requests, records.responses)
            #expect(requests.count == 6 && responses.count == 6 && records.outcomes.count == 6)
            let asked: [UInt64] = [0, 10_000, 20_000, 30_000, 40_000, 50_000]
            #expect(requests.map(\.bodyBytes) == asked)
            #expect(responses.map(\.bodyBytes) == [0, 10_000, 60_000, 30_000, 120_000, 50_000])
            for messages in [requests, responses] {
                #expect(messages.allSatisfy { $0.quality == .inferred && $0.cookie != 0 })
                #expect(messages.allSatisfy { $0.interval.bytes == $0.messageBytes + $0.tlsBytes })
                #expect(messages.allSatisfy { ($0.tlsBytes > 0) == isTLS })
            }
            // Earlier bytes belong to no exchange.
            #expect(explained.toServer + (requests.first?.interval.from ?? 0) == bytes[0].toServer)
            #expect(explained.toClient + (responses.first?.interval.from ?? 0) == bytes[0].toClient)
            #expect(records.outcomes.allSatisfy { $0.ending == .ok && !$0.isFirst && $0.role == role })
        }
    }
}
