/// When to make a reading for monitoring systems, besides when one waits.
///
/// A checkpoint of many sockets takes long, and the next one comes twenty times as long after it. A scraper must not wait
/// for that. So while somebody scrapes, each checkpoint gets a reading, and the newest one answers at once.
struct MetricsPace {
    /// Nobody has scraped for so long.
    private static let patience: UInt64 = 300_000_000_000
    private static let shortest: UInt64 = 1_000_000_000
    private var wantedUntil: UInt64 = 0
    private var last: UInt64 = 0

    /// - Parameter now: `CLOCK_MONOTONIC`, nanoseconds.
    mutating func isDue(isAsked: Bool, at now: UInt64) -> Bool {
        if isAsked { self.wantedUntil = now + Self.patience }
        guard isAsked || now < self.wantedUntil && now >= self.last + Self.shortest else { return false }
        self.last = now
        return true
    }

    /// Somebody has scraped not long ago.
    func isWanted(at now: UInt64) -> Bool { now < self.wantedUntil }
}
