import TrafficModel

/// When to write the next checkpoint.
///
/// Writing one takes time for each process and socket. So after one the keeper rests twenty times as long, and what was
/// read meanwhile stays in the kernel a little longer. Time of a processor: while a machine stood still, nothing was
/// written, and monitoring systems must not wait for twenty times that. But where writing has to wait, the keeper rests as
/// long, up to five seconds, so that counting goes on between.
struct CheckpointPace {
    private static let restFactor: UInt64 = 20
    private static let longestWait: UInt64 = 5_000_000_000
    /// After a failure.
    private static let retry: UInt64 = 1_000_000_000
    private var restsUntil: UInt64 = 0

    /// - Parameter now: `CLOCK_MONOTONIC`, nanoseconds, as all times here.
    func rests(at now: UInt64) -> Bool { now < self.restsUntil }

    mutating func failed(at now: UInt64) { self.restsUntil = now +| Self.retry }

    /// - Parameters:
    ///   - began: When the writing began. It has ended now.
    ///   - work: How long a processor was at it, in nanoseconds.
    mutating func wrote(since began: UInt64, work: UInt64, at now: UInt64) {
        let rest = max(work *| Self.restFactor, min(now -| began, Self.longestWait))
        self.restsUntil = max(self.restsUntil, now +| rest)
    }
}
