import TestSupport
import Testing
import TrafficEvents
import TrafficModel
import TrafficReport

@testable import TrafficLedger

@Suite("Datagrams that never came")
struct SenderNumbersTests {
    /// How many datagrams are missing once no more come.
    private func missing(_ numbers: some Sequence<UInt32>) -> UInt64 {
        var sender = SenderNumbers()
        return numbers.reduce(0) { $0 + sender.note($1) } + sender.stopWaiting()
    }

    @Test("a number that is left out is missing, wherever counting began, also where the numbers wrap")
    func gaps() {
        #expect(self.missing([]) == 0)
        #expect(self.missing([7]) == 0)
        #expect(self.missing(0..<1_000) == 0)
        #expect(self.missing([0, 1, 2, 4]) == 1)
        #expect(self.missing([10, 12, 14, 16]) == 3)
        #expect(self.missing((0..<300).filter { $0 % 3 != 1 }) == 99 + 1)
        #expect(self.missing((0..<300 as Range<UInt32>).map { .max - 100 &+ $0 }) == 0)
        #expect(self.missing((0..<300 as Range<UInt32>).filter { $0 != 150 }.map { .max - 100 &+ $0 }) == 1)
    }

    @Test(
        "a gap of any length counts in full",
        arguments: [1, 2, 62, 63, 64, 65, 66, 127, 128, 129, 1_000, 65_535] as [UInt32]
    )
    func lengths(gap: UInt32) {
        #expect(self.missing([0, 1, gap + 2]) == UInt64(gap))
        #expect(self.missing(Array(0..<100) + Array(100 + gap..<300 + gap)) == UInt64(gap))
    }

    @Test("numbers that come late, twice or out of order within 64 are not missing", arguments: 0..<20 as Range<UInt64>)
    func reordering(seed: UInt64) throws {
        var random = Seeded(seed)
        // Each datagram is delayed by at most 63 others.
        let order = (0..<5_000 as Range<UInt32>)
            .map { (number: $0, at: $0 + .random(in: 0...63, using: &random)) }
            .sorted { ($0.at, $0.number) < ($1.at, $1.number) }
            .map(\.number)
        #expect(order != order.sorted())
        #expect(self.missing(order) == 0)
        #expect(self.missing(order.flatMap { [$0, $0] }) == 0)
        let left = order.filter { !$0.isMultiple(of: 7) }
        let first = try #require(left.first)
        #expect(self.missing(left) == UInt64(order.count { $0.isMultiple(of: 7) && $0 > first && $0 < 4_999 }))
    }

    @Test("a number that comes later than that is missing, and no other number is")
    func late() {
        #expect(self.missing([0] + Array(2...65) + [1, 66, 67]) == 1)
        #expect(self.missing([0] + Array(2...64) + [1, 65, 66]) == 0)
    }

    @Test("a monitor that starts again, and a second one beside it, have numbers of their own")
    func numberings() {
        #expect(self.missing(Array(0..<500) + Array(0..<700)) == 0)
        #expect(self.missing((0..<2_000).flatMap { [$0, 500_000 + $0] as [UInt32] }) == 0)
        let both = (0..<2_000).flatMap { [$0, 500_000 + $0] as [UInt32] }
        #expect(self.missing(both.filter { $0 != 77 && $0 != 500_900 && $0 != 500_901 }) == 3)
        #expect(self.missing(Array(0..<40) + Array(0..<200)) == 0)
        #expect(self.missing(Array(0..<40) + [0, 1, 2, 4]) == 1)
        // A fast numbering passes a slow one.
        #expect(self.missing([1_000] + Array(0..<1_500) + [1_001, 1_002]) == 0)
    }

    @Test("whatever numbers a sender makes up, few numberings are kept")
    func hostile() {
        var random = Seeded(1)
        var sender = SenderNumbers()
        for _ in 0..<100_000 { _ = sender.note(random.next()) }
        #expect(sender.numberings.count == SenderNumbers.mostNumberings)
    }

    @Test(
        "the ledger waits for late datagrams of each process, and counts missing ones after a tick without datagrams"
    )
    func ledger() {
        var fixture = LedgerFixture.reporting()
        func note(_ numbers: [UInt32], pid: Int32 = 1) {
            let reports = numbers.map { number in
                var report = received([], .init(sequence: number))
                report.pid = pid
                return report
            }
            fixture.absorb(.reports(reports, dropped: 0))
        }
        let missing = { (fixture: LedgerFixture) in fixture.snapshot.capture.reports.missingDatagrams }
        note([5, 6, 8])
        #expect(missing(fixture) == 0)
        fixture.tick()
        note([7, 10])
        fixture.tick()
        #expect(missing(fixture) == 0)
        fixture.tick()
        #expect(missing(fixture) == 1)
        // The ledger no longer waits for 9.
        note([9, 11])
        fixture.tick()
        fixture.tick()
        #expect(missing(fixture) == 1)
        // For an unknown process the ledger counts nothing as missing.
        note([0, 100], pid: 99)
        #expect(missing(fixture) == 1)
        #expect(fixture.snapshot.capture.reports.unknownProcess == 2)
    }

    @Test("a damaged datagram is not a missing one")
    func damaged() {
        var fixture = LedgerFixture.reporting()
        var cut = received([.response(1, from: 0, to: 400)], .init(sequence: 1))
        cut.datagram.removeLast()
        fixture.absorb(
            .reports([received([], .init(sequence: 0)), cut, received([], .init(sequence: 2))], dropped: 0)
        )
        for _ in 0..<3 { fixture.tick() }
        let reports = fixture.snapshot.capture.reports
        #expect(reports.malformedDatagrams == 1 && reports.missingDatagrams == 0)
    }
}
