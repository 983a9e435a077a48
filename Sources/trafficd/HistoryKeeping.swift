import ArgumentParser
import CommandOptions
import TrafficHistory
import TrafficModel

/// How long history keeps sums of one length: `minute=2d` or `month=unlimited`.
struct HistoryKeeping: ExpressibleByArgument {
    var level: HistoryLevel
    /// `nil`: for ever.
    var time: TimeSpan?

    init?(argument: String) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let level = HistoryLevel(rawValue: String(parts[0])) else { return nil }
        self.level = level
        guard parts[1] != "unlimited" else { return }
        // A level keeps at least its longest sum. 0 is refused, because some would read it as unlimited.
        guard let time = TimeSpan(argument: String(parts[1])), time.seconds >= level.longestSeconds,
            time.seconds <= Self.longest
        else { return nil }
        self.time = time
    }

    /// A thousand years.
    private static let longest = 3.2e10
}

extension HistoryLevel {
    fileprivate var longestSeconds: Double {
        switch self {
        case .minute: 60
        case .hour: 3_600
        case .day: 25 * 3_600
        case .month: 31 * 86_400
        }
    }
}

extension HistoryRetention {
    init(_ keepings: [HistoryKeeping]) {
        self = .default
        for keeping in keepings { self.keep(keeping.level, for: keeping.time.map { Int64($0.seconds) }) }
    }
}
