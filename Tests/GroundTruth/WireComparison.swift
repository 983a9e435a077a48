public import TrafficModel

/// Compares the growth of the daemon's wire bytes with what passed through the near side of a ``Lab``. Tolerance: 0 bytes.
public struct WireComparison: Sendable {
    /// What passed, both directions.
    public private(set) var bytes: UInt64
    /// By how many bytes the daemon differs from that; `nil` where it says nothing of wire bytes.
    public private(set) var difference: UInt64?
    public private(set) var differences: [Difference]

    /// - Parameters:
    ///   - namespace: Inode number of the near namespace.
    ///   - isNear: Where a process is, if that is known from elsewhere; `nil` for one that only the daemon knows.
    public init(
        truth: WireTruth,
        from earlier: Snapshot,
        to later: Snapshot,
        namespace: UInt32,
        isNear: (ProcessIdentity) -> Bool? = { _ in nil }
    ) {
        self.bytes = truth.sent + truth.received
        self.differences = truth.disagreements
        let processes = later.processes ?? []
        guard processes.contains(where: { $0.bytes.wireSent != nil || $0.bytes.wireReceived != nil }) else { return }

        let before = Dictionary(
            (earlier.processes ?? []).map { ($0.identity, $0.bytes) },
            uniquingKeysWith: { first, _ in first }
        )
        var sent: Int64 = 0
        var received: Int64 = 0
        for process in processes where Self.isNear(process, namespace, isNear) {
            let earlier = before[process.identity]
            sent += Self.growth(process.bytes.wireSent, earlier?.wireSent)
            received += Self.growth(process.bytes.wireReceived, earlier?.wireReceived)
            self.requireWire(process, earlier)
        }
        self.difference = 0
        self.compare("wire sent", truth.sent, sent, hint: Self.hint(truth))
        self.compare("wire received", truth.received, received, hint: Self.hint(truth))
    }

    /// The kernel's row, of packets that belong to no socket, may be one for all namespaces or one for each.
    private static func isNear(
        _ process: ProcessUsage,
        _ namespace: UInt32,
        _ whereabouts: (ProcessIdentity) -> Bool?
    ) -> Bool {
        if let known = whereabouts(process.identity) { return known }
        guard let own = process.details.networkNamespace else { return process.identity.pid == 0 }
        return own == namespace
    }

    private static func growth(_ later: UInt64?, _ earlier: UInt64?) -> Int64 {
        Int64(later ?? 0) - Int64(earlier ?? 0)
    }

    /// Who moved payload has moved packets.
    private mutating func requireWire(_ process: ProcessUsage, _ earlier: ByteCounts?) {
        guard process.bytes.wireSent == nil || process.bytes.wireReceived == nil,
            process.bytes.payload.total > (earlier?.payload.total ?? 0)
        else { return }
        self.differences.append(
            Difference(
                subject: "process \(process.identity.pid) (\(process.details.name)) wire bytes",
                expected: "some",
                actual: "unknown"
            )
        )
    }

    private mutating func compare(_ subject: String, _ expected: UInt64, _ actual: Int64, hint: String) {
        guard Int64(expected) != actual else { return }
        self.difference = (self.difference ?? 0) + (Int64(expected) - actual).magnitude
        self.differences.append(
            Difference(subject: subject, expected: String(expected), actual: "\(actual) (\(hint))")
        )
    }

    private static func hint(_ truth: WireTruth) -> String {
        "handed to the interface before it was cut: \(truth.handedOver); neighbour discovery: \(truth.discovery)"
    }
}
