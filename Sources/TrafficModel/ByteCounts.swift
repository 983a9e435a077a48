/// Payload bytes: what crossed the socket API, both ways. Cumulative.
public struct PayloadBytes: Hashable, Sendable, Codable {
    /// Bytes that the socket accepted from the process: positive return values of send-type calls.
    public var sent: UInt64
    /// Bytes delivered to the process, counted once: peeking and the error queue add nothing.
    public var received: UInt64

    public init(sent: UInt64 = 0, received: UInt64 = 0) {
        self.sent = sent
        self.received = received
    }

    package enum CodingKeys: String, CodingKey {
        case sent = "payload_sent_bytes"
        case received = "payload_received_bytes"
    }

    /// At most what 64 bits hold.
    public var total: UInt64 { self.sent +| self.received }

    public static func + (left: PayloadBytes, right: PayloadBytes) -> PayloadBytes {
        PayloadBytes(sent: left.sent +| right.sent, received: left.received +| right.received)
    }

    public static func += (left: inout PayloadBytes, right: PayloadBytes) {
        left = left + right
    }

    /// What was added since `earlier`; a counter that is behind (a record read late) has added nothing.
    public func growth(since earlier: PayloadBytes) -> PayloadBytes {
        PayloadBytes(sent: self.sent -| earlier.sent, received: self.received -| earlier.received)
    }

    /// Whether it is lower than `earlier` in any direction.
    public func isBehind(_ earlier: PayloadBytes) -> Bool {
        self.sent < earlier.sent || self.received < earlier.received
    }

    /// The payload that no report explains. If several processes share a socket, one process may explain what another
    /// process has sent.
    package func unattributed(explained: UInt64) -> UInt64 { self.total -| explained }

    /// The larger number in each direction. This joins cumulative counters that were read twice, in any order.
    public func merged(with other: PayloadBytes) -> PayloadBytes {
        PayloadBytes(sent: max(self.sent, other.sent), received: max(self.received, other.received))
    }
}

/// The byte fields that processes, sockets and totals share. `nil` means unknown, 0 means zero.
public struct ByteCounts: Hashable, Sendable {
    public var payload: PayloadBytes
    /// Bytes that TCP already took from calls that are not counted yet: a long blocking `send`, or a call for which the
    /// kernel skipped our program. A gauge: these bytes become payload sent when the call returns, at the latest when
    /// the socket closes. For a process: only the bytes of sockets that no other process has used.
    public var pendingSent: UInt64
    /// Lengths of IP packets, including IP and transport headers and retransmissions, without link headers.
    public var wireSent: UInt64?
    public var wireReceived: UInt64?
    /// The part of the wire bytes, both ways, that was counted while the quality of their socket was
    /// ``Quality/estimated``.
    public var wireEstimated: UInt64
    /// Bytes that TCP sent again (`tcp_sock.bytes_retrans`). Part of the wire bytes, never of the payload.
    public var retransmitted: UInt64?

    public init(
        payload: PayloadBytes = PayloadBytes(),
        pendingSent: UInt64 = 0,
        wireSent: UInt64? = nil,
        wireReceived: UInt64? = nil,
        wireEstimated: UInt64 = 0,
        retransmitted: UInt64? = nil
    ) {
        self.payload = payload
        self.pendingSent = pendingSent
        self.wireSent = wireSent
        self.wireReceived = wireReceived
        self.wireEstimated = wireEstimated
        self.retransmitted = retransmitted
    }

    public static func + (left: ByteCounts, right: ByteCounts) -> ByteCounts {
        ByteCounts(
            payload: left.payload + right.payload,
            pendingSent: left.pendingSent +| right.pendingSent,
            wireSent: sum(left.wireSent, right.wireSent),
            wireReceived: sum(left.wireReceived, right.wireReceived),
            wireEstimated: left.wireEstimated +| right.wireEstimated,
            retransmitted: sum(left.retransmitted, right.retransmitted)
        )
    }

    public static func += (left: inout ByteCounts, right: ByteCounts) {
        left = left + right
    }

