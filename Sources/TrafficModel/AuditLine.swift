/// The parts between the bytes of calls and an interface's counter, for one direction. Each line is a signed number of
/// bytes. The lines before a sum add up to that sum.
public enum AuditLine: String, Sendable, Codable, CaseIterable {
    // Lines from the calls to the payload of packets.

    /// What crossed the socket API.
    case payload
    /// For sockets that several processes used: what the other processes moved.
    case othersPayload = "others_payload"
    /// Bytes that TCP took from calls that have not returned.
    case pending
    /// Accepted and not handed to IP yet (below 0), or received and not read yet (above 0).
    case waiting
    /// The same bytes when the socket closed: never sent, or never read.
    case abandoned
    /// Sent again because no acknowledgement came (`tcp_sock.bytes_retrans`), or received again or out of order.
    case again
    /// Sent again because this host had dropped the first copy.
    case againAfterDrop = "again_after_drop"
    /// Handed to IP and dropped before an interface: by a firewall, or because there was no route.
    case dropped
    /// Where TCP's stream has other bytes than the calls: record headers and tags of the kernel's TLS, and bytes that a
    /// sockmap moved past TCP or past the process.
    case framing
    /// Datagrams that were held back (corked), dropped or copied. Also datagrams that no process has read, or for which
    /// there was no room.
    case datagrams
    /// For sockets older than the count of packets: what was on its way when the count began.
    case earlier
    /// Payload in the handshake. Below 0: connections got bytes in packets for their listener. Above 0: listeners got
    /// bytes for their connections, or from strangers who never connect.
    case handshakePayload = "handshake_payload"
    /// Urgent bytes that no process has read.
    case urgent
    /// Where wire bytes are an estimate, and TCP's own account is missing or partial: the difference.
    case estimated
    /// For sockets that were in use while they were read: their numbers are of different moments.
    case inUse = "in_use"
    /// The difference between calls, TCP and packets that has no reason. A defect.
    case unexplained

    // Lines from there to the sockets' wire bytes.

    case headers
    case acknowledgements
    /// Headers of packets with SYN, FIN or RST.
    case handshake
    /// For sockets that several processes used: the other processes' part of the packets.
    case othersWire = "others_wire"
    /// For sockets that closed without a record of their own (``FoldedRows``): what their packets had besides payload.
    case folded

    // Lines from there to the interfaces.

    /// Forwarded packets, TIME-WAIT, resets, ICMP: the row `kernel`.
    case noSocket = "no_socket"
    /// Headers of IP fragments beyond the headers of the whole packets.
    case fragments
    /// Handed to an interface and dropped in its queue.
    case queues
    /// Headers that segmentation offload adds below the interface, if the interface counts its aggregates.
    case offload
    /// Protocols other than IP, such as ARP.
    case otherProtocols = "other_protocols"
    case linkHeaders = "link_headers"
    /// Bytes that passed while the numbers were read, or bytes of sockets whose rows come with a later sweep
    /// (``FoldedRows``).
    case onItsWay = "on_its_way"
    /// How many bytes more, or fewer, the interface's own counter has. A defect.
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
    /// The line's index in ``allCases``. The compiler numbers cases without associated values in their order.
    package var position: Int { Int(unsafeBitCast(self, to: UInt8.self)) }
}

/// Bytes by line. Tallies can be added, so that the lines of a host are the sum of its sockets' lines.
public struct AuditTally: Hashable, Sendable, Codable {
    private struct Entry: Hashable, Codable {
        var line: AuditLine
        var bytes: Int64
    }

    /// In the order of lines, without entries of 0 bytes. A socket has three or four entries, and each socket that
    /// closes makes some. A dictionary would hash the line's name for each look-up.
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
public struct AuditTallies: Hashable, Sendable, Codable {
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
