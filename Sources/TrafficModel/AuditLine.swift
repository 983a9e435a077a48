/// What the way from the bytes of calls to an interface's counter is made of, one direction at a time. Each is a signed number of bytes;
/// the lines up to a sum add up to it.
public enum AuditLine: String, Sendable, Codable, CaseIterable {
    // From the calls to what packets carry.

    /// What crossed the socket API.
    case payload
    /// Of sockets that several processes used: what the others moved.
    case othersPayload = "others_payload"
    /// Taken by TCP from calls that have not returned.
    case pending
    /// Accepted and not handed to IP yet (less), or received and not read yet (more).
    case waiting
    /// The same, when the socket closed: never sent, or never read.
    case abandoned
    /// Sent again for want of an acknowledgement (`tcp_sock.bytes_retrans`), or received again or out of order.
    case again
    /// Sent again because this host had dropped it.
    case againAfterDrop = "again_after_drop"
    /// Handed to IP and dropped before an interface: by a firewall, or for want of a route.
    case dropped
    /// Where TCP's stream is not the calls' alone: record headers and tags of the kernel's TLS, what a sockmap moved past TCP or past the
    /// process.
    case framing
    /// Datagrams that were held back (corked), dropped or copied; datagrams that nobody has read, or for which there was no room.
    case datagrams
    /// Sockets older than the count of packets: what was on its way when it began.
    case earlier
    /// Payload in the handshake: what connections got in packets for their listener (less), and listeners for their connections (more), or
    /// from strangers who never connect.
    case handshakePayload = "handshake_payload"
    /// Urgent bytes that nobody has read.
    case urgent
    /// Packets are not seen: what the estimate adds.
    case estimated
    /// Sockets that were in use while they were read: their numbers are of different moments.
    case inUse = "in_use"
    /// What calls, TCP and packets disagree about. A defect.
    case unexplained

    // To the sockets' wire bytes.

    case headers
    case acknowledgements
    /// Headers of packets with SYN, FIN or RST.
    case handshake
    /// Of sockets that several processes used: the others' part of the packets.
    case othersWire = "others_wire"
    /// What the packets of sockets had beyond their payload that closed without a record of their own (``FoldedRows``).
    case folded

    // To the interfaces.

    /// Forwarded packets, TIME-WAIT, resets, ICMP: the row `kernel`.
    case noSocket = "no_socket"
    /// Headers of IP fragments beyond those that the whole packets had.
    case fragments
    /// Handed to an interface and dropped in its queue.
    case queues
    /// Headers that segmentation offload adds below the interface, where the interface counts its aggregates.
    case offload
    /// Protocols other than IP, such as ARP.
    case otherProtocols = "other_protocols"
    case linkHeaders = "link_headers"
    /// Passed while the numbers were read, or of sockets whose rows come with a later sweep (``FoldedRows``).
    case onItsWay = "on_its_way"
    /// What the interface's own counter has more, or less. A defect.
    case unexplainedAtInterface = "unexplained_at_interface"

    // Sums.

    case wirePayload = "wire_payload"
    case wire
    case interfaceWire = "interface_wire"
    case interfaceCounter = "interface_counter"

    public var isSum: Bool {
        switch self {
        case .wirePayload, .wire, .interfaceWire, .interfaceCounter: true
        default: false
        }
    }
}

extension AuditLine {
    /// Its place in ``allCases``: the compiler numbers cases that carry nothing in their order.
    package var position: Int { Int(unsafeBitCast(self, to: UInt8.self)) }
}

/// Bytes by line. Additive, so that a host's lines are its sockets'.
public struct AuditTally: Hashable, Sendable {
    private struct Entry: Hashable {
        var line: AuditLine
        var bytes: Int64
    }

    /// In the order of lines, none of 0 bytes. A socket has three or four, and each that closes makes some: a dictionary would hash the line's
    /// name for each look.
    private var entries: [Entry] = []

    public init() {}

    public subscript(_ line: AuditLine) -> Int64 {
        get { self.entries.first { $0.line == line }?.bytes ?? 0 }
        set {
            let index = self.entries.firstIndex { $0.line.position >= line.position } ?? self.entries.endIndex
            let isThere = index < self.entries.endIndex && self.entries[index].line == line
            switch (isThere, newValue) {
            case (true, 0): self.entries.remove(at: index)
            case (true, _): self.entries[index].bytes = newValue
            case (false, 0): break
            case (false, _): self.entries.insert(Entry(line: line, bytes: newValue), at: index)
            }
        }
    }

    public mutating func merge(_ lines: [(AuditLine, Int64)]) {
        for (line, bytes) in lines { self[line] +|= bytes }
    }

    public static func += (left: inout AuditTally, right: AuditTally) {
        for entry in right.entries { left[entry.line] +|= entry.bytes }
    }
}

/// Both directions of an ``AuditTally``.
public struct AuditTallies: Hashable, Sendable {
    public var sent = AuditTally()
    public var received = AuditTally()

    public init() {}

    /// Whether a socket's witnesses disagree.
    public var isDisputed: Bool { self.sent[.unexplained] != 0 || self.received[.unexplained] != 0 }

    public static func += (left: inout AuditTallies, right: AuditTallies) {
        left.sent += right.sent
        left.received += right.received
    }
}
