import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

/// A report names its socket by the cookie. What the index finds must be what a look at all sockets finds.
@Suite("Sockets by their cookies")
struct CookieIndexTests {
    typealias F = LedgerFixture

    /// Few cookies, so that several sockets have the same. 0 is unknown.
    private static let cookies: Range<UInt64> = 0..<8

    private static func step(_ f: inout F, _ random: inout Seeded) {
        let serial = UInt64.random(in: 1...12, using: &random)
        switch Int.random(in: 0...6, using: &random) {
        case 0: f.absorb(.missing([serial]))
        case 1: f.absorb(.closedWithoutRecord([serial]))
        case 2: f.tick()
        default:
            let closed = Int.random(in: 0..<4, using: &random) == 0 ? f.now : nil
            let event = F.socket(.random(in: Self.cookies, using: &random), [F.owner(F.process(1))], closed: closed)
            guard case .socket(var observation) = event else { return }
            observation.serial = serial
            f.absorb(.socket(observation))
        }
    }

    @Test("a cookie finds the one socket that has it", arguments: 0..<30 as Range<UInt64>)
    func found(seed: UInt64) {
        var random = Seeded(seed)
        // Closed sockets leave the list after two seconds, so that some come back.
        var f = F(retention: Ledger.Retention(closedSockets: .seconds(2)))
        var counts = [0, 0, 0]
        for _ in 1...400 {
            Self.step(&f, &random)
            let sockets = f.ledger.sockets
            for cookie in Self.cookies {
                let holders = sockets.accounts
                    .filter { $0.value.isListed && $0.value.observation.cookie.rawValue == cookie }.map(\.key)
                let isUnique = cookie != 0 && holders.count == 1
                #expect(sockets.cookies[SocketCookie(rawValue: cookie)] == (isUnique ? holders[0] : nil))
                counts[min(holders.count, 2)] += 1
            }
        }
        #expect(counts.allSatisfy { $0 > 100 })
    }
}
