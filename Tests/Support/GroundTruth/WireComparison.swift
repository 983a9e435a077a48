public import TrafficModel

/// Compares the growth of the daemon's wire bytes with what passed through a ``NetworkLab``. Tolerance: 0 bytes.
///
/// The interfaces' audits are compared with the packet filter at both ends of the link and with the interfaces' own
/// counters. The processes' wire bytes are compared with the audits' lines of sockets. These numbers contain nothing
/// else of the machine.
public struct WireComparison: Sendable {
    /// The daemon's numbers of one moment.
    public struct Reading: Sendable {
        public var snapshot: Snapshot
        public var audit: WireAudit

        public init(snapshot: Snapshot, audit: WireAudit) {
            self.snapshot = snapshot
            self.audit = audit
        }
    }

    /// What passed the near side's interfaces, sent and received.
    public let bytes: UInt64
    /// By how many bytes the daemon differs from that; `nil` where the daemon has no wire bytes.
    public var difference: UInt64? { self.isKnown ? self.misses.values.reduce(0, +) : nil }
    public internal(set) var differences: [Difference]

    private let truth: WireTruth
    private var isKnown = false
    /// Wire bytes of processes whose namespace nobody knows. They are in no sum; a miss may be among them.
    private var nowhere: Int64 = 0
    /// The largest miss by subject. What one witness misses, others miss too, so misses of a subject are not added up.
    private var misses: [String: UInt64] = [:]

    /// - Parameters:
    ///   - near: Inode number of the near side's network namespace.
    ///   - acrossLink: The generator's payload went over the link, so processes that moved payload have moved packets.
    ///   - copied: Bytes that arrived in packets which another socket received too.
    ///   - ownersAreKnown: Whether the generator says which processes took part. After giving up a scenario it does
    ///     not.
    ///   - whereabouts: The namespace of a process that the generator knows; `nil` for one that only the daemon knows.
    public init(
        truth: WireTruth,
        from earlier: Reading,
        to later: Reading,
        near: UInt32,
        acrossLink: Bool = false,
        copied: UInt64 = 0,
        ownersAreKnown: Bool = true,
        whereabouts: (ProcessIdentity) -> UInt32? = { _ in nil }
    ) {
        self.truth = truth
        self.bytes = truth.total
        self.differences = truth.disagreements
        let processes = later.snapshot.processes ?? []
        guard processes.contains(where: { $0.bytes.wireSent != nil || $0.bytes.wireReceived != nil }) else { return }
        self.isKnown = true
        let link = later.audit.link.growth(since: earlier.audit.link)
        let loopback = later.audit.loopback.growth(since: earlier.audit.loopback)
        self.compareLink("sent", truth.link.sent, truth.atInterface.sent, truth.counter.sent, link.sent)
        self.compareLink(
            "received",
            truth.link.received,
            truth.atInterface.received,
            truth.counter.received,
            link.received
        )
        self.compare("loopback, sent", "by the interface", truth.loopback.sent, loopback.sent[.interfaceWire] ?? 0)
        self.compare(
            "loopback, received",
            "by the interface",
            truth.loopback.received,
            loopback.received[.interfaceWire] ?? 0
        )
        self.requireNothingUnexplained(link, loopback)

        var sum = (sent: Int64(0), received: Int64(0))
        // `received` by processes here, and `arrived` at the generator's processes on the other side.
        var payload = (received: Int64(0), arrived: Int64(0))
        let before = Dictionary(
            (earlier.snapshot.processes ?? []).map { ($0.identity, $0.bytes) },
            uniquingKeysWith: { first, _ in first }
        )
        for process in processes where process.identity.pid != 0 {
            let earlier = before[process.identity]
            let received = Int64(process.bytes.payload.received) - Int64(earlier?.payload.received ?? 0)
            let place = whereabouts(process.identity)
            if let place, place != near { payload.arrived += received }
            let wire = (
                sent: Int64(process.bytes.wireSent ?? 0) - Int64(earlier?.wireSent ?? 0),
                received: Int64(process.bytes.wireReceived ?? 0) - Int64(earlier?.wireReceived ?? 0)
            )
            guard let namespace = place ?? process.details.networkNamespace else {
                self.nowhere += wire.sent + wire.received
                continue
            }
            guard namespace == near else { continue }
            payload.received += received
            self.requireWire(process, earlier)
            sum.sent += wire.sent
            sum.received += wire.received
        }
        guard ownersAreKnown else { return }
        if acrossLink {
            self.requirePackets("sent", payload: payload.arrived - Int64(copied), wire: sum.sent)
            self.requirePackets("received", payload: payload.received, wire: sum.received)
        }
        self.compareOwners("sent", link.sent, loopback.sent, sum.sent)
        self.compareOwners("received", link.received, loopback.received, sum.received)
    }

    // MARK: Interfaces

    private mutating func compareLink(
        _ direction: String,
        _ filter: UInt64,
        _ interface: UInt64,
        _ counter: UInt64,
        _ lines: WireAudit.Lines
    ) {
        let wire = lines[.interfaceWire] ?? 0
        let subject = "link, \(direction)"
        self.compare(subject, "by the packet filter", filter, wire)
        // Received packets are counted before they are aggregated.
        let aggregates = direction == "sent" ? wire + (lines[.offload] ?? 0) : wire
        self.compare(subject, "by the interface", interface, aggregates)
        self.compare(subject, "the interface's counter", counter, lines[.interfaceCounter] ?? 0)
    }

    private mutating func requireNothingUnexplained(_ link: WireAudit.Account, _ loopback: WireAudit.Account) {
        for (name, account) in [("link", link), ("loopback", loopback)] {
            for (direction, lines) in [("sent", account.sent), ("received", account.received)] {
                let unexplained = lines[.unexplainedAtInterface] ?? 0
                self.compare("\(name), \(direction)", "unexplained", 0, unexplained)
            }
        }
    }

    // MARK: Processes

    /// A process that moved payload must have wire bytes.
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

    /// Payload that arrived over the link was in packets of processes, so wire bytes must not be less. Two equal zeros
    /// would not show packets that the daemon gave to no process. The check takes all processes together, because a
    /// process with a few bytes of a shared socket may have none of its packets.
    private mutating func requirePackets(_ direction: String, payload: Int64, wire: Int64) {
        guard wire < payload else { return }
        self.differences.append(
            Difference(
                subject: "wire of the processes, \(direction)",
                expected: "at least the \(payload) bytes of payload",
                actual: "\(wire)"
            )
        )
    }

    private mutating func compareOwners(
        _ direction: String,
        _ link: WireAudit.Lines,
        _ loopback: WireAudit.Lines,
        _ actual: Int64
    ) {
        let expected = (link[.wire] ?? 0) + (loopback[.wire] ?? 0)
        self.compare("processes, \(direction)", "by the interfaces' lines of sockets", expected, actual)
    }

    // MARK: Numbers

    private mutating func compare(
        _ subject: String,
        _ witness: String,
        _ expected: some FixedWidthInteger,
        _ actual: Int64
    ) {
        let expected = Int64(truncatingIfNeeded: expected)
        guard expected != actual else { return }
        self.misses[subject] = max(self.misses[subject] ?? 0, (expected - actual).magnitude)
        let hints = """
            near, before it was cut to the link: \(self.truth.handedOver); discovery: \(self.truth.discovery); \
            processes of no known namespace: \(self.nowhere)
            """
        self.differences.append(
            Difference(
                subject: "wire of the \(subject), \(witness)",
                expected: String(expected),
                actual: "\(actual) (\(hints))"
            )
        )
    }
}
