/// IP packets out of and into the near side of a ``Lab`` between two readings of its counters, over the veth and over
/// loopback. In bytes with IP headers, without link headers.
public struct WireTruth: Equatable, Sendable {
    public var sent: UInt64
    public var received: UInt64
    /// Of both, what the kernel sent and received for itself: neighbour discovery, multicast listener reports.
    public var discovery: UInt64
    /// What was handed to the near interface before a packet was cut to what fits the link; explains a difference.
    public var handedOver: UInt64
    /// Where packet filter and interface disagree, no comparison with either means anything.
    public var disagreements: [Difference] = []

    /// - Parameter aggregates: The near interface takes and gives packets larger than the link's, and counts them as one.
    public init(from earlier: LabCounters, to later: LabCounters, aggregates: Bool = false) {
        let loopbackSent = later.loopback.sentBytes - earlier.loopback.sentBytes
        let loopbackReceived = later.loopback.receivedBytes - earlier.loopback.receivedBytes
        let atPeer = later.atPeer.ip - earlier.atPeer.ip
        let atNear = later.atNear.ip - earlier.atNear.ip
        self.sent = atPeer + loopbackSent
        self.received = atNear + loopbackReceived
        self.discovery =
            later.atPeer.discovery - earlier.atPeer.discovery + later.atNear.discovery - earlier.atNear.discovery
        self.handedOver = later.handedOver - earlier.handedOver + loopbackSent
        guard !aggregates else { return }
        self.agree(
            "the near interface's sent bytes",
            filter: atPeer + later.atPeer.other - earlier.atPeer.other,
            interface: Self.withoutLinkHeaders(
                bytes: later.veth.sentBytes - earlier.veth.sentBytes,
                packets: later.veth.sentPackets - earlier.veth.sentPackets
            )
        )
        self.agree(
            "the near interface's received bytes",
            filter: atNear + later.atNear.other - earlier.atNear.other,
            interface: Self.withoutLinkHeaders(
                bytes: later.veth.receivedBytes - earlier.veth.receivedBytes,
                packets: later.veth.receivedPackets - earlier.veth.receivedPackets
            )
        )
        self.agree("packets dropped by the near interface", filter: earlier.veth.dropped, interface: later.veth.dropped)
    }

    private static func withoutLinkHeaders(bytes: UInt64, packets: UInt64) -> Int64 {
        Int64(bytes) - Int64(packets * LabCounters.linkHeaderBytes)
    }

    private mutating func agree(_ subject: String, filter: UInt64, interface: UInt64) {
        self.agree(subject, filter: filter, interface: Int64(interface))
    }

    private mutating func agree(_ subject: String, filter: UInt64, interface: Int64) {
        guard Int64(filter) != interface else { return }
        self.disagreements.append(
            Difference(subject: "[lab] \(subject)", expected: String(filter), actual: String(interface))
        )
    }
}
