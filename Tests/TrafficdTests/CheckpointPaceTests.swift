import Testing

@testable import trafficd

@Suite("When to write the next checkpoint")
struct CheckpointPaceTests {
    private static let ms: UInt64 = 1_000_000

    /// How long the keeper rests after writing that took so long.
    private func rest(elapsed: UInt64, work: UInt64) -> UInt64 {
        var pace = CheckpointPace()
        let now = 1_000_000 * Self.ms
        pace.wrote(since: now - elapsed, work: work, at: now)
        var (rests, ends) = (UInt64(0), 1_000_000 * Self.ms)
        while ends - rests > 1 {
            let middle = (rests + ends) / 2
            if pace.rests(at: now + middle) { rests = middle } else { ends = middle }
        }
        return pace.rests(at: now) ? ends : 0
    }

    @Test("twenty times the work, or as long as it had to wait: five seconds at most")
    func rests() {
        #expect(self.rest(elapsed: 10 * Self.ms, work: 10 * Self.ms) == 200 * Self.ms)
        // The machine stood still for a minute. Without this rule: for twenty.
        #expect(self.rest(elapsed: 60_010 * Self.ms, work: 10 * Self.ms) == 5_000 * Self.ms)
        #expect(self.rest(elapsed: 3_000 * Self.ms, work: 10 * Self.ms) == 3_000 * Self.ms)
        #expect(self.rest(elapsed: 3_000 * Self.ms, work: 2_000 * Self.ms) == 40_000 * Self.ms)
        #expect(self.rest(elapsed: 0, work: 0) == 0)
        #expect(!CheckpointPace().rests(at: 0))
    }

    @Test("after a failure for a second, and no shorter where it then goes on without checkpoints")
    func failures() {
        var pace = CheckpointPace()
        pace.failed(at: 7_000 * Self.ms)
        #expect(pace.rests(at: 8_000 * Self.ms - 1) && !pace.rests(at: 8_000 * Self.ms))
        pace.wrote(since: 7_000 * Self.ms, work: Self.ms, at: 7_001 * Self.ms)
        #expect(pace.rests(at: 8_000 * Self.ms - 1))
    }
}
