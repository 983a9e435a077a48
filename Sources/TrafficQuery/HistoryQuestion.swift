public import TrafficDocuments
public import TrafficModel

/// A question to history.
public struct HistoryQuestion: Sendable, Hashable {
    /// From this time, or a little earlier: sums are kept for whole minutes, hours, days and months.
    public var since: Timestamp
    /// Sums that begin before this time. `nil`: all.
    public var until: Timestamp?
    /// A row for each sum of this length. `nil`: one row for the whole time.
    public var bucket: HistoryLevel?
    /// Either properties of processes, or one of the others.
    public var by: [HistoryDimension]
    public var filter: HistoryFilter
    /// How many names get rows of their own, those with the most payload. The others add up.
    public var top: Int
    /// The rows of one user's processes. `nil`: of all.
    public var uid: UInt32?

    public static let mostNames = 10_000

    public init(
        since: Timestamp,
        until: Timestamp? = nil,
        bucket: HistoryLevel? = nil,
        by: [HistoryDimension] = [.process],
        filter: HistoryFilter = HistoryFilter(),
        top: Int = HistoryQuestion.mostNames,
        uid: UInt32? = nil
    ) {
        self.since = since
        self.until = until
        self.bucket = bucket
        self.by = by
        self.filter = filter
        self.top = top
        self.uid = uid
    }

    /// By what the sums must be divided. With a filter on processes, also those that the answer does not divide.
    package var divisions: [HistoryDimension] { self.by == [.total] && self.filter.hasNames ? [.process] : self.by }

    /// Whether the sums are of HTTP messages.
    public var isOfEndpoints: Bool { self.by.contains(where: \.isOfEndpoint) || self.filter.hasEndpoints }

    /// - Throws: ``HistoryWordError`` if there are no sums that are divided in this way.
    public func check() throws(HistoryWordError) {
        if self.filter.hasNames, let word = self.divisions.first(where: { !$0.isOfProcess }) {
            let known = HistoryFilter.amountKeys.map(\.rawValue).joined(separator: ", ")
            throw HistoryWordError(
                description: "sums by \(word.rawValue) are not divided by process, so a filter has \(known) alone"
            )
        }
        guard let bucket, let word = self.divisions.first(where: { !bucket.divides(by: $0) }) else { return }
        let known = HistoryDimension.allCases.filter(bucket.divides).map(\.rawValue).joined(separator: ", ")
        throw HistoryWordError(
            description: "sums of \(bucket.rawValue) are not divided by \(word.rawValue), but by one of \(known)"
        )
    }
}
