/// What the interfaces of the host have counted themselves since the count began.
///
/// These are the kernel's own counters: they do not depend on how trafficd counts, have what passed without a daemon, and
/// have the link headers that no socket has.
public struct InterfaceTotals: Sendable, Hashable, Codable {
    public var lives: [InterfaceLife]
    /// Of interfaces that are gone and no longer in ``lives``. Never falls.
    public var endedLives: InterfaceCounts

    public init(lives: [InterfaceLife] = [], endedLives: InterfaceCounts = InterfaceCounts()) {
        (self.lives, self.endedLives) = (lives, endedLives)
    }

    /// The name of the row in which everything beyond a limit adds up.
    package static let other = EndpointUsage.other

    /// By name, without interfaces that counted nothing. What an interface counted that left the list meanwhile is in the
    /// row `_other`.
    package func growth(since earlier: InterfaceTotals) -> [String: InterfaceCounts] {
        var growth: [String: InterfaceCounts] = [:]
        var before = Dictionary(earlier.lives.map { ($0.number, $0.counts) }) { first, _ in first }
        for life in self.lives {
            let counts = life.counts.growth(since: before.removeValue(forKey: life.number) ?? InterfaceCounts())
            if counts != InterfaceCounts() { growth[life.name, default: InterfaceCounts()] += counts }
        }
        var ended = earlier.endedLives
        for counts in before.values { ended += counts }
        let counts = self.endedLives.growth(since: ended)
        if counts != InterfaceCounts() { growth[Self.other, default: InterfaceCounts()] += counts }
        return growth
    }
}

/// An interface from its first round until it is forgotten.
public struct InterfaceLife: Sendable, Hashable, Codable {
    /// The present one. An interface may get another.
    public var name: String
    /// Unique among all lives of all interfaces.
    public var number: UInt64
    public var counts: InterfaceCounts

    public init(name: String, number: UInt64, counts: InterfaceCounts) {
        (self.name, self.number, self.counts) = (name, number, counts)
    }
}

/// What an interface counts. With link headers.
public struct InterfaceCounts: Sendable, Codable, Hashable {
    public var sentBytes: UInt64
    public var receivedBytes: UInt64
    /// A virtual interface counts an aggregate of segmentation offload as one packet.
    public var sentPackets: UInt64
    public var receivedPackets: UInt64

    public init(
        sentBytes: UInt64 = 0,
        receivedBytes: UInt64 = 0,
        sentPackets: UInt64 = 0,
        receivedPackets: UInt64 = 0
    ) {
        (self.sentBytes, self.receivedBytes) = (sentBytes, receivedBytes)
        (self.sentPackets, self.receivedPackets) = (sentPackets, receivedPackets)
    }

    package init(_ usage: InterfaceUsage) {
        self.init(
            sentBytes: usage.sentBytes,
            receivedBytes: usage.receivedBytes,
            sentPackets: usage.sentPackets ?? 0,
            receivedPackets: usage.receivedPackets ?? 0
        )
    }

    package enum CodingKeys: String, CodingKey {
        case sentBytes = "sent_bytes"
        case receivedBytes = "received_bytes"
        case sentPackets = "sent_packets"
        case receivedPackets = "received_packets"
    }

    package static func += (left: inout Self, right: Self) { left = left.combined(with: right, +|) }

    /// What was added since `earlier`; a counter that is behind has added nothing.
    package func growth(since earlier: Self) -> Self { self.combined(with: earlier, -|) }

    private func combined(with other: Self, _ combine: (UInt64, UInt64) -> UInt64) -> Self {
        Self(
            sentBytes: combine(self.sentBytes, other.sentBytes),
            receivedBytes: combine(self.receivedBytes, other.receivedBytes),
            sentPackets: combine(self.sentPackets, other.sentPackets),
            receivedPackets: combine(self.receivedPackets, other.receivedPackets)
        )
    }
}
