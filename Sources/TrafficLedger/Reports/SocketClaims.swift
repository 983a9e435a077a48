import TrafficModel
import TrafficReport

/// What cooperating programs say of one socket's bytes.
struct SocketClaims {
    private var sent = Coverage()
    private var received = Coverage()
    /// Beside messages, the last word.
    private var connection: Report.Connection?
    /// What was borne out by the socket's own count: never more than that.
    private(set) var explained = PayloadBytes()

    /// - Parameter payload: All that the socket has moved.
    /// - Returns: How much more is explained than before.
    mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of payload: PayloadBytes
    ) -> (verdict: Coverage.Verdict, growth: PayloadBytes) {
        let verdict = isSent ? self.sent.claim(interval) : self.received.claim(interval)
        guard verdict == .accepted else { return (verdict, PayloadBytes()) }
        let bytes = PayloadBytes(sent: isSent ? interval.bytes : 0, received: isSent ? 0 : interval.bytes)
        return (verdict, self.explain(bytes, of: payload))
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
