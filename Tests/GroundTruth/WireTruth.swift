/// IP packets out of and into each side of a ``NetworkLab`` between two readings of its counters, over the veth and over loopback.
/// In bytes with IP headers, without link headers.
public struct WireTruth: Equatable, Sendable {
    /// What passed one side.
    public struct Flow: Equatable, Sendable {
        public var sent: UInt64
        public var received: UInt64

        public init(sent: UInt64, received: UInt64) {
            self.sent = sent
            self.received = received
        }

        public var total: UInt64 { self.sent + self.received }

        public static func + (left: Flow, right: Flow) -> Flow {
            Flow(sent: left.sent + right.sent, received: left.received + right.received)
        }
    }

    public var near: Flow
    public var peer: Flow
    /// What the kernels told each other over the veth: neighbour discovery, multicast listener reports. Explains a difference.
    public var discovery: UInt64
    /// What was handed to the near interface before a packet was cut to what fits the link. Explains a difference.
    public var handedOver: UInt64
    /// A third namespace between the sides forwards every packet.
    public var isBridged: Bool
    /// Where packet filter and interface disagree, no comparison with either means anything.
    public var disagreements: [Difference] = []

    /// - Parameter isBridged: See ``isBridged``. The near interface counts an aggregate as one packet then.
    public init(from earlier: LabCounters, to later: LabCounters, isBridged: Bool = false) {
        let atPeer = later.atPeer.ip - earlier.atPeer.ip
        let atNear = later.atNear.ip - earlier.atNear.ip
        self.near = Flow(sent: atPeer, received: atNear) + Self.flow(earlier.loopback, later.loopback)
        self.peer = Flow(sent: atNear, received: atPeer) + Self.flow(earlier.peerLoopback, later.peerLoopback)
        self.discovery =
            later.atPeer.discovery - earlier.atPeer.discovery + later.atNear.discovery - earlier.atNear.discovery
        self.handedOver = later.handedOver - earlier.handedOver
        self.isBridged = isBridged
        self.agree("packets dropped by the near interface", filter: earlier.veth.dropped, later.veth.dropped)
        guard !isBridged else { return }
        let headers = LabCounters.linkHeaderBytes
        self.agree(
            "bytes sent by the near interface, with ARP and link headers",
            filter: atPeer + headers * (later.veth.sentPackets - earlier.veth.sentPackets)
                + (later.atPeer.other - earlier.atPeer.other),
            later.veth.sentBytes - earlier.veth.sentBytes
        )
        self.agree(
            "bytes received by the near interface, with ARP and link headers",
            filter: atNear + headers * (later.veth.receivedPackets - earlier.veth.receivedPackets)
                + (later.atNear.other - earlier.atNear.other),
            later.veth.receivedBytes - earlier.veth.receivedBytes
        )
    }

    private static func flow(_ earlier: LabCounters.Interface, _ later: LabCounters.Interface) -> Flow {
        Flow(sent: later.sentBytes - earlier.sentBytes, received: later.receivedBytes - earlier.receivedBytes)
    }

    private mutating func agree(_ subject: String, filter: UInt64, _ interface: UInt64) {
        guard filter != interface else { return }
        self.disagreements.append(
            Difference(subject: "[lab] \(subject)", expected: String(filter), actual: String(interface))
        )
    }
}
