public import TrafficModel

/// Compares the growth of the daemon's wire bytes with what passed through a ``NetworkLab``. Tolerance: 0 bytes.
///
/// Packets of no socket are in rows of the kernel's own (pid 0). Where each of them names its network namespace, the sides are
/// compared one by one. A single row for all namespaces is compared with both sides together; then no other namespace of the
/// machine may have such packets.
public struct WireComparison: Sendable {
    /// One end of the lab.
    public enum Side: Sendable {
        case near, peer
    }

    /// What passed, at both sides, sent and received.
    public let bytes: UInt64
    /// By how many bytes the daemon differs from that; `nil` where it says nothing of wire bytes, or nothing that can be compared.
    public private(set) var difference: UInt64?
    public private(set) var differences: [Difference]

    private let truth: WireTruth
    private var counted: [Side: Sum] = [:]
    private var hasOneKernelRow = false

    /// Signed: what is not monotonic shall show as a difference and not end the run.
    private struct Sum {
        var sent: Int64 = 0
        var received: Int64 = 0
    }

    /// The kernel's rows may have one identity and differ in their namespace.
    private struct Row: Hashable {
        var identity: ProcessIdentity
        var kernelNamespace: UInt32?

        init(_ process: ProcessUsage) {
            self.identity = process.identity
            self.kernelNamespace = process.identity.pid == 0 ? process.details.networkNamespace : nil
        }
    }

    /// - Parameters:
    ///   - namespaces: Inode numbers of the sides' network namespaces.
    ///   - whereabouts: Of a process that the generator knows: its namespace. `nil` for one that only the daemon knows.
    public init(
        truth: WireTruth,
        from earlier: Snapshot,
        to later: Snapshot,
        namespaces: [UInt32: Side],
        whereabouts: (ProcessIdentity) -> UInt32? = { _ in nil }
    ) {
        self.truth = truth
        self.bytes = truth.near.total + truth.peer.total
        self.differences = truth.disagreements
        let processes = later.processes ?? []
        guard processes.contains(where: { $0.bytes.wireSent != nil || $0.bytes.wireReceived != nil }) else { return }

        let before = Dictionary(
            (earlier.processes ?? []).map { (Row($0), $0.bytes) },
            uniquingKeysWith: { first, _ in first }
        )
        var ofAllNamespaces: Sum?
        for process in processes {
            let growth = Self.growth(process.bytes, before[Row(process)])
            let namespace = whereabouts(process.identity) ?? process.details.networkNamespace
            if let namespace {
                guard let side = namespaces[namespace] else { continue }
                self.requireWire(process, before[Row(process)])
                self.counted[side, default: Sum()].sent += growth.sent
                self.counted[side, default: Sum()].received += growth.received
            } else if process.identity.pid == 0 {
                ofAllNamespaces = growth
            }
        }
        self.compare(ofAllNamespaces)
    }

    private static func growth(_ later: ByteCounts, _ earlier: ByteCounts?) -> Sum {
        Sum(
            sent: Int64(later.wireSent ?? 0) - Int64(earlier?.wireSent ?? 0),
            received: Int64(later.wireReceived ?? 0) - Int64(earlier?.wireReceived ?? 0)
        )
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

    // MARK: Sums

    private mutating func compare(_ ofAllNamespaces: Sum?) {
        let near = self.counted[.near] ?? Sum()
        let peer = self.counted[.peer] ?? Sum()
        guard let kernel = ofAllNamespaces else {
            self.difference = 0
            self.compare("wire of the near side", self.truth.near, near)
            self.compare("wire of the peer's side", self.truth.peer, peer)
            return
        }
        // What the namespace in the middle forwards would be in the row too.
        guard !self.truth.isBridged else { return }
        self.hasOneKernelRow = true
        self.difference = 0
        self.compare(
            "wire of both sides",
            self.truth.near + self.truth.peer,
            Sum(
                sent: near.sent + peer.sent + kernel.sent,
                received: near.received + peer.received + kernel.received
            )
        )
    }

    private mutating func compare(_ subject: String, _ expected: WireTruth.Flow, _ actual: Sum) {
        self.compare("\(subject), sent", expected.sent, actual.sent)
        self.compare("\(subject), received", expected.received, actual.received)
    }

    private mutating func compare(_ subject: String, _ expected: UInt64, _ actual: Int64) {
        guard Int64(expected) != actual else { return }
        self.difference = (self.difference ?? 0) + (Int64(expected) - actual).magnitude
        let hints = [
            "near, before it was cut to the link: \(self.truth.handedOver)", "discovery: \(self.truth.discovery)",
            self.hasOneKernelRow ? "other namespaces' packets of no socket are in the kernel's one row" : nil,
        ]
        self.differences.append(
            Difference(
                subject: subject,
                expected: String(expected),
                actual: "\(actual) (\(hints.compactMap(\.self).joined(separator: "; ")))"
            )
        )
    }
}
