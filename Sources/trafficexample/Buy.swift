import ArgumentParser
import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import TrafficKit
import TrafficKitAsyncHTTPClient

struct Buy: AsyncParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Visits the shop, over and over.")

    @Option(help: "TCP port of the shop on the loopback interface.")
    var port = 8080

    @Option(help: ArgumentHelp("How long.", valueName: "n"))
    var seconds = 60

    @Option(help: ArgumentHelp("Visits a second; each is a dozen requests.", valueName: "n"))
    var rate = 5.0

    @OptionGroup var reports: ReportOptions

    func validate() throws {
        guard self.seconds >= 0 else { throw ValidationError("--seconds must not be negative.") }
        guard (0.1...1_000).contains(self.rate) else { throw ValidationError("--rate must be between 0.1 and 1000.") }
    }

    func run() async throws {
        self.reports.start()
        var configuration = HTTPClient.Configuration()
        // The one line for a client.
        if !self.reports.silent { configuration.reportTraffic() }
        let client = HTTPClient(configuration: configuration)
        let end = ContinuousClock.now + .seconds(self.seconds)
        var visit = 0
        while ContinuousClock.now < end {
            visit += 1
            do {
                try await self.visit(visit, client)
            } catch {
                // The shop may not be open yet.
                try await Task.sleep(for: .milliseconds(200))
            }
            try await Task.sleep(for: .seconds(1 / self.rate))
        }
        try await client.shutdown()
        TrafficMonitor.shared.stop()
    }

    private func visit(_ number: Int, _ client: HTTPClient) async throws {
        try await self.get("search?q=secret-wish-\(number)", client)
        for image in 0..<3 { try await self.get("images/thing-\(1_000 + number * 3 + image).png", client) }
        for order in 0..<5 { try await self.get("orders/\(number * 5 + order)", client) }
        var request = self.request("orders")
        request.method = .POST
        request.headers.add(name: "Content-Type", value: "application/json")
        request.body = .bytes(ByteBuffer(string: "{\"things\":[\(number)]}"))
        try await self.execute(request, client)
        for path in ["cart", "recommendations", "checkout"] { try await self.get(path, client) }
    }

    private func request(_ path: String) -> HTTPClientRequest {
        HTTPClientRequest(url: "http://127.0.0.1:\(self.port)/\(path)")
    }

    private func get(_ path: String, _ client: HTTPClient) async throws {
        try await self.execute(self.request(path), client)
    }

    private func execute(_ request: HTTPClientRequest, _ client: HTTPClient) async throws {
        let response =
            self.reports.silent
            ? try await client.execute(request, timeout: .seconds(10))
            : try await client.execute(request, timeout: .seconds(10), reportingTo: .shared)
        _ = try await response.body.collect(upTo: 1 << 24)
    }
}
