import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

/// What cooperating programs claim of one socket's bytes.
struct SocketClaims: Codable {
    private struct Given: Codable {
        var bytes: UInt64 = 0
        var payload: UInt64 = 0
    }

    /// The ranges count against the allowance of this process: the first process that claimed any bytes.
    let holder: ProcessIdentity
    let user: PayingUser
    /// The socket is among ``SocketTable/late``.
    var isLate: Bool
    private var sent = Coverage()
    private var received = Coverage()
    /// What the connection moved besides messages, by the last such record.
    private var connection: Report.Connection?
    /// The bytes that are explained: never more than the socket's own count.
    private(set) var explained = PayloadBytes()
    /// How many of the socket's wire bytes messages were given, and for how much payload.
    private var wireGiven = Given()

    init(of socket: ClaimedSocket, by sender: ReportSender) {
        (self.holder, self.user, self.isLate) = (sender.identity, sender.user, socket.isLate)
    }

    /// The direction has so few ranges that the limits for a process with and without an allowance do the same.
    func isSmall(isSent: Bool) -> Bool {
        (isSent ? self.sent.rangeCount : self.received.rangeCount) < Coverage.fewestRanges
    }

    var rangeCount: Int { self.sent.rangeCount + self.received.rangeCount }

    /// The part of the socket's wire bytes that goes with so much payload. The part is a proportion of the wire bytes
    /// that no message was given yet. So the parts never add up to more than the whole, and a handshake's bytes do not
    /// count in every message that follows.
    ///
    /// - Parameters:
    ///   - wire: All wire bytes of the socket's packets.
    ///   - payload: All payload that the socket has moved, both ways.
    private mutating func giveWire(for bytes: UInt64, of wire: UInt64, payload: UInt64) -> UInt64 {
        let (left, whole) = (wire - min(wire, self.wireGiven.bytes), payload - min(payload, self.wireGiven.payload))
        guard whole > 0 else { return 0 }
        let (part, _) = whole.dividingFullWidth(left.multipliedFullWidth(by: min(bytes, whole)))
        self.wireGiven.bytes += part
        self.wireGiven.payload += min(bytes, whole)
        return part
    }

    /// - Parameters:
    ///   - payload: All payload that the socket has moved.
    ///   - wire: All wire bytes of the socket's packets.
    ///   - limit: As in ``Coverage/claim(_:limit:)``.
    /// - Returns: How many more bytes are explained than before, and the wire bytes that go with them.
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

    /// Takes what a connection has moved besides messages.
    ///
    /// - Returns: How many more bytes are explained than before.
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

/// The part of a socket that a claim is checked against.
struct ClaimedSocket: Codable {
    var serial: UInt64
    var payload: PayloadBytes
    var wireBytes: UInt64
    var preexisting: Bool
    var connect: ConnectTimes?
    /// It is among ``SocketTable/late``.
    var isLate: Bool

    init(_ account: SocketAccount, isLate: Bool = false) {
        let bytes = account.bytes
        self.serial = account.observation.serial
        self.payload = bytes.payload
        self.wireBytes = (bytes.wireSent ?? 0) &+ (bytes.wireReceived ?? 0)
        self.preexisting = account.observation.preexisting
        self.connect = account.observation.connect
        self.isLate = isLate
    }
}

/// How many ranges of bytes claims have left on sockets. Sockets that are no longer listed have an allowance of their
/// own, so that the many closed sockets of a busy server take nothing from its open ones.
struct ClaimedRanges: Codable {
    private(set) var listed = Budget<ProcessIdentity>()
    private(set) var late = Budget<ProcessIdentity>()

    func hasRoom(for claims: SocketClaims) -> Bool {
        claims.isLate
            ? self.late.hasRoom(of: claims.holder, claims.user, within: ReportLimits.lateRanges)
            : self.listed.hasRoom(of: claims.holder, claims.user, within: ReportLimits.claimedRanges)
    }

    /// - Parameter count: A negative count gives back.
    mutating func add(_ count: Int, of claims: SocketClaims) {
        if claims.isLate {
            self.late.add(count, of: claims.holder, claims.user)
        } else {
            self.listed.add(count, of: claims.holder, claims.user)
        }
    }

    /// The socket leaves the list.
    ///
    /// - Returns: `false` if there is no room for the ranges of its claims.
    mutating func leaveList(_ claims: inout SocketClaims) -> Bool {
        let count = claims.rangeCount
        guard self.late.take(count, of: claims.holder, claims.user, within: ReportLimits.lateRanges) else {
            return false
        }
        self.listed.add(-count, of: claims.holder, claims.user)
        claims.isLate = true
        return true
    }

    /// The socket is listed again.
    mutating func returnToList(_ claims: inout SocketClaims) {
        self.add(-claims.rangeCount, of: claims)
        claims.isLate = false
        self.add(claims.rangeCount, of: claims)
    }
}
