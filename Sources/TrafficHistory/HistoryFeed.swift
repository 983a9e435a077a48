public import TrafficModel

/// Makes a minute of history out of the balances of two moments.
public struct HistoryFeed: Sendable {
    private var last: Balance?
    /// When the last minute ended; at first, when counting began.
    private var end: Timestamp

    /// - Parameter countingSince: When counting began.
    public init(countingSince: Timestamp) {
        self.end = countingSince
    }

    /// Whether `time` lies in another minute than the end of the last one. The clock may have been put back, too.
    public func isDue(at time: Timestamp) -> Bool { Self.minute(time) != Self.minute(self.end) }

    /// - Parameter isLast: No later balance comes: what no group has yet, none will get.
    /// - Returns: The bytes since the last balance. `nil` if the balance is older.
    public mutating func minute(_ balance: Balance, isLast: Bool = false) -> HistoryMinute? {
        guard let growth = balance.growth(since: self.last) else { return nil }
        let elapsed = self.last.map { balance.takenBoottimeNanoseconds - $0.takenBoottimeNanoseconds }
        let sinceStart = balance.takenAt.nanosecondsSinceEpoch -| balance.countingSince.nanosecondsSinceEpoch
        let nanoseconds = elapsed ?? UInt64(clamping: sinceStart)
        // Only the end is certain of a long time: the machine slept, or was too busy.
        let time = nanoseconds > 120_000_000_000 ? balance.takenAt : self.end
        var minute = HistoryMinute(growth, at: time, countedSeconds: (nanoseconds + 500_000_000) / 1_000_000_000)
        if isLast {
            // Of processes, for whoever does not group them before.
            minute.addUngrouped(balance.groups.unknown.settled)
            minute.addUngrouped(balance.groups.unowned.settled)
        }
        (self.last, self.end) = (balance, balance.takenAt)
        return minute
    }

    private static func minute(_ time: Timestamp) -> Int64 { time.nanosecondsSinceEpoch / 60_000_000_000 }
}
