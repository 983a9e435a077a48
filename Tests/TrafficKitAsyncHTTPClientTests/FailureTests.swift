import AsyncHTTPClient
import NIOCore
import NIOSSL
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitAsyncHTTPClient

@Suite("Requests that fail before a connection exists")
struct FailureTests {
    private func ending(of url: String, _ configure: (inout HTTPClient.Configuration) -> Void) async throws -> Records {
        let monitor = TrafficMonitor()
        let records = Records()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [records]))
        var configuration = try await ClientTests.configuration(.tls13, monitor)
        configure(&configuration)
        let client = HTTPClient(configuration: configuration)
        await #expect(throws: (any Error).self) {
            try await client.execute(HTTPClientRequest(url: url), timeout: .minutes(10), reportingTo: monitor)
        }
        try await client.shutdown()
        return records
    }

    @Test("refused: no server listens")
    func refused() async throws {
        let port = try FreePort.next()
        let records = try await self.ending(of: "http://127.0.0.1:\(port)/users/1?secret=1") { _ in }
        #expect(records.outcomes.map(\.ending) == [.refused])
        #expect(records.outcomes.map(\.route) == ["/users/{id}"] && records.outcomes.map(\.host) == ["127.0.0.1"])
        #expect(records.requests.isEmpty && records.outcomes.allSatisfy { $0.number > 0 && $0.duration > 0 })
    }

    @Test("DNS: there is no such name (RFC 6761 section 6.4)")
    func dns() async throws {
        let records = try await self.ending(of: "http://name.invalid/") { _ in }
        #expect(records.outcomes.map(\.ending) == [.dns])
    }

    @Test("TLS: no known authority has signed the certificate")
    func tls() async throws {
        let nginx = try await Nginx()
        let records = try await self.ending(of: "https://localhost:\(nginx.tlsPort)/") {
            $0.tlsConfiguration?.trustRoots = .default
        }
        try await nginx.stop()
        #expect(records.outcomes.map(\.ending) == [.tls])
    }

    @Test(
        "a URL's authority and target",
        arguments: [
            ("http://a.example/b?c#d", "a.example", "/b?c"), ("https://u:p@a.example:1", "u:p@a.example:1", "/"),
            ("http://[::1]:80?q", "[::1]:80", "/?q"), ("/b", "", "/b"), ("", "", "/"),
        ]
    )
    func parts(url: String, host: String, target: String) {
        #expect(HTTPClient.parts(of: url) == (host, target))
    }
}
