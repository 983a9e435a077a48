/// What history says of the requests of an endpoint, of the time before an hour that is judged.
public struct EndpointPast: Sendable, Hashable {
    /// How far the past reaches: a weekly job is in it, even if a clock change or a slow start moves it.
    public static let longestSeconds: Int64 = 8 * 86_400

    /// The time that this is about. Both are the same if history knows nothing.
    public var since: Timestamp
    public var until: Timestamp
    /// The most requests of one hour, by the clock.
    public var mostRequests: UInt64

    public init(since: Timestamp, until: Timestamp, mostRequests: UInt64) {
        (self.since, self.until, self.mostRequests) = (since, until, mostRequests)
    }
}
