import Histogram
import TrafficLimits
import TrafficModel

/// How long the exchanges of a row took, in microseconds, with limited memory.
///
/// A histogram takes from four to thirty kilobytes, and anybody can make thousands of rows with a few datagrams. So a
/// row keeps its first durations one by one. Only a row with more durations gets a histogram, as fine as its user's
/// allowance permits.
struct DurationTotals: Codable {
    /// A day, so that a hostile number can't make a histogram large. Microseconds.
    static let longest: UInt64 = 86_400_000_000

    private var few: [UInt64] = []
    private var histogram: Histogram<UInt64>?

    mutating func record(_ microseconds: UInt64) {
        let value = min(microseconds, Self.longest)
        // A comparison with `nil` would copy the histogram.
        if case .none = self.histogram {
            self.few.append(value)
        } else {
            _ = self.histogram?.record(value)
        }
    }

    /// There are more durations than a row keeps one by one.
    var needsHistogram: Bool { self.few.count > ReportLimits.durationsAsTheyAre }

    /// - Parameter isFine: `true` for two significant digits, `false` for one digit.
    mutating func makeHistogram(isFine: Bool) {
        var histogram = Histogram<UInt64>(
            lowestDiscernibleValue: 1,
            highestTrackableValue: 65_536,
            numberOfSignificantValueDigits: isFine ? .two : .one
        )
        histogram.autoResize = true
        for value in self.few { histogram.record(value) }
        self.few = []
        self.histogram = histogram
    }

    /// `nil` if there are no durations yet.
    var usage: EndpointUsage.Durations? {
        if let histogram {
            return EndpointUsage.Durations(
                count: histogram.totalCount,
                p50: histogram.valueAtPercentile(50),
                p90: histogram.valueAtPercentile(90),
                p99: histogram.valueAtPercentile(99),
                max: histogram.max
            )
        }
        let sorted = self.few.sorted()
        guard let last = sorted.last else { return nil }
        // The smallest duration that so many percent of the durations do not exceed, as the histogram computes it.
        let percentile = { (percent: Int) in sorted[(sorted.count * percent + 99) / 100 - 1] }
        return EndpointUsage.Durations(
            count: UInt64(sorted.count),
            p50: percentile(50),
            p90: percentile(90),
            p99: percentile(99),
            max: last
        )
    }
}
