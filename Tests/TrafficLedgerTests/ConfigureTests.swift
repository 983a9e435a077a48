import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficLedger

@Suite("Other settings while the ledger counts")
struct ConfigureTests {
    private typealias F = LedgerFixture

    @Test("a new class begins at 0 and has what moves from now on; a class that is gone is forgotten")
    func classes() throws {
        var fixture = LedgerFixture()
        fixture.ledger = Ledger(classes: try AddressClasses(["old=198.51.100.0/24", "kept=10.0.0.0/8"]))
        func move(_ bytes: UInt64) {
            for (serial, remote) in [(UInt64(1), "198.51.100.7"), (2, "10.0.0.9")] {
                fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: bytes)], remote: remote))
            }
            fixture.tick()
        }
        func configure(_ classes: [String]) throws {
            fixture.ledger.configure(retention: .init(), classes: try AddressClasses(classes))
        }
        var sums: [String: UInt64]? { fixture.snapshot.totals.byClass?.mapValues(\.payload.sent) }
        move(10)
        try configure(["kept=10.0.0.0/8", "new=198.51.100.0/24"])
        #expect(sums == ["kept": 10, "new": 0])
        move(15)
        #expect(sums == ["kept": 15, "new": 5])
        #expect(fixture.socket(1)?.addressClass == "new")
        try configure([])
        #expect(sums == nil)
        try configure(["kept=10.0.0.0/8"])
        move(16)
        #expect(sums == ["kept": 1])
        #expect(fixture.snapshot.totals.bytes.payload.sent == 32)
    }

    @Test("a process that has ended leaves the list when the new time is over, and its bytes stay")
    func retention() throws {
        var fixture = LedgerFixture()
        fixture.ledger = Ledger(retention: .init(exitedProcesses: .seconds(300)))
        fixture.absorb(F.socket(1, [F.owner(F.process(1), sent: 7)]))
        fixture.absorb(.details(F.process(1), ProcessDetails(name: "app", uid: 0)))
        fixture.tick()
        fixture.absorb(.exited(F.process(1), at: Timestamp(nanosecondsSinceEpoch: 0)))
        for _ in 0..<3 { fixture.tick() }
        #expect(fixture.snapshot.processes?.count == 1)
        fixture.ledger.configure(retention: .init(exitedProcesses: .zero), classes: AddressClasses())
        for _ in 0..<3 { fixture.tick() }
        #expect(fixture.snapshot.processes?.count == 0)
        #expect(fixture.snapshot.exited?.map(\.bytes.payload.sent) == [7])
    }
}
