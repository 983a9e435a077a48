/// What one endpoint of one service gained in some time. The process group, role, host and route are those of its
/// ``EndpointUsage``.
public struct EndpointGrowth: Sendable, Hashable {
    public var process: ProcessGroup
    public var role: EndpointRole
    public var host: String
    public var route: String
    public var counts: EndpointCounts

    public init(process: ProcessGroup, role: EndpointRole, host: String, route: String, counts: EndpointCounts) {
        self.process = process
        self.role = role
        self.host = host
        self.route = route
        self.counts = counts
    }
}

/// The numbers of an endpoint that an alert needs.
public struct EndpointCounts: Sendable, Hashable {
    public var requests: UInt64
    /// Exchanges that ended, in whatever way, and those of them that failed.
    public var ended: UInt64
    public var failures: UInt64
    /// Bytes of messages in both directions. Wrap, as ``MessageBytes`` do.
    public var bytes: UInt64

    public init(requests: UInt64 = 0, ended: UInt64 = 0, failures: UInt64 = 0, bytes: UInt64 = 0) {
        self.requests = requests
        self.ended = ended
        self.failures = failures
        self.bytes = bytes
    }

    package func growth(since earlier: EndpointCounts) -> EndpointCounts {
        EndpointCounts(
            requests: self.requests -| earlier.requests,
            ended: self.ended -| earlier.ended,
            failures: self.failures -| earlier.failures,
            bytes: self.bytes &- earlier.bytes
        )
    }
}

extension EndpointCounts {
    package static func += (left: inout Self, right: Self) {
        left.requests +|= right.requests
        left.ended +|= right.ended
        left.failures +|= right.failures
        left.bytes +|= right.bytes
    }
}
