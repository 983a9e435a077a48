public import TrafficModel

/// Makes a minute of history out of the balances of two moments.
public struct HistoryFeed: Sendable {
    private var last: Balance?
    /// When the last minute ended; at first, when counting began.
    private var end: Timestamp
    /// The same time on `CLOCK_BOOTTIME`: the wall clock may be set meanwhile.
    private var endBoottime: UInt64

    /// - Parameters:
    ///   - countingSince: When counting began.
    ///   - boottimeNanoseconds: The same time on `CLOCK_BOOTTIME`.
    public init(countingSince: Timestamp, boottimeNanoseconds: UInt64) {
        (self.end, self.endBoottime) = (countingSince, boottimeNanoseconds)
    }

    /// Goes on after an earlier daemon.
    ///
    /// - Parameter balance: What history has of that daemon's count.
    public init(after balance: Balance) {
        (self.last, self.end, self.endBoottime) = (balance, balance.takenAt, balance.takenBoottimeNanoseconds)
    }

    /// Whether `time` lies in another minute than the end of the last one. The clock may have been put back, too.
    public func isDue(at time: Timestamp) -> Bool { Self.minute(time) != Self.minute(self.end) }

    /// - Parameter isLast: No later balance comes: what no group has yet, none will get.
    /// - Returns: The bytes since the last balance. `nil` if the balance is older.
    public mutating func minute(_ balance: Balance, isLast: Bool = false) -> HistoryMinute? {
        guard let growth = balance.growth(since: self.last) else { return nil }
        let nanoseconds = balance.takenBoottimeNanoseconds -| self.endBoottime
        // Only the end is certain of a long time: the machine slept, or was too busy.
        let time = nanoseconds > 120_000_000_000 ? balance.takenAt : self.end
        let uncounted = balance.uncountedNanoseconds -| (self.last?.uncountedNanoseconds ?? 0)
        let counted = nanoseconds -| uncounted
        var minute = HistoryMinute(growth, at: time, countedSeconds: (counted +| 500_000_000) / 1_000_000_000)
        minute.mark = HistoryMark(balance)
        if isLast {
            // Of processes, for whoever does not group them before.
            minute.addUngrouped(balance.groups.unknown.settled)
            minute.addUngrouped(balance.groups.unowned.settled)
        }
        (self.last, self.end, self.endBoottime) = (balance, balance.takenAt, balance.takenBoottimeNanoseconds)
        return minute
    }

    private static func minute(_ time: Timestamp) -> Int64 { time.nanosecondsSinceEpoch / 60_000_000_000 }
}
