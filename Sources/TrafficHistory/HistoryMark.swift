public import TrafficModel

/// Up to where history has a count: the moment of the last balance whose growth is in it.
///
/// It is written in one transaction with that growth. So a daemon that goes on after another one, however that one ended,
/// knows what history lacks.
public struct HistoryMark: Sendable, Hashable {
    /// What a history says of its mark.
    public enum Answer: Sendable, Hashable {
        /// No count is in it.
        case none
        case at(HistoryMark)
        /// It can't be read at present.
        case unknown
    }

    /// Identifies the count.
    public let countingSince: Timestamp
    /// `CLOCK_BOOTTIME`.
    let boottimeNanoseconds: UInt64

    public init(_ balance: Balance) {
        self.init(countingSince: balance.countingSince, boottimeNanoseconds: balance.takenBoottimeNanoseconds)
    }

    init(countingSince: Timestamp, boottimeNanoseconds: UInt64) {
        (self.countingSince, self.boottimeNanoseconds) = (countingSince, boottimeNanoseconds)
    }
}
