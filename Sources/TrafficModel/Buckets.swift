/// The bounds of a histogram's buckets.
public protocol BucketScale: Sendable {
    /// The upper bounds of all buckets but the last, ascending. Bounds are inclusive.
    static var bounds: [UInt64] { get }
}

/// The buckets that OpenTelemetry's semantic conventions give `http.client.request.duration` and
/// `http.server.request.duration`. In microseconds.
public enum DurationScale: BucketScale {
    public static let bounds: [UInt64] = [
        5_000, 10_000, 25_000, 50_000, 75_000, 100_000, 250_000, 500_000, 750_000, 1_000_000, 2_500_000, 5_000_000,
        7_500_000, 10_000_000,
    ]
}

/// Bodies of HTTP messages, in bytes. The conventions give no buckets for `http.client.request.body.size` and the three
/// like it. Here the first bucket has the messages without a body.
public enum BodySizeScale: BucketScale {
    public static let bounds: [UInt64] = [
        0, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000,
    ]
}

public typealias DurationBuckets = Buckets<DurationScale>
public typealias BodySizeBuckets = Buckets<BodySizeScale>

/// How many values are in each bucket of a scale, and the sum of the values.
public struct Buckets<Scale: BucketScale>: Sendable, Hashable, Codable {
    /// One more than the scale has bounds, or none if there are no values. Not cumulative.
    public private(set) var counts: [UInt64] = []
    /// In the unit of the scale.
    public private(set) var sum: UInt64 = 0

    public init() {}

    public mutating func record(_ value: UInt64) {
        if self.counts.isEmpty { self.counts = Self.empty }
        self.counts[Scale.bounds.firstIndex { value <= $0 } ?? Scale.bounds.count] +|= 1
        self.sum +|= value
    }

    private static var empty: [UInt64] { [UInt64](repeating: 0, count: Scale.bounds.count + 1) }

    package static func += (left: inout Self, right: Self) {
        guard !right.counts.isEmpty else { return }
        if left.counts.isEmpty { left.counts = Self.empty }
        for bucket in left.counts.indices { left.counts[bucket] +|= right.counts[bucket] }
        left.sum +|= right.sum
    }
}
