import TrafficModel
import TrafficReport

/// What cooperating programs say of one socket's bytes.
struct SocketClaims {
    /// Whose allowance its ranges are of: the first process that claimed any.
    let holder: ProcessIdentity
    let user: UInt32
    private var sent = Coverage()
    private var received = Coverage()
    /// Beside messages, the last word.
    private var connection: Report.Connection?
    /// What was borne out by the socket's own count: never more than that.
    private(set) var explained = PayloadBytes()
    /// Of the socket's wire bytes, what messages were given, and for how much payload.
    private var wireGiven: (bytes: UInt64, payload: UInt64) = (0, 0)

    init(holder: ProcessIdentity, user: UInt32) {
        (self.holder, self.user) = (holder, user)
    }

    var rangeCount: Int { self.sent.rangeCount + self.received.rangeCount }

    /// What of the socket's wire bytes goes with so much payload: of those that no message was given, in proportion. So the parts never
    /// come to more than the whole, and a handshake's bytes are not counted into every message that follows.
    ///
    /// - Parameters:
    ///   - wire: All that the socket's packets came to.
    ///   - payload: All that it has moved, both ways.
    private mutating func giveWire(for bytes: UInt64, of wire: UInt64, payload: UInt64) -> UInt64 {
        let (left, whole) = (wire - min(wire, self.wireGiven.bytes), payload - min(payload, self.wireGiven.payload))
        guard whole > 0 else { return 0 }
        let (part, _) = whole.dividingFullWidth(left.multipliedFullWidth(by: min(bytes, whole)))
        self.wireGiven = (self.wireGiven.bytes + part, self.wireGiven.payload + min(bytes, whole))
        return part
    }

    /// - Parameters:
    ///   - payload: All that the socket has moved.
    ///   - wire: All that its packets came to.
    ///   - limit: As ``Coverage/claim(_:limit:)`` has it.
    /// - Returns: How much more is explained than before, and what of the wire bytes goes with it.
    mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of payload: PayloadBytes,
        wire: UInt64,
        limit: Int
    ) -> (verdict: Coverage.Verdict, growth: PayloadBytes, wire: UInt64) {
        let verdict = isSent ? self.sent.claim(interval, limit: limit) : self.received.claim(interval, limit: limit)
        guard verdict == .accepted else { return (verdict, PayloadBytes(), 0) }
        let bytes = PayloadBytes(sent: isSent ? interval.bytes : 0, received: isSent ? 0 : interval.bytes)
        let growth = self.explain(bytes, of: payload)
        return (verdict, growth, self.giveWire(for: interval.bytes, of: wire, payload: payload.total))
    }

    /// Takes what a connection has moved beside messages.
    ///
    /// - Returns: How much more is explained than before.
    mutating func claim(_ connection: Report.Connection, of payload: PayloadBytes) -> PayloadBytes {
        let news = PayloadBytes(sent: connection.sent.total, received: connection.received.total)
        let known = PayloadBytes(
            sent: self.connection?.sent.total ?? 0,
            received: self.connection?.received.total ?? 0
        )
        guard !news.isBehind(known) else { return PayloadBytes() }
        self.connection = connection
        return self.explain(news.growth(since: known), of: payload)
    }

    private mutating func explain(_ bytes: PayloadBytes, of payload: PayloadBytes) -> PayloadBytes {
        let room = payload.growth(since: self.explained)
        let growth = PayloadBytes(sent: min(bytes.sent, room.sent), received: min(bytes.received, room.received))
        self.explained += growth
        return growth
    }
}

extension Report.Connection.Remainder {
    var total: UInt64 { self.tls &+ self.framing &+ self.opaque &+ self.excluded }
}
