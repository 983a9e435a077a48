import Testing

@testable import TrafficCapture

@Suite("The pace of sweeps")
struct CapturePaceTests {
    /// A clock that advances by 30 ms at each reading, however fast the machine is.
    private final class Clock {
        private(set) var now: UInt64 = 1_000_000_000

        func read() -> UInt64 {
            self.now += 30_000_000
            return self.now
        }
    }

    private func rounds(_ count: Int, interval: Duration) throws -> [(step: CapturePace.Step, began: UInt64)] {
        let (clock, demand) = (Clock(), try SweepDemand())
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: try Stopper(),
            demand: demand,
            interval: interval,
            clock: clock.read
        )
        return (0..<count).map { _ in
            // Requests are always waiting.
            for _ in 0..<100 { demand.ask() }
            return (step: pace.next(), began: clock.now)
        }
    }

    @Test("a request gets a sweep, and all requests together get ten a second")
    func looks() throws {
        let rounds = try self.rounds(20, interval: .seconds(60))
        #expect(rounds.allSatisfy { $0.step == .look })
        // The first sweep need not wait: there was none before.
        #expect(rounds[0].began < 1_200_000_000)
        for (earlier, later) in zip(rounds, rounds.dropFirst()) {
            #expect((100_000_000...160_000_000).contains(later.began - earlier.began))
        }
    }

    @Test("a stop is noticed at once, also where every round takes as long as the interval")
    func stopUnderLoad() throws {
        let (clock, stopper) = (Clock(), try Stopper())
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: stopper,
            interval: .milliseconds(10),
            clock: clock.read
        )
        for _ in 0..<5 { #expect(pace.next() == .sweep) }
        stopper.stop()
        #expect(pace.next() == .stop)
    }

    @Test("another interval is in force at once: a shorter one need not wait for the old one's end")
    func otherInterval() throws {
        let clock = Clock()
        let pace = try CapturePace(
            wakeDescriptor: nil,
            stopper: try Stopper(),
            interval: .seconds(60),
            clock: clock.read
        )
        var before = clock.now
        for interval in [UInt64(300_000_000), 900_000_000] {
            pace.change(interval: .nanoseconds(Int64(interval)))
            for _ in 0..<5 {
                #expect(pace.next() == .sweep)
                #expect(clock.now - before <= interval + 120_000_000)
                before = clock.now
            }
        }
        let last = clock.now
        #expect(pace.next() == .sweep)
        #expect(clock.now - last >= 800_000_000)
    }

    @Test("the interval's own sweeps come on time, whatever the requests")
    func sweeps() throws {
        let rounds = try self.rounds(30, interval: .milliseconds(250))
        let sweeps = rounds.filter { $0.step == .sweep }.map(\.began)
        #expect(sweeps.count > 8 && rounds.contains { $0.step == .look })
        // The interval, and two readings of the clock more at most.
        for (earlier, later) in zip(sweeps, sweeps.dropFirst()) { #expect(later - earlier <= 310_000_000) }
        // A sweep of the interval answers requests, too: the next requested sweep keeps the usual distance.
        for (earlier, later) in zip(rounds, rounds.dropFirst()) where later.step == .look {
            #expect(later.began - earlier.began >= 100_000_000)
        }
    }
}
