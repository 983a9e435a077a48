import CTrafficABI
import TrafficEvents
import TrafficModel

/// What an observation must say about a kernel's record, number by number, as `bpf/include/traffic_abi.h` defines them.
struct CaptureTruth {
    private let record: traffic_socket
    /// The owners beyond those in `record`.
    private let further: [traffic_owner]
    private let seesPackets: Bool
    private let isPacket: Bool

    /// - Parameter isPacket: Whether the socket is of AF_PACKET.
    init(_ record: traffic_socket, _ further: [traffic_owner], seesPackets: Bool, isPacket: Bool) {
        (self.record, self.further) = (record, further)
        (self.seesPackets, self.isPacket) = (seesPackets, isPacket)
    }

    private var isUDP: Bool { !self.isPacket && self.record.protocol == 17 && self.record.type != 3 }
    private var isTCP: Bool { !self.isPacket && self.record.protocol == 6 && self.record.type != 3 }

    /// - Returns: The first number that is wrong; `nil` where all are right.
    func difference(_ seen: SocketObservation) -> String? {
        let record = self.record
        let numbers: [(String, UInt64?, UInt64?)] = [
            ("serial", seen.serial, record.serial), ("cookie", seen.cookie.rawValue, record.cookie),
            ("local port", UInt64(seen.local.port), UInt64(record.local_port)),
            ("remote port", UInt64(seen.remote.port), UInt64(record.remote_port)),
            ("opened", seen.openedBoottimeNanoseconds ?? 0, record.opened_boottime_ns),
            ("closed", seen.closedBoottimeNanoseconds ?? 0, record.closed_boottime_ns),
            ("namespace", UInt64(seen.networkNamespace), UInt64(record.network_namespace)),
            ("uid", seen.uid.map(UInt64.init), UInt64(record.uid)),
            ("unowned sent", seen.unowned.sent, record.unowned_sent_bytes),
            ("unowned received", seen.unowned.received, record.unowned_received_bytes),
            ("in rows, sent", seen.inRows?.sent ?? 0, record.in_rows.sent_bytes),
            ("in rows, received", seen.inRows?.received ?? 0, record.in_rows.received_bytes),
            ("pending", seen.pendingSent, self.pending),
        ]
        if let wrong = numbers.first(where: { $0.1 != $0.2 }) { return "\(wrong)" }
        guard Self.bytes(seen.local) == Self.bytes(record.local_address),
            Self.bytes(seen.remote) == Self.bytes(record.remote_address)
        else { return "addresses \(seen.local) \(seen.remote)" }
        let slots = [record.owners.0, record.owners.1] + self.further
        let owners = slots.filter { $0.start_boottime_ns != 0 }.map(Self.owner)
        guard seen.owners == owners else { return "owners \(seen.owners)" }
        guard seen.wire == self.wire else { return "wire \(String(describing: seen.wire))" }
        guard seen.stream == self.stream, seen.tcp == self.counters else {
            return "TCP \(String(describing: seen.stream)) \(String(describing: seen.tcp))"
        }
        let isConnected =
            record.connecting_boottime_ns != 0 && record.established_boottime_ns >= record.connecting_boottime_ns
        guard seen.connect?.beganAt == (isConnected ? record.connecting_boottime_ns : nil),
            seen.connect?.endedAt == (isConnected ? record.established_boottime_ns : nil)
        else { return "connect \(String(describing: seen.connect))" }
        return seen.preexisting == self.has(bit: 0) ? nil : "flags \(record.flags)"
    }

    static func owner(_ slot: traffic_owner) -> OwnerObservation {
        let name = withUnsafeBytes(of: slot.name) { Array($0) }
        return OwnerObservation(
            identity: ProcessIdentity(
                pid: Int32(truncatingIfNeeded: slot.tgid),
                startBoottimeNanoseconds: slot.start_boottime_ns
            ),
            name: String(decoding: name[..<(name.firstIndex(of: 0) ?? name.count)], as: UTF8.self),
            uid: slot.uid,
            cgroupID: slot.cgroup_id,
            isKernelThread: slot.flags & 1 != 0,
            payload: PayloadBytes(sent: slot.sent_bytes, received: slot.received_bytes)
        )
    }

    private func has(bit: UInt32) -> Bool { self.record.flags >> bit & 1 != 0 }

    /// Bytes that TCP took, modulo 2^32, and that are not counted yet. This is a difference of sequence numbers, so the
    /// upper half of the values means that TCP is behind.
    private var pending: UInt64 {
        guard self.record.stream_sent >> 32 & 1 != 0, self.record.closed_boottime_ns == 0 else { return 0 }
        let counted =
            [
                self.record.owners.0.sent_bytes, self.record.owners.1.sent_bytes, self.record.unowned_sent_bytes,
                self.record.in_rows.sent_bytes,
            ]
            + self.further.filter { $0.start_boottime_ns != 0 }.map(\.sent_bytes)
        let pending = (self.record.stream_sent &- counted.reduce(0, &+)) & 0xffff_ffff
        return pending < 0x8000_0000 ? pending : 0
    }

    private var wire: SocketWire? {
        guard !self.isPacket else { return nil }
        let record = self.record
        guard self.seesPackets || self.isTCP || self.isUDP else { return nil }
        let (sent, received) = (Self.wire(record.wire_sent), Self.wire(record.wire_received))
        if self.seesPackets { return SocketWire(sent: sent, received: received) }
        let derived = { (wire: WireBytes) in WireBytes(payload: wire.payload, headers: wire.headers &+ wire.control) }
        return SocketWire(
            sent: derived(sent),
            received: derived(received),
            quality: record.wire_is_estimated == 0 ? .derived : .estimated
        )
    }

    private var counters: TCPCounters? {
        !self.isTCP
            ? nil
            : TCPCounters(
                retransmittedBytes: self.record.retransmitted_bytes,
                retransmittedSegments: UInt64(self.record.retransmitted_segments),
                segmentsSent: UInt64(self.record.segments_sent),
                segmentsReceived: UInt64(self.record.segments_received),
                smoothedRoundTripMicroseconds: UInt64(self.record.smoothed_rtt_us)
            )
    }

    private var stream: TCPStream? {
        !self.isTCP
            ? nil
            : TCPStream(
                sent: self.record.tcp_sent_bytes,
                received: self.record.tcp_received_bytes,
                unsent: UInt64(self.record.unsent_bytes),
                unread: UInt64(self.record.unread_bytes),
                sentLength: self.record.stream_sent >> 32 & 1 != 0
                    ? UInt32(self.record.stream_sent & 0xffff_ffff) : nil,
                urgent: Int64(self.record.urgent_bytes),
                early: self.record.early_bytes,
                isInUse: self.has(bit: 2),
                isPartial: self.has(bit: 4),
                isFramed: self.has(bit: 3),
                isEarlyUnknown: self.has(bit: 5) ? true : nil
            )
    }

    private static func wire(_ wire: traffic_wire) -> WireBytes {
        WireBytes(
            payload: wire.payload_bytes,
            headers: wire.header_bytes,
            bare: wire.bare_bytes,
            control: wire.control_bytes
        )
    }

    private static func bytes(_ end: SocketAddress) -> [UInt8] { (0..<16).map { end.address.bytes[$0] } }

    private static func bytes<Address>(_ address: Address) -> [UInt8] { withUnsafeBytes(of: address) { Array($0) } }
}
