import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

@Suite("What the programs cost")
struct CaptureCostTests {
    static func counters(_ runs: UInt64, _ nanoseconds: UInt64, _ missed: UInt64 = 0) -> ProgramCounters {
        ProgramCounters(runs: runs, nanoseconds: nanoseconds, missed: missed)
    }

    @Test(
        "Growth is the difference, or the whole count where counting started again",
        arguments: [
            (counters(0, 0), counters(0, 0), counters(0, 0)),
            (counters(100, 5000, 1), counters(130, 8000, 3), counters(30, 3000, 2)),
            // The program was attached again: each of the three values alone shows that.
            (counters(100, 5000, 1), counters(7, 9000, 1), counters(7, 9000, 1)),
            (counters(100, 5000, 1), counters(101, 400, 1), counters(101, 400, 1)),
            (counters(100, 5000, 1), counters(101, 5001, 0), counters(101, 5001, 0)),
            (counters(.max, .max, .max), counters(0, 0, 0), counters(0, 0, 0)),
            (counters(0, 0, 0), counters(.max, .max, .max), counters(.max, .max, .max)),
        ]
    )
    func growth(before: ProgramCounters, after: ProgramCounters, expected: ProgramCounters) {
        #expect(after.growth(since: before) == expected)
    }

    @Test("A program has its rate, its time a call and its share of one processor")
    func program() {
        let program = CaptureCost.Program(name: "p", hook: "h", growth: Self.counters(30_000, 6_000_000, 4), seconds: 2)
        #expect(program.calls == 30_000 && program.missed == 4)
        #expect(program.callsPerSecond == 15_000)
        #expect(program.nanosecondsPerCall == 200)
        // 6 ms of 2 s.
        #expect(abs(program.cpuPercent - 0.3) < 1e-12)
    }

    @Test("A program that was not called has an unknown time per call, not 0")
    func notCalled() {
        let program = CaptureCost.Program(name: "p", hook: "h", growth: Self.counters(0, 0, 5), seconds: 2)
        #expect(program.nanosecondsPerCall == nil)
        #expect(program.callsPerSecond == 0 && program.cpuPercent == 0 && program.missed == 5)
    }

    @Test("A clock that stood still gives rate 0", arguments: [0, -1])
    func noTime(seconds: Double) {
        let program = CaptureCost.Program(name: "p", hook: "h", growth: Self.counters(3, 600), seconds: seconds)
        #expect(program.callsPerSecond == 0 && program.cpuPercent == 0)
        #expect(program.calls == 3 && program.nanosecondsPerCall == 200)
    }

    @Test("The sum is over all programs")
    func sum() {
        let programs = [1, 2, 3].map { count in
            CaptureCost.Program(name: "", hook: "", growth: Self.counters(1, count * 10_000_000), seconds: 1)
        }
        #expect(abs(CaptureCost(seconds: 1, programs: programs).cpuPercent - 6) < 1e-12)
        #expect(CaptureCost(seconds: 0, programs: []).cpuPercent == 0)
    }
}
