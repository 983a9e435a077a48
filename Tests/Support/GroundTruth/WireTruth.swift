/// IP packets out of and into the near side of a ``NetworkLab`` between two readings of its counters, in bytes with
/// IP headers, without link headers.
public struct WireTruth: Equatable, Sendable {
    /// What passed one interface.
    public struct Flow: Equatable, Sendable {
        public var sent: UInt64
        public var received: UInt64

        public init(sent: UInt64 = 0, received: UInt64 = 0) {
            self.sent = sent
            self.received = received
        }

        public var total: UInt64 { self.sent + self.received }
    }

    /// Over the link, as the packet filter at the other end saw the packets come out: as they are on the wire.
    public var link: Flow
    /// The same by the near interface's own counters, which count an aggregate that is sent as one packet.
    public var atInterface: Flow
    public var loopback: Flow
    /// The near interface's counters as they are, with ARP and link headers.
    public var counter: Flow
    /// What the kernels sent each other over the link: neighbour discovery, multicast listener reports. Explains a
    /// difference.
    public var discovery: UInt64
    /// Bytes handed to the near interface before packets were cut to the size of the link. Explains a difference.
    public var handedOver: UInt64
    /// Where the packet filter and the interface disagree. A comparison with either of them then means nothing.
    public var disagreements: [Difference] = []

    public var total: UInt64 { self.link.total + self.loopback.total }

    /// - Parameter aggregates: The near interface has offloads, so the interface and the packet filter see other
    ///   packets.
    public init(from earlier: LabCounters, to later: LabCounters, aggregates: Bool = false) {
        self.link = Flow(
            sent: later.atPeer.ip - earlier.atPeer.ip,
            received: later.atNear.ip - earlier.atNear.ip
        )
        self.counter = Self.flow(earlier.veth, later.veth)
        self.loopback = Self.flow(earlier.loopback, later.loopback)
        let headers = LabCounters.linkHeaderBytes
        let beside = Flow(
            sent: headers * (later.veth.sentPackets - earlier.veth.sentPackets)
                + (later.atPeer.other - earlier.atPeer.other),
            // A veth that aggregates counts packets as it takes them from its ring, without link headers and before it
            // aggregates.
            received: (aggregates ? 0 : headers) * (later.veth.receivedPackets - earlier.veth.receivedPackets)
                + (later.atNear.other - earlier.atNear.other)
        )
        // These subtractions wrap, so that an impossible number shows as a difference and does not end the run.
        self.atInterface = Flow(
            sent: self.counter.sent &- beside.sent,
            received: self.counter.received &- beside.received
        )
        self.discovery =
            later.atPeer.discovery - earlier.atPeer.discovery + later.atNear.discovery - earlier.atNear.discovery
        self.handedOver = later.handedOver - earlier.handedOver
        self.agree("packets dropped at the near interface", earlier.veth.dropped, later.veth.dropped)
        self.agree("bytes received by the near interface", self.link.received, self.atInterface.received)
        if !aggregates { self.agree("bytes sent by the near interface", self.link.sent, self.atInterface.sent) }
    }

    private static func flow(_ earlier: LabCounters.Interface, _ later: LabCounters.Interface) -> Flow {
        Flow(sent: later.sentBytes - earlier.sentBytes, received: later.receivedBytes - earlier.receivedBytes)
    }

    private mutating func agree(_ subject: String, _ filter: UInt64, _ interface: UInt64) {
        guard filter != interface else { return }
        self.disagreements.append(
            Difference(subject: "[lab] \(subject)", expected: String(filter), actual: String(interface))
        )
    }
}
