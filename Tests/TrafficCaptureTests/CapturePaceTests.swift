import Testing

@testable import TrafficCapture

@Suite("The pace of sweeps")
struct CapturePaceTests {
    /// A clock that goes on by 30 ms whenever it is read, however fast the machine is.
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
            // There is always somebody who asks.
            for _ in 0..<100 { demand.ask() }
            return (step: pace.next(), began: clock.now)
        }
    }

    @Test("who asks gets a sweep, and all who ask get ten a second")
    func looks() throws {
        let rounds = try self.rounds(20, interval: .seconds(60))
        #expect(rounds.allSatisfy { $0.step == .look })
        // The first one need not wait: nothing was swept before.
        #expect(rounds[0].began < 1_200_000_000)
        for (earlier, later) in zip(rounds, rounds.dropFirst()) {
            #expect((100_000_000...160_000_000).contains(later.began - earlier.began))
        }
    }

    @Test("where every round takes as long as the interval, to be stopped is noticed at once")
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

    @Test("the interval's own sweeps come in their time, whoever asks")
    func sweeps() throws {
        let rounds = try self.rounds(30, interval: .milliseconds(250))
        let sweeps = rounds.filter { $0.step == .sweep }.map(\.began)
        #expect(sweeps.count > 8 && rounds.contains { $0.step == .look })
        // The interval, and as late as two readings of the clock.
        for (earlier, later) in zip(sweeps, sweeps.dropFirst()) { #expect(later - earlier <= 310_000_000) }
        // A sweep of the interval is one for those who ask, too: the next is as far behind as behind any.
        for (earlier, later) in zip(rounds, rounds.dropFirst()) where later.step == .look {
            #expect(later.began - earlier.began >= 100_000_000)
        }
    }
}