    /// Adds to the wire bytes. From then on, the wire bytes are known.
    public mutating func add(wire: WireTotals) {
        self.wireSent = (self.wireSent ?? 0) +| wire.sent
        self.wireReceived = (self.wireReceived ?? 0) +| wire.received
        self.wireEstimated +|= wire.estimated
    }

    /// These bytes without pending ones, which are a gauge.
    public var settled: ByteCounts {
        var settled = self
        settled.pendingSent = 0
        return settled
    }

    /// What was added since `earlier`, without pending bytes. A counter that is behind has added nothing.
    public func growth(since earlier: ByteCounts) -> ByteCounts {
        func growth(_ now: UInt64?, _ earlier: UInt64?) -> UInt64? { now.map { $0 -| (earlier ?? 0) } }
        return ByteCounts(
            payload: self.payload.growth(since: earlier.payload),
            wireSent: growth(self.wireSent, earlier.wireSent),
            wireReceived: growth(self.wireReceived, earlier.wireReceived),
            wireEstimated: self.wireEstimated -| earlier.wireEstimated,
            retransmitted: growth(self.retransmitted, earlier.retransmitted)
        )
    }

    /// Takes wire bytes out that count elsewhere from now on.
    package mutating func remove(wire: WireTotals) {
        self.wireSent = self.wireSent.map { $0 -| wire.sent }
        self.wireReceived = self.wireReceived.map { $0 -| wire.received }
        self.wireEstimated = self.wireEstimated -| wire.estimated
    }

    /// What has crossed the socket API so far, including calls that have not returned. A person who watches wants to
    /// see this.
    public var payloadSoFar: PayloadBytes { self.payload + PayloadBytes(sent: self.pendingSent) }

    private static func sum(_ left: UInt64?, _ right: UInt64?) -> UInt64? {
        guard let left else { return right }
        return left +| (right ?? 0)
    }
}

extension ByteCounts: Codable {
    package enum CodingKeys: String, CodingKey {
        case pendingSent = "pending_sent_bytes"
        case wireSent = "wire_sent_bytes"
        case wireReceived = "wire_received_bytes"
        case wireEstimated = "wire_estimated_bytes"
        case retransmitted = "retransmitted_bytes"
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            payload: try PayloadBytes(from: decoder),
            pendingSent: try container.decode(UInt64.self, forKey: .pendingSent),
            wireSent: try container.decodeIfPresent(UInt64.self, forKey: .wireSent),
            wireReceived: try container.decodeIfPresent(UInt64.self, forKey: .wireReceived),
            wireEstimated: try container.decodeIfPresent(UInt64.self, forKey: .wireEstimated) ?? 0,
            retransmitted: try container.decodeIfPresent(UInt64.self, forKey: .retransmitted)
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try self.payload.encode(to: encoder)
        try container.encode(self.pendingSent, forKey: .pendingSent)
        try container.encodeIfPresent(self.wireSent, forKey: .wireSent)
        try container.encodeIfPresent(self.wireReceived, forKey: .wireReceived)
        if self.wireEstimated > 0 { try container.encode(self.wireEstimated, forKey: .wireEstimated) }
        try container.encodeIfPresent(self.retransmitted, forKey: .retransmitted)
    }
}

/// Bytes per second over the time between the last two ticks.
public struct PayloadRates: Hashable, Sendable, Codable {
    public var sent: Double
    public var received: Double

    public init(sent: Double = 0, received: Double = 0) {
        self.sent = sent
        self.received = received
    }

    public var total: Double { self.sent + self.received }

    /// - Parameter seconds: The time between the two samples. 0 or less (a clock that stood still) gives rate 0.
    public init(growth: PayloadBytes, seconds: Double) {
        guard seconds > 0 else {
            self.init()
            return
        }
        self.init(
            sent: (Double(growth.sent) / seconds).rounded(),
            received: (Double(growth.received) / seconds).rounded()
        )
    }

    package enum CodingKeys: String, CodingKey {
        case sent = "payload_sent_bytes_per_second"
        case received = "payload_received_bytes_per_second"
    }
}
