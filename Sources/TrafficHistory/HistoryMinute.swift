import TrafficDocuments
import TrafficLimits
package import TrafficModel

/// What was moved in one minute: a row of history for each name, before it is written.
public struct HistoryMinute: Sendable {
    /// Seconds since 1970.
    package let time: Int64
    var countedSeconds: UInt64
    private(set) var sums: [HistorySeries: HistoryAmounts]
    /// History has the count up to here when it has this minute.
    var mark: HistoryMark?

    /// - Parameters:
    ///   - time: A time in the minute that gets the bytes.
    ///   - countedSeconds: How long it took.
    package init(_ growth: Balance.Growth, at time: Timestamp, countedSeconds: UInt64) {
        self.time = time.nanosecondsSinceEpoch / 1_000_000_000
        self.countedSeconds = countedSeconds
        self.sums = [.total: .bytes(growth.bytes)]
        for (scope, bytes) in growth.byScope { self.sums[.scope(scope)] = .bytes(bytes) }
        for (name, bytes) in growth.byClass { self.sums[.class(name)] = .bytes(bytes) }
        for (group, bytes) in growth.byGroup where bytes.hasBytes { self.sums[.group(group)] = .bytes(bytes) }
        for (endpoint, counts) in growth.byEndpoint { self.sums[.endpoint(endpoint)] = .messages(counts) }
        for (name, counts) in growth.byInterface { self.sums[.interface(name)] = .packets(counts) }
        self.keepLimits()
    }

    /// Bytes that no group has, when no later minute will tell more.
    mutating func addUngrouped(_ bytes: ByteCounts) {
        if bytes.hasBytes { self.add(.bytes(bytes), to: .group(.other(of: nil))) }
    }

    /// A minute that could not be written becomes part of this one.
    mutating func add(_ earlier: HistoryMinute) {
        self.countedSeconds +|= earlier.countedSeconds
        for (series, amounts) in earlier.sums { self.add(amounts, to: series) }
        // The limits hold for the sum, too: else a full disk would become a full memory.
        self.keepLimits()
    }

    private mutating func add(_ amounts: HistoryAmounts, to series: HistorySeries) {
        self.sums[series, default: amounts.zero] += amounts
    }

    /// Beyond the limits, those with the least bytes add up in the `_other` of their user.
    private mutating func keepLimits() {
        for kind in HistorySeries.Kind.allCases {
            guard let limit = kind.limits?.minute else { continue }
            let names = self.sums.filter { $0.key.kind == kind && $0.key.other != $0.key }
            var places = GroupPlaces(limit)
            for (series, amounts) in names.sorted(by: { $0.value.sum.total > $1.value.sum.total }) {
                if places.hasRoom(for: series.uid) {
                    places.take(for: series.uid)
                } else if let other = series.other {
                    self.sums[series] = nil
                    self.add(amounts, to: other)
                }
            }
        }
    }
}
