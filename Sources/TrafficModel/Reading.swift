/// All that clients of the daemon can ask for of the traffic, at one moment.
///
/// What goes out is made of it: a ``Snapshot`` with the parts that a client asked for and may see, exchanges, an audit.
public struct Reading: Sendable, Hashable {
    /// With all its parts.
    public var snapshot: Snapshot
    /// The exchanges of the snapshot's endpoints in the other groupings.
    public var groupedEndpoints: [EndpointGrouping: [EndpointUsage]]
    /// The last exchanges that ended, and the exchanges that go on.
    public var exchanges: [ExchangeUsage]
    /// What an audit needs besides the listed sockets.
    public var evidence: AuditEvidence

    public init(
        snapshot: Snapshot,
        groupedEndpoints: [EndpointGrouping: [EndpointUsage]] = [:],
        exchanges: [ExchangeUsage] = [],
        evidence: AuditEvidence = AuditEvidence()
    ) {
        self.snapshot = snapshot
        self.groupedEndpoints = groupedEndpoints
        self.exchanges = exchanges
        self.evidence = evidence
    }

    /// The reading with the rows of this grouping as the snapshot's endpoints, and without other groupings. A filter
    /// comes after this, because it looks at the snapshot's endpoints only.
    public func grouped(by grouping: EndpointGrouping) -> Reading {
        var result = self
        if grouping != .route { result.snapshot.endpoints = self.groupedEndpoints[grouping] }
        result.groupedEndpoints = [:]
        return result
    }
}
