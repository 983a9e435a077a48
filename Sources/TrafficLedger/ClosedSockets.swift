import DequeModule
import TrafficLimits
import TrafficModel

/// The closed sockets that are still listed. A user who closes many sockets displaces only that user's own sockets, also
/// between two sweeps.
struct ClosedSockets: Codable {
    private struct Listed: Codable {
        var serial: UInt64
        /// The number of the first tick after the daemon learned of the end.
        var tick: UInt64
    }

    private var queue = FairQueue<Listed>()
    /// The number of the next tick.
    private var nextTick: UInt64 = 0
    /// `CLOCK_BOOTTIME` in nanoseconds of the last ticks, of which the last has the number `nextTick - 1`. Sockets age from
    /// that tick, not from their end: a daemon that was stopped for a while, or that ticks seldom, lists each of them in at
    /// least one tick.
    private var ticks: Deque<UInt64> = []

    /// - Returns: Sockets that should no longer be listed.
    mutating func append(_ serial: UInt64, of user: PayingUser, within limit: UserLimit) -> [UInt64] {
        let socket = Listed(serial: serial, tick: self.nextTick)
        return self.queue.append(socket, of: user, within: limit).map(\.serial)
    }

    /// Takes out the sockets that have been listed since `moment` or longer, and the sockets beyond the limits.
    ///
    /// - Parameters:
    ///   - moment: `CLOCK_BOOTTIME`, nanoseconds, as `tick`.
    ///   - tick: When this tick is.
    mutating func takeForgettable(listedSince moment: UInt64, at tick: UInt64, within limit: UserLimit) -> [UInt64] {
        self.ticks.append(tick)
        self.nextTick += 1
        while let oldest = self.ticks.first, oldest <= moment { self.ticks.removeFirst() }
        let firstKept = self.nextTick - UInt64(self.ticks.count)
        return self.queue.take(within: limit) { $0.tick < firstKept }.map(\.serial)
    }
}
