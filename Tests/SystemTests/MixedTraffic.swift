import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

/// Traffic of a program that stays, of programs that end at once, and of HTTP, with what the programs and curl say
/// themselves.
final class MixedTraffic {
    let long: Mover
    private(set) var requests: UInt64 = 0
    /// Of the responses.
    private(set) var bodyBytes: UInt64 = 0
    private let server: InstrumentedServer
    private var random: Seeded
    private var ended: [String: PayloadBytes] = [:]
    /// Root's 500 series are of all programs on the machine, also of tests in other processes.
    private static let user: UInt32 = 54_327
    /// The next user gets 250 series.
    private static let mostPrograms = 200

    /// - Parameter server: Reports to the daemon.
    init(seed: UInt64, server: InstrumentedServer) throws {
        self.random = Seeded(seed)
        self.server = server
        self.long = try Mover(user: Self.user)
    }

    /// What each program moved, by its name.
    var moved: [String: PayloadBytes] { self.ended.merging([self.long.name: self.long.moved]) { $1 } }

    /// Of the program that stays alone: also while no daemon runs.
    func moveLong() async throws { try await self.long.tellAnything(&self.random) }

    /// Returns when the daemon has every exchange.
    func move(countedBy daemon: Daemon) async throws {
        try await self.moveLong()
        // A program that ends at once: its bytes are in no list a second later.
        if self.ended.count < Self.mostPrograms {
            let short = try Mover(user: Self.user)
            try await short.tellAnything(&self.random)
            self.ended[short.name] = short.moved
        }
        let transfers = try await Curl.run([], (1...5).map { "\(self.server.url)/length/\($0 * 1_000)" })
        self.requests += UInt64(transfers.count)
        self.bodyBytes += transfers.reduce(0) { $0 + $1.bodyBytes }
        let wanted = self.requests
        let counted = try await look(until: { $0 == wanted }) {
            (try await daemon.snapshot().endpoints ?? []).reduce(0) { $0 + $1.outcomes.values.reduce(0, +) }
        }
        #expect(counted == wanted)
    }
}
