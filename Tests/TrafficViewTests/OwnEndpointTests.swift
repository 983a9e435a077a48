import Testing
import TrafficModel

@testable import TrafficView

@Suite("Endpoints of an open row")
struct OwnEndpointTests {
    private static let shop = ProcessDetails(name: "shop", executable: "/usr/bin/shop", uid: 1000, user: "app")

    /// A server and a customer of one executable.
    private func snapshot(
        _ endpoints: (serve: [ProcessEndpoint]?, buy: [ProcessEndpoint]?),
        buyerExited: Bool = false
    ) throws -> Snapshot {
        var snapshot = try Fixture.snapshot(tick: 1, withSockets: true)
        let processes: [(Int32, [ProcessEndpoint]?)] = [(10, endpoints.serve), (11, endpoints.buy)]
        snapshot.processes = processes.map { pid, endpoints in
            var process = Fixture.process(pid, "shop", rates: PayloadRates(sent: 100 - Double(pid), received: 0))
            process.details = Self.shop
            process.endpoints = endpoints
            return process
        }
        if buyerExited { snapshot.processes?[1].state = .exited }
        let group = ProcessGroup(Self.shop)
        snapshot.endpoints = [
            Fixture.endpoint(group, .client, "shop.example", "/orders", requests: 30, sent: 600),
            Fixture.endpoint(group, .server, "shop.example", "/orders", requests: 30, sent: 9_000),
        ]
        return snapshot
    }

    private func top(_ snapshot: Snapshot, rows: Int, height: Int = 24) throws -> TopState {
        var state = try Fixture.top(height: height, ticks: 0)
        state.receive(snapshot)
        state.press("e")
        for _ in 0..<rows { state.press(.down) }
        state.press(.enter)
        return state
    }

    /// The lines below the open row, without blanks at their ends.
    private func inside(_ state: TopState) -> [String] {
        state.frame().rows.map(\.text).filter { $0.hasPrefix("  ├") || $0.hasPrefix("  └") }
            .map { $0.replacing(/\s+/, with: " ").trimmingPrefix(" ").description }
            .map { $0.hasSuffix(" ") ? String($0.dropLast()) : $0 }
    }

    private let serve = [Fixture.own(.server, "shop.example", "/orders", requests: 30, sent: 9_000)]
    private let buy = [Fixture.own(.client, "shop.example", "/orders", requests: 28, failures: 1, sent: 560)]

    @Test("a process shows its own endpoints and numbers, and none of another process of its executable")
    func own() throws {
        let snapshot = try self.snapshot((self.serve, self.buy))
        #expect(self.inside(try self.top(snapshot, rows: 0)) == ["└ ← shop.example/orders 30 req - - 9.00 kB 3.60 kB"])
        #expect(self.inside(try self.top(snapshot, rows: 1)) == ["└ → shop.example/orders 28 req - - 560 B 3.36 kB"])
    }

    @Test("a process that reported nothing shows none, whatever other processes of its executable reported")
    func none() throws {
        let state = try self.top(try self.snapshot((self.serve, [])), rows: 1)
        #expect(self.inside(state) == ["└ no endpoints reported; e shows the sockets"])
    }

    @Test("an ended process, or an old daemon's process, shows its executable's endpoints, and says so")
    func executables() throws {
        let all = [
            "├ ← shop.example/orders 30 req - - p90 12ms 9.00 kB 3.60 kB",
            "└ → shop.example/orders 30 req - - p90 12ms 600 B 3.60 kB",
        ]
        let exited = try self.top(try self.snapshot((self.serve, nil), buyerExited: true), rows: 1)
        #expect(self.inside(exited) == ["├ exited: endpoints of all processes of its executable"] + all)
        let old = try self.top(try self.snapshot((nil, nil)), rows: 0)
        #expect(self.inside(old) == ["├ endpoints of all processes of its executable"] + all)
        // The executable has no endpoints either.
        var snapshot = try self.snapshot((self.serve, nil), buyerExited: true)
        snapshot.endpoints = []
        #expect(self.inside(try self.top(snapshot, rows: 1)) == ["└ no endpoints reported; e shows the sockets"])
    }

    @Test("details are the process's own; what is only known for the executable stands under a heading of its own")
    func details() throws {
        var state = try self.top(try self.snapshot((self.serve, self.buy)), rows: 1, height: 40)
        state.press(.down, "i")
        let lines = state.frame().rows.map { $0.text.replacing(/\s+/, with: " ") }
        let own = try #require(lines.firstIndex { $0.contains("exchanges 28 requests, 28 responses, 1 failed") })
        let heading = try #require(lines.firstIndex { $0.contains("All processes of its executable") })
        let all = try #require(lines.firstIndex { $0.contains("exchanges 30 requests, 30 responses") })
        let time = try #require(lines.firstIndex { $0.contains("p90 12.3 ms") })
        #expect(own < heading && heading < all && heading < time)
        #expect(lines.contains { $0.contains("sent 560 B") })
    }

    @Test("the row for endpoints beyond a process's limit says what it is")
    func rest() throws {
        let rest = Fixture.own(.server, EndpointUsage.other, EndpointUsage.other, requests: 5, sent: 1 << 30)
        var state = try self.top(try self.snapshot((self.serve + [rest], [])), rows: 0, height: 40)
        #expect(self.inside(state).first == "├ ← _other: all others 5 req - - 1.07 GB 600 B")
        // The executable's row with that name sums other endpoints.
        state.press(.down, "i")
        #expect(!state.frame().plainText.contains("All processes of its executable"))
    }
}
