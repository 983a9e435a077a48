/// What TCP itself counts of a socket's payload, over all connections of the socket. This witness does not depend on
/// calls or packets.
public struct TCPStream: Sendable, Hashable, Codable {
    /// Handed to IP, including retransmissions (`tcp_sock.bytes_sent`).
    public var sent: UInt64
    /// Received in sequence, once (`tcp_sock.bytes_received` without the FIN).
    public var received: UInt64
    /// Accepted from the process and not handed to IP: it waits, or TCP gave it up when the socket closed.
    public var unsent: UInt64
    /// Bytes that wait to be read, or that were never read when the socket closed.
    public var unread: UInt64
    /// The stream's length by its sequence numbers, modulo 2^32, if it can be known: the bytes that calls have sent or
    /// are about to send.
    public var sentLength: UInt32?
    /// Urgent bytes that the stream passed over and no process has read (RFC 9293 section 3.8.5). Below 0 while a
    /// process has read an urgent byte that the stream has not passed yet.
    public var urgent: Int64
    /// The part of `received` that came in the handshake, in packets for the listener (TCP Fast Open, RFC 7413).
    public var early: UInt64
    /// The socket was in use while this was read, so its numbers may be of different moments.
    public var isInUse: Bool
    /// The socket is older than the count of packets.
    public var isPartial: Bool
    /// The kernel uses the stream, too (kTLS, sockmap). So TCP has more bytes than the calls, or fewer.
    public var isFramed: Bool
    /// So many packets came for listeners that some of ``early`` may have been forgotten; `nil` means no.
    public var isEarlyUnknown: Bool?

    public init(
        sent: UInt64 = 0,
        received: UInt64 = 0,
        unsent: UInt64 = 0,
        unread: UInt64 = 0,
        sentLength: UInt32? = nil,
        urgent: Int64 = 0,
        early: UInt64 = 0,
        isInUse: Bool = false,
        isPartial: Bool = false,
        isFramed: Bool = false,
        isEarlyUnknown: Bool? = nil
    ) {
        self.sent = sent
        self.received = received
        self.unsent = unsent
        self.unread = unread
        self.sentLength = sentLength
        self.urgent = urgent
        self.early = early
        self.isInUse = isInUse
        self.isPartial = isPartial
        self.isFramed = isFramed
        self.isEarlyUnknown = isEarlyUnknown
    }
}
