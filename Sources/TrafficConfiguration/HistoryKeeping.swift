import ArgumentParser
package import CommandOptions
package import TrafficDocuments
import TrafficModel

/// How long history keeps sums of one length: `minute=2d` or `month=unlimited`.
package struct HistoryKeeping: ExpressibleByArgument, Sendable {
    package var level: HistoryLevel
    /// `nil`: for ever.
    package var time: TimeSpan?

    package var seconds: Int64? { self.time.map { Int64($0.seconds) } }

    package init?(argument: String) {
        let parts = argument.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let level = HistoryLevel(rawValue: String(parts[0])) else { return nil }
        self.init(level, String(parts[1]))
    }

    /// - Parameter text: A time, or `unlimited`.
    init?(_ level: HistoryLevel, _ text: String) {
        self.level = level
        guard text != "unlimited" else { return }
        // 0 is refused, because some would read it as unlimited.
        guard let time = TimeSpan(argument: text), time >= Self.shortest(of: level), time <= Self.longest else {
            return nil
        }
        self.time = time
    }

    /// A thousand years.
    private static let longest = TimeSpan(seconds: 3.2e10)

    /// A level keeps at least its longest sum.
    static func shortest(of level: HistoryLevel) -> TimeSpan {
        switch level {
        case .minute: TimeSpan(seconds: 60)
        case .fiveMinutes: TimeSpan(seconds: 300)
        case .hour: TimeSpan(seconds: 3_600)
        case .day: TimeSpan(seconds: 25 * 3_600)
        case .month: TimeSpan(seconds: 31 * 86_400)
        }
    }
}
