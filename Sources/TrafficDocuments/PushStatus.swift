public import TrafficModel

/// How the deliveries to one receiver of metrics go. The counts begin at 0 when the daemon starts.
public struct PushStatus: Sendable, Hashable {
    /// The URL without its secret parts.
    public var destination: String
    /// Requests that the receiver took.
    public var delivered: UInt64 = 0
    /// Tries that will be repeated: no answer, or one that asks for patience.
    public var failed: UInt64 = 0
    /// Requests that the receiver will never take, such as with 400 or 401.
    public var refused: UInt64 = 0
    /// Points that the receiver left out of requests that it took.
    public var rejectedPoints: UInt64 = 0
    /// Requests that were deleted before the receiver took them: too many waited, or the spool's file failed.
    public var dropped: UInt64 = 0
    /// Requests that wait.
    public var waiting: UInt64 = 0
    /// `nil` before the first.
    public var lastDelivery: Timestamp?
    /// What was wrong with the last try: why it did not succeed, or what the receiver left out. `nil`: nothing.
    public var problem: String?

    public init(destination: String) { self.destination = destination }
}
