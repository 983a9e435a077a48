public import TrafficDocuments
public import TrafficModel

/// A question to history about one month.
public struct MonthQuestion: Sendable, Hashable {
    /// Which bytes.
    public enum Part: Sendable, Hashable {
        case total
        case scope(SocketScope)
        /// By the name of the class.
        case `class`(String)
    }

    /// `nil`: the present one.
    public var month: CalendarMonth?
    public var part: Part
    /// Bits per second: how many intervals were above this rate. `nil`: not asked.
    public var exceeding: UInt64?

    public init(month: CalendarMonth? = nil, part: Part = .total, exceeding: UInt64? = nil) {
        (self.month, self.part, self.exceeding) = (month, part, exceeding)
    }
}
