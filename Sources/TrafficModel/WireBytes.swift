/// IP packets of one direction, by what they carry. Cumulative. Lengths include IP and transport headers and
/// retransmissions, and no link headers. An aggregate of segmentation offload counts as what its packets take on the
/// wire.
public struct WireBytes: Hashable, Sendable, Codable {
    /// What the transport protocol carried.
    public var payload: UInt64
    /// IP and transport headers of packets with payload. Where packets are not seen: of all packets.
    public var headers: UInt64
    /// Packets without payload: acknowledgements, window updates, probes.
    public var bare: UInt64
    /// Headers of packets with SYN, FIN or RST.
    public var control: UInt64

    public init(payload: UInt64 = 0, headers: UInt64 = 0, bare: UInt64 = 0, control: UInt64 = 0) {
        self.payload = payload
        self.headers = headers
        self.bare = bare
        self.control = control
    }

    public var total: UInt64 { self.payload +| self.headers +| self.bare +| self.control }

    package enum CodingKeys: String, CodingKey {
        case payload = "payload_bytes"
        case headers = "header_bytes"
        case bare = "bare_bytes"
        case control = "control_bytes"
    }

    public static func + (left: WireBytes, right: WireBytes) -> WireBytes {
        left.combined(with: right, +|)
    }

    /// What was added since `earlier`; a counter that is behind has added nothing.
    public func growth(since earlier: WireBytes) -> WireBytes {
        self.combined(with: earlier, -|)
    }

    private func combined(with other: WireBytes, _ combine: (UInt64, UInt64) -> UInt64) -> WireBytes {
        WireBytes(
            payload: combine(self.payload, other.payload),
            headers: combine(self.headers, other.headers),
            bare: combine(self.bare, other.bare),
            control: combine(self.control, other.control)
        )
    }
}

/// How well a number is known.
public enum Quality: String, Sendable, Codable, CaseIterable {
    /// Every call or packet was seen.
    case exact
    /// Computed from other counts, and nothing was seen that makes the result differ from the packets: no packet was lost
    /// or sent again, and all had the usual headers (`bpf/derive.bpf.h`).
    case derived
    /// Computed from other counts, such as TCP's counts of bytes and segments, where that may be off.
    case estimated
}

/// A socket's packets, both ways.
public struct SocketWire: Hashable, Sendable, Codable {
    public var sent: WireBytes
    public var received: WireBytes
    public var quality: Quality

    public init(sent: WireBytes = WireBytes(), received: WireBytes = WireBytes(), quality: Quality = .exact) {
        self.sent = sent
        self.received = received
        self.quality = quality
    }

    public var total: WireTotals {
        let (sent, received) = (self.sent.total, self.received.total)
        return WireTotals(sent: sent, received: received, estimated: self.quality == .estimated ? sent +| received : 0)
    }
}

/// Wire bytes both ways. Cumulative.
public struct WireTotals: Hashable, Sendable, Codable {
    public var sent: UInt64
    public var received: UInt64
    /// The part of both that was counted while the quality was ``Quality/estimated``.
    public var estimated: UInt64

    public init(sent: UInt64 = 0, received: UInt64 = 0, estimated: UInt64 = 0) {
        (self.sent, self.received, self.estimated) = (sent, received, estimated)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            sent: try container.decode(UInt64.self, forKey: .sent),
            received: try container.decode(UInt64.self, forKey: .received),
            estimated: try container.decodeIfPresent(UInt64.self, forKey: .estimated) ?? 0
        )
    }

    public var isZero: Bool { self.sent == 0 && self.received == 0 }

    public static func + (left: WireTotals, right: WireTotals) -> WireTotals {
        left.combined(with: right, +|)
    }

    public static func += (left: inout WireTotals, right: WireTotals) {
        left = left + right
    }

    /// What was added since `earlier`; a counter that is behind has added nothing.
    public func growth(since earlier: WireTotals) -> WireTotals {
        self.combined(with: earlier, -|)
    }

    private func combined(with other: WireTotals, _ combine: (UInt64, UInt64) -> UInt64) -> WireTotals {
        WireTotals(
            sent: combine(self.sent, other.sent),
            received: combine(self.received, other.received),
            estimated: combine(self.estimated, other.estimated)
        )
    }
}

