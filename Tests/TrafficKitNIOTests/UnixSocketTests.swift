import Foundation
import Testing
import TrafficKitTestSupport
import TrafficReport

/// The daemon does not count Unix sockets.
@Suite("HTTP over a Unix socket")
struct UnixSocketTests {
    @Test("reports name no socket")
    func cookie() async throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "http-\(UUID().uuidString.prefix(8)).sock")
            .path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let server = try await InstrumentedServer(at: path)
        let urls = ["http://h/length/100000", "http://h/chunked/5"]
        let transfers = try await Curl.run(["--unix-socket", path], urls)
        try await server.stop()
        let messages = server.records.requests + server.records.responses
        #expect(messages.count == 4 && messages.allSatisfy { $0.cookie == 0 })
        #expect(server.records.connections.isEmpty)
        #expect(server.records.responses.map(\.bodyBytes) == transfers.map(\.bodyBytes))
        #expect(server.records.outcomes.map(\.ending) == [.ok, .ok])
    }
}
