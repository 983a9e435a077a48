package import TrafficModel

/// What takes all metrics of a reading: the points of one family after the other. Each format is one.
package protocol MetricSink {
    /// All counters of the next families were 0 then.
    mutating func countersBegan(at time: Timestamp)
    /// The next points are of this family.
    mutating func begin(_ family: MetricFamily)
    mutating func add(_ value: MetricValue, _ labels: MetricLabels)
}

package enum MetricValue: Sendable {
    case count(UInt64)
    case real(Double)
    case time(Timestamp)
    case histogram(MetricHistogram)
}

package struct MetricHistogram: Sendable {
    /// The upper bounds of all buckets but the last, in the unit of the family. A value that is equal to a bound is below
    /// it.
    package var bounds: [Double]
    /// One more than bounds. Not cumulative.
    package var counts: [UInt64]
    /// In the unit of the family.
    package var sum: Double
}

extension MetricSink {
    mutating func family(_ family: MetricFamily, _ points: (inout Self) -> Void) {
        self.begin(family)
        points(&self)
    }

    mutating func add(_ labels: MetricLabels, _ value: UInt64) { self.add(.count(value), labels) }

    mutating func add(_ labels: MetricLabels, real value: Double) { self.add(.real(value), labels) }

    mutating func add(_ labels: MetricLabels, time: Timestamp) { self.add(.time(time), labels) }

    /// - Parameter durations: Not a point if there are none.
    mutating func add(_ labels: MetricLabels, _ durations: DurationBuckets) {
        guard !durations.counts.isEmpty else { return }
        let histogram = MetricHistogram(
            bounds: DurationBuckets.seconds,
            counts: durations.counts,
            sum: Double(durations.sum) / 1e6
        )
        self.add(.histogram(histogram), labels)
    }
}

extension DurationBuckets {
    fileprivate static let seconds = Self.bounds.map { Double($0) / 1e6 }
}
