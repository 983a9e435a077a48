package import TrafficModel

/// What takes all metrics of a reading: the points of one family after the other. Each format is one.
package protocol MetricSink {
    /// Whether it gets histograms of the sizes of bodies: in the text formats each would have a dozen lines.
    static var hasBodySizes: Bool { get }
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

extension Timestamp {
    /// Seconds since 1970, as gauges have them.
    package var seconds: Double { Double(self.nanosecondsSinceEpoch) / 1e9 }
}

package struct MetricHistogram: Sendable {
    /// The upper bounds of all buckets but the last, in the unit of the family. Bounds are inclusive.
    package var bounds: [Double]
    /// One more than bounds. Not cumulative.
    package var counts: [UInt64]
    /// In the unit of the family.
    package var sum: Double
    /// Of all buckets.
    package var count: UInt64 { self.counts.reduce(0, +|) }
}

extension MetricSink {
    mutating func family(_ family: MetricFamily, _ points: (inout Self) -> Void) {
        self.begin(family)
        points(&self)
    }

    mutating func add(_ labels: MetricLabels, _ value: UInt64) { self.add(.count(value), labels) }

    mutating func add(_ labels: MetricLabels, real value: Double) { self.add(.real(value), labels) }

    mutating func add(_ labels: MetricLabels, time: Timestamp) { self.add(.time(time), labels) }

    /// - Parameter buckets: No point if there are no values.
    mutating func add<Scale: MetricScale>(_ labels: MetricLabels, _ buckets: Buckets<Scale>) {
        guard !buckets.counts.isEmpty else { return }
        let sum = Double(buckets.sum) / Scale.unitsInBase
        self.add(.histogram(MetricHistogram(bounds: Scale.baseBounds, counts: buckets.counts, sum: sum)), labels)
    }
}

/// A scale whose bounds metrics have in their own unit.
protocol MetricScale: BucketScale {
    static var unitsInBase: Double { get }
    static var baseBounds: [Double] { get }
}

extension DurationScale: MetricScale {
    static let unitsInBase = 1e6
    static let baseBounds = Self.bounds.map { Double($0) / Self.unitsInBase }
}

extension BodySizeScale: MetricScale {
    static let unitsInBase = 1.0
    static let baseBounds = Self.bounds.map(Double.init)
}
