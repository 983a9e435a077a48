import Testing

@testable import TrafficAPI

@Suite("The pace of a stream")
struct PacerTests {
    /// The times of the snapshots that pass, of snapshots taken at these times.
    func admitted(_ times: [UInt64], interval: UInt64?) -> [UInt64] {
        var pacer = Pacer(interval: interval)
        return times.filter { pacer.admits($0) }
    }

    @Test("Without an interval every snapshot passes")
    func all() {
        #expect(self.admitted([1, 2, 3], interval: nil) == [1, 2, 3])
    }

    @Test("Ticks that come a little early or late do not halve the pace")
    func jitter() {
        #expect(self.admitted([0, 99, 201, 299, 400, 499], interval: 100) == [0, 99, 201, 299, 400, 499])
    }

    @Test("A longer interval keeps in step with its first snapshot")
    func longer() {
        #expect(self.admitted(Array(stride(from: 0, to: 1000, by: 100)), interval: 300) == [0, 300, 600, 900])
        #expect(self.admitted(Array(stride(from: 0, to: 1300, by: 100)), interval: 250) == [0, 300, 500, 800, 1000])
    }

    @Test("After a gap one snapshot passes, not one for each missed snapshot")
    func gap() {
        #expect(self.admitted([0, 100, 1000, 1010, 1100, 1200], interval: 100) == [0, 100, 1000, 1100, 1200])
    }

    @Test("If a newer snapshot was sent than the one that passed, the next one comes an interval after that")
    func newer() {
        var pacer = Pacer(interval: 100)
        _ = pacer.admits(0)
        pacer.restart(at: 40)
        let next = [100, 120, 140, 240].map { pacer.admits($0) }
        #expect(next == [false, false, true, true])
    }
}
