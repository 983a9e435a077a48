import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

/// A tick looks only at sockets that moved. What it counts must be what a look at all sockets gives.
@Suite("Open and pending sockets")
struct OpenSocketTests {
    typealias F = LedgerFixture

    /// One event of a capture, or a tick.
    private static func step(_ f: inout F, _ random: inout Seeded) {
        switch Int.random(in: 1...8, using: &random) {
        case 1: f.absorb(.missing([Self.serial(&random)]))
        case 2: f.absorb(.closedWithoutRecord([Self.serial(&random)]))
        case 3: f.absorb(.exited(Self.process(&random), at: Timestamp(nanosecondsSinceEpoch: 0)))
        case 4: f.tick()
        default:
            let owners = (0..<Int.random(in: 0...4, using: &random)).map { _ in Self.owner(&random) }
            let closed = Int.random(in: 0..<6, using: &random) == 0 ? f.now : nil
            let pending = UInt64.random(in: 0...2, using: &random) * 10
            f.absorb(F.socket(Self.serial(&random), owners, closed: closed, pending: pending))
        }
    }

    private static func serial(_ random: inout Seeded) -> UInt64 { .random(in: 1...12, using: &random) }

    private static func process(_ random: inout Seeded) -> ProcessIdentity {
        F.process(.random(in: 1...5, using: &random))
    }

    private static func owner(_ random: inout Seeded) -> OwnerObservation {
        F.owner(Self.process(&random), sent: .random(in: 0...50, using: &random))
    }

    @Test(
        "Each process has as many open sockets and pending bytes as its sockets say",
        arguments: 0..<30 as Range<UInt64>
    )
    func counted(seed: UInt64) throws {
        var random = Seeded(seed)
        // Processes and closed sockets leave the list after two seconds, so that some come back.
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(2), closedSockets: .seconds(2)))
        var compared = 0
        for _ in 1...400 {
            Self.step(&f, &random)
            f.look(afterMilliseconds: 500)
            let snapshot = f.snapshot
            let open = try #require(snapshot.sockets).filter { $0.closedAt == nil }
            for process in try #require(snapshot.processes) {
                let used = open.filter { socket in socket.owners.contains { $0.identity == process.identity } }
                // Who has ended holds nothing.
                let held = used.filter { socket in
                    socket.owners.contains { $0.identity == process.identity && !$0.isFormer }
                }
                #expect(
                    process.socketsOpen == held.count
                        && (process.state == .running ? held.count == used.count : held.isEmpty)
                )
                #expect(
                    process.bytes.pendingSent
                        == used.filter { $0.owners.count == 1 }.reduce(0) { $0 + $1.bytes.pendingSent }
                )
                compared += held.count
            }
            #expect(snapshot.totals.bytes.pendingSent == open.reduce(0) { $0 + $1.bytes.pendingSent })
        }
        #expect(compared > 400)
    }

    @Test("A socket that moves again after idle ticks has the rate of its last interval")
    func idle() {
        var f = F()
        f.absorb(F.socket(1, [F.owner(F.process(1))]))
        f.tick()
        for _ in 1...3 { f.tick() }
        f.absorb(F.socket(1, [F.owner(F.process(1), sent: 600)]))
        f.tick(after: 2)
        #expect(f.socket(1)?.rates.sent == 300)
        f.tick()
        #expect(f.socket(1)?.rates.sent == 0)
    }
}
