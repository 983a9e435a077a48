import ArgumentParser
import NIOCore
import TrafficKit
import UnixSignals

struct Buy: AsyncParsableCommand {
    private struct ClosedShop: Error, CustomStringConvertible {
        let port: Int
        var description: String { "no visit came to its end; open the shop: trafficexample serve --port \(self.port)" }
    }

    static let configuration = CommandConfiguration(
        abstract: "Visits the shop, over and over, until its time is over or Ctrl-C ends it."
    )

    @Option(help: "TCP port of the shop on the loopback interface.")
    var port = 8080

    @Option(help: ArgumentHelp("How long.", valueName: "n"))
    var seconds = 60

    @Option(help: ArgumentHelp("Visitors at once.", valueName: "n"))
    var visitors = 1

    @Option(help: ArgumentHelp("Visits a second of each; a visit is a dozen requests.", valueName: "n"))
    var rate = 5.0

    @Option(help: ArgumentHelp("Give up a request after so many seconds.", valueName: "n"))
    var timeout = 10

    @Option(help: ArgumentHelp("Get only so many orders, one after the other, and end.", valueName: "n"))
    var orders: Int?

    @Flag(help: "Ask with SwiftNIO alone, not with AsyncHTTPClient. A program without TLS always does.")
    var nio = false

    @OptionGroup var reports: ReportOptions

    private var client: any ShopClient {
        #if TLS
        if !self.nio {
            return AsyncHTTPShopClient(
                port: self.port,
                connections: self.visitors,
                timeout: .seconds(Int64(self.timeout)),
                isSilent: self.reports.silent
            )
        }
        #endif
        return NIOShopClient(
            port: self.port,
            timeout: .seconds(Int64(self.timeout)),
            isSilent: self.reports.silent
        )
    }

    func validate() throws {
        guard self.orders ?? 0 >= 0 else { throw ValidationError("--orders must not be negative.") }
        guard self.seconds >= 0 else { throw ValidationError("--seconds must not be negative.") }
        guard (1...3_600).contains(self.timeout) else {
            throw ValidationError("--timeout must be between 1 and 3600.")
        }
        guard (1...1_000).contains(self.visitors) else {
            throw ValidationError("--visitors must be between 1 and 1000.")
        }
        guard (0.001...1_000).contains(self.rate) else {
            throw ValidationError("--rate must be between 0.001 and 1000.")
        }
    }

    func run() async throws {
        try self.reports.start()
        let client = self.client
        if let orders {
            for _ in 0..<orders { try await client.get("orders/1") }
            try await client.shutdown()
            return TrafficMonitor.shared.stop()
        }
        let end = ContinuousClock.now + .seconds(self.seconds)
        let visitors = Task {
            await withTaskGroup(of: Int.self) { group in
                for visitor in 1...self.visitors {
                    group.addTask { await self.visit(as: visitor, until: end, client) }
                }
                return await group.reduce(0, +)
            }
        }
        let signals = await UnixSignalsSequence(trapping: .sigint, .sigterm)
        let interruption = Task {
            for await _ in signals {
                // A second one waits for nobody.
                if visitors.isCancelled { Self.exit(withError: ExitCode(130)) }
                visitors.cancel()
            }
        }
        let visits = await visitors.value
        interruption.cancel()
        try await client.shutdown()
        TrafficMonitor.shared.stop()
        if visits == 0 && self.seconds > 0 && !visitors.isCancelled { throw ClosedShop(port: self.port) }
        print("visits: \(visits)")
    }

    /// Visits until the time is over or the task is cancelled. A visit that has begun comes to its end.
    ///
    /// - Returns: The number of completed visits.
    private func visit(
        as visitor: Int,
        until end: ContinuousClock.Instant,
        _ client: any ShopClient
    ) async -> Int {
        var (number, visits) = (visitor, 0)
        while !Task.isCancelled, ContinuousClock.now < end {
            do {
                try await Task { [number] in try await self.visit(number, client) }.value
                (number, visits) = (number + self.visitors, visits + 1)
            } catch {
                // The shop may not be open yet.
                try? await Task.sleep(for: .milliseconds(200))
            }
            try? await Task.sleep(for: .seconds(1 / self.rate))
        }
        return visits
    }

    private func visit(_ number: Int, _ client: any ShopClient) async throws {
        try await client.get("search?q=secret-wish-\(number)")
        for image in 0..<3 { try await client.get("images/thing-\(1_000 + number * 3 + image).png") }
        for order in 0..<5 { try await client.get("orders/\(number * 5 + order)") }
        try await client.post("{\"things\":[\(number)]}", to: "orders")
        for path in ["cart", "recommendations", "checkout"] { try await client.get(path) }
    }
}
