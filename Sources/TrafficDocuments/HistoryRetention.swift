import TrafficModel

/// For how long history keeps its sums.
public struct HistoryRetention: Sendable, Hashable {
    /// Seconds; `nil` for ever.
    public private(set) var seconds: [HistoryLevel: Int64?]

    /// Days and months as long as vnstat keeps its own by default; minutes and hours no shorter. Sums of 5 minutes as
    /// long as days, so that there is always a whole month of them.
    public static let `default` = HistoryRetention(seconds: [
        .minute: 2 * 86_400, .fiveMinutes: 62 * 86_400, .hour: 14 * 86_400, .day: 62 * 86_400, .month: 760 * 86_400,
    ])

    private init(seconds: [HistoryLevel: Int64?]) {
        self.seconds = seconds
    }

    /// - Parameter seconds: `nil` for ever.
    public mutating func keep(_ level: HistoryLevel, for seconds: Int64?) { self.seconds[level] = .some(seconds) }

    /// - Returns: Older sums are removed; `nil` if none are.
    package func limit(of level: HistoryLevel, at now: Int64) -> Int64? {
        guard let kept = self.seconds[level] ?? nil else { return nil }
        return now - kept
    }
}