/// What passed an interface since counting began, as the capture saw it: every packet, with or without a socket.
public struct InterfacePackets: Hashable, Sendable, Codable {
    /// One direction.
    public struct Bytes: Hashable, Sendable, Codable {
        /// As the interface handles them: an aggregate of segmentation offload is one packet.
        public var packets: UInt64
        /// Bytes of IPv4 and IPv6. An aggregate counts its headers once.
        public var ip: UInt64
        /// Other protocols, such as ARP.
        public var other: UInt64
        /// How many more packets the aggregates stand for, and the bytes of the headers of these packets.
        public var offloadedPackets: UInt64
        public var offloaded: UInt64
        /// Headers of IP fragments beyond the headers of the whole packets.
        public var fragments: UInt64
        /// Wire bytes of sockets: bytes that sockets sent, and bytes that reached sockets.
        public var socket: UInt64
        /// Sent only: wire bytes of packets that belong to no socket.
        public var noSocket: UInt64
        /// Sent only: wire bytes of SYN-ACKs. Not every kernel shows all SYN-ACKs to the hook that counts the
        /// listener's packets.
        public var answers: UInt64

        public init(
            packets: UInt64 = 0,
            ip: UInt64 = 0,
            other: UInt64 = 0,
            offloadedPackets: UInt64 = 0,
            offloaded: UInt64 = 0,
            fragments: UInt64 = 0,
            socket: UInt64 = 0,
            noSocket: UInt64 = 0,
            answers: UInt64 = 0
        ) {
            self.packets = packets
            self.ip = ip
            self.other = other
            self.offloadedPackets = offloadedPackets
            self.offloaded = offloaded
            self.fragments = fragments
            self.socket = socket
            self.noSocket = noSocket
            self.answers = answers
        }

        public static func += (left: inout Bytes, right: Bytes) {
            left = left.combined(with: right, +|)
        }

        /// What was added since `earlier`.
        public func growth(since earlier: Bytes) -> Bytes {
            self.combined(with: earlier, -|)
        }

        private func combined(with other: Bytes, _ combine: (UInt64, UInt64) -> UInt64) -> Bytes {
            Bytes(
                packets: combine(self.packets, other.packets),
                ip: combine(self.ip, other.ip),
                other: combine(self.other, other.other),
                offloadedPackets: combine(self.offloadedPackets, other.offloadedPackets),
                offloaded: combine(self.offloaded, other.offloaded),
                fragments: combine(self.fragments, other.fragments),
                socket: combine(self.socket, other.socket),
                noSocket: combine(self.noSocket, other.noSocket),
                answers: combine(self.answers, other.answers)
            )
        }

        /// Bytes of IP packets as on a wire.
        public var wire: UInt64 { self.ip +| self.offloaded }
    }

    /// Inode number of `/proc/PID/ns/net`.
    public var networkNamespace: UInt32
    /// The interface's index within that namespace.
    public var index: UInt32
    public var sent: Bytes
    public var received: Bytes

    public init(networkNamespace: UInt32, index: UInt32, sent: Bytes = Bytes(), received: Bytes = Bytes()) {
        self.networkNamespace = networkNamespace
        self.index = index
        self.sent = sent
        self.received = received
    }

    /// Wire bytes of packets of no socket. Sent: including the bytes that fragments add to their packets. Received:
    /// what reached no socket.
    public var ofNoSocket: WireTotals {
        WireTotals(
            sent: self.sent.noSocket +| self.sent.fragments,
            received: self.received.wire -| self.received.socket
        )
    }
}
