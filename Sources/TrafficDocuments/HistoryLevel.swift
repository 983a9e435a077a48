import TrafficModel

/// The lengths of time for which history keeps sums. Every byte is in a sum of each length.
///
/// Hours, days and months are those of the host's local time, as people read them: a day may have 23 or 25 hours.
public enum HistoryLevel: String, Sendable, Codable, Hashable, CaseIterable {
    case minute
    /// For bills by the 95th percentile, which need them for a month and longer. By process they would take more room
    /// than all the rest, and no bill needs that: ``divides(by:)``.
    case fiveMinutes = "5minute"
    case hour, day, month

    /// Whether sums of this length are divided by `dimension`.
    package func divides(by dimension: HistoryDimension) -> Bool { self != .fiveMinutes || !dimension.isOfProcess }
}

/// By what history divides the bytes.
public enum HistoryDimension: String, Sendable, Codable, Hashable, CaseIterable {
    case process, user, unit, container
    /// Of HTTP messages. Each row is of one role, because a client and a server of this machine may both report the same
    /// message.
    case host, route
    case scope, `class`
    /// The interfaces' own counters.
    case interface
    /// Not divided.
    case total

    /// Whether this is a property of a process, or of what a process asks or serves. The others divide all bytes anew, and
    /// can't be combined.
    public var isOfProcess: Bool {
        switch self {
        case .process, .user, .unit, .container, .host, .route: true
        case .scope, .class, .interface, .total: false
        }
    }

    /// Whether sums divided by this are of HTTP messages.
    public var isOfEndpoint: Bool { self == .host || self == .route }
}
