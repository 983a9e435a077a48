public import TrafficDocuments
public import TrafficModel

/// What the programs in the kernel cost, and when that was measured.
public struct MeasuredCost: Sendable, Hashable {
    public var cost: CaptureCost
    public var at: Timestamp

    public init(_ cost: CaptureCost, at time: Timestamp) { (self.cost, self.at) = (cost, time) }
}
