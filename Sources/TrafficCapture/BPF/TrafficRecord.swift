import CTrafficABI
package import TrafficEvents
import TrafficModel

/// Decodes `struct traffic_socket` and `struct traffic_shared_record` of `bpf/include/traffic_abi.h`.
package enum TrafficRecord {
    package static let size = MemoryLayout<traffic_socket>.size
    /// Of the record of a socket with further owners.
    package static let sharedSize = MemoryLayout<traffic_shared_record>.size
    /// So many bytes of a record tell its size.
    static let headSize = flagsOffset + MemoryLayout<UInt32>.size

    private static let flagsOffset = MemoryLayout<traffic_socket>.offset(of: \.flags) ?? 0

    /// - Parameter bytes: A record, or its beginning.
    /// - Returns: The size of the whole record; `nil` if there are fewer than ``headSize`` bytes.
    static func size(ofRecordIn bytes: RawSpan) -> Int? {
        guard bytes.byteCount >= self.headSize else { return nil }
        let flags = bytes.unsafeLoadUnaligned(fromByteOffset: self.flagsOffset, as: UInt32.self)
        return flags & TRAFFIC_SOCKET_SHARED.rawValue == 0 ? self.size : self.sharedSize
    }

    /// - Parameters:
    ///   - bytes: Exactly one record.
    ///   - seesPackets: Whether the programs that count packets are attached; otherwise wire bytes are derived or estimated.
    /// - Throws: ``CaptureError/malformed(_:)`` for any other size, or for values that no kernel writes.
    package static func decode(_ bytes: RawSpan, seesPackets: Bool) throws(CaptureError) -> SocketObservation {
        guard bytes.byteCount == self.size || bytes.byteCount == self.sharedSize else {
            throw .malformed("socket record of \(bytes.byteCount) bytes instead of \(self.size) or \(self.sharedSize)")
        }
        // Any bit pattern is a valid struct of integers, and the size was checked.
        let record = bytes.unsafeLoadUnaligned(as: traffic_socket.self)
        let further = self.furtherOwners(bytes)
        let transport =
            record.family == 17 ? .packet : TransportProtocol(number: record.protocol, type: record.type)  // AF_PACKET
        let connectionless = transport != .tcp && transport != .mptcp && transport != .sctp && transport != .dccp
        guard record.serial != 0, let family = AddressFamily(record.family),
            // DCCP has additional states (DCCP_PARTOPEN …), in which a socket is open.
            let state = SocketState(number: record.state, connectionless: connectionless)
                ?? (transport == .dccp ? .established : nil)
        else {
            throw .malformed(
                "socket record \(record.serial) with cookie \(record.cookie), family \(record.family), state \(record.state)"
            )
        }
        let owners = [record.owners.0, record.owners.1].compactMap(OwnerObservation.init(slot:)) + further
        return SocketObservation(
            serial: record.serial,
            cookie: SocketCookie(rawValue: record.cookie),
            transport: transport,
            family: family,
            local: SocketAddress(address: address(record.local_address), port: record.local_port),
            remote: SocketAddress(address: address(record.remote_address), port: record.remote_port),
            role: role(record.role),
            state: state,
            openedBoottimeNanoseconds: record.opened_boottime_ns == 0 ? nil : record.opened_boottime_ns,
            closedBoottimeNanoseconds: record.closed_boottime_ns == 0 ? nil : record.closed_boottime_ns,
            connect: ConnectTimes(record),
            preexisting: record.flags & TRAFFIC_SOCKET_PREEXISTING.rawValue != 0,
            networkNamespace: record.network_namespace,
            tcp: transport == .tcp ? TCPCounters(record) : nil,
            pendingSent: pendingSent(record, further),
            // At interfaces, the frames of AF_PACKET sockets count as packets without a socket.
            wire: transport != .packet && (seesPackets || transport == .tcp || transport == .udp)
                ? SocketWire(record, seesPackets: seesPackets) : nil,
            stream: transport == .tcp ? TCPStream(record) : nil,
            owners: owners,
            unowned: PayloadBytes(sent: record.unowned_sent_bytes, received: record.unowned_received_bytes),
            inRows: record.in_rows.sent_bytes == 0 && record.in_rows.received_bytes == 0
                ? nil : PayloadBytes(sent: record.in_rows.sent_bytes, received: record.in_rows.received_bytes),
            uid: record.uid,
            record: record.record == 0 ? nil : record.record,
            ownersInferred: record.flags & TRAFFIC_SOCKET_INFERRED.rawValue != 0 ? true : nil
        )
    }

    /// The owners beyond those in the socket's own storage. A free slot may be anywhere.
    private static func furtherOwners(_ bytes: RawSpan) -> [OwnerObservation] {
        var owners: [OwnerObservation] = []
        for offset in stride(from: self.size, to: bytes.byteCount, by: MemoryLayout<traffic_owner>.stride) {
            let slot = bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: traffic_owner.self)
            if let owner = OwnerObservation(slot: slot) { owners.append(owner) }
        }
        return owners
    }

    /// - Parameter bytes: A record that ``decode(_:seesPackets:)`` accepts.
    /// - Returns: Whether this is the final record of a socket that has left a copy in a map.
    static func replacesCopy(_ bytes: RawSpan) -> Bool {
        let record = bytes.unsafeLoadUnaligned(as: traffic_socket.self)
        return record.closed_boottime_ns != 0 && record.flags & TRAFFIC_SOCKET_LEFT_COPY.rawValue != 0
    }

    /// Bytes that TCP has accepted and that no counter has yet. The kernel read the length of the stream before the
    /// counters, so the length may be too small.
    private static func pendingSent(_ record: traffic_socket, _ further: [OwnerObservation]) -> UInt64 {
        guard let length = record.sentLength, record.closed_boottime_ns == 0 else { return 0 }
        let sentByFurther = UInt32(truncatingIfNeeded: further.reduce(UInt64(0)) { $0 &+ $1.payload.sent })
        return UInt64(max(0, Int32(bitPattern: length &- record.countedSent &- sentByFurther)))
    }

    private static func role(_ number: UInt8) -> SocketRole {
        switch UInt32(number) {
        case TRAFFIC_ROLE_CLIENT.rawValue: .client
        case TRAFFIC_ROLE_SERVER.rawValue: .server
        case TRAFFIC_ROLE_LISTENER.rawValue: .listener
        default: .peer
        }
    }

    private typealias Bytes16 = (
        UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8
    )

    private static func address(_ bytes: Bytes16) -> InternetAddress {
        withUnsafeBytes(of: bytes) { InternetAddress(bytes: $0.loadUnaligned(as: InlineArray<16, UInt8>.self)) }
    }
}

extension AddressFamily {
    fileprivate init?(_ number: UInt8) {
        switch number {
        case 2: self = .ipv4
        case 10: self = .ipv6
        case 17: self = .packet
        default: return nil
        }
    }
}

extension OwnerObservation {
    /// - Returns: `nil` for a free slot.
    fileprivate init?(slot: traffic_owner) {
        guard slot.start_boottime_ns != 0 else { return nil }
        self.init(slot)
    }

    init(_ slot: traffic_owner) {
        let isKernelThread = slot.flags & TRAFFIC_OWNER_KERNEL_THREAD.rawValue != 0
        let comm = withUnsafeBytes(of: slot.name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        self.init(
            identity: ProcessIdentity(
                pid: Int32(bitPattern: slot.tgid),
                startBoottimeNanoseconds: slot.start_boottime_ns
            ),
            name: comm,
            uid: slot.uid,
            cgroupID: slot.cgroup_id,
            isKernelThread: isKernelThread,
            payload: PayloadBytes(sent: slot.sent_bytes, received: slot.received_bytes)
        )
    }
}

extension ConnectTimes {
    /// - Returns: `nil` if one of the two times is not known, or if the kernel was just writing the times.
    fileprivate init?(_ record: traffic_socket) {
        guard record.connecting_boottime_ns != 0 else { return nil }
        self.init(beganAt: record.connecting_boottime_ns, endedAt: record.established_boottime_ns)
    }
}

extension TCPCounters {
    fileprivate init(_ record: traffic_socket) {
        self.init(
            retransmittedBytes: record.retransmitted_bytes,
            retransmittedSegments: UInt64(record.retransmitted_segments),
            segmentsSent: UInt64(record.segments_sent),
            segmentsReceived: UInt64(record.segments_received),
            smoothedRoundTripMicroseconds: UInt64(record.smoothed_rtt_us)
        )
    }
}

extension SocketWire {
    fileprivate init(_ record: traffic_socket, seesPackets: Bool) {
        guard !seesPackets else {
            self.init(sent: WireBytes(record.wire_sent), received: WireBytes(record.wire_received))
            return
        }
        self.init(
            sent: WireBytes(deriving: record.wire_sent),
            received: WireBytes(deriving: record.wire_received),
            quality: record.wire_is_estimated == 0 ? .derived : .estimated
        )
    }
}

extension WireBytes {
    /// Nobody knows which packets had which headers.
    fileprivate init(deriving wire: traffic_wire) {
        self.init(payload: wire.payload_bytes, headers: wire.header_bytes &+ wire.control_bytes)
    }

    fileprivate init(_ wire: traffic_wire) {
        self.init(
            payload: wire.payload_bytes,
            headers: wire.header_bytes,
            bare: wire.bare_bytes,
            control: wire.control_bytes
        )
    }
}

extension traffic_socket {
    /// The length of the stream that was sent, modulo 2^32 as TCP's sequence numbers; `nil` if its start is not known.
    fileprivate var sentLength: UInt32? {
        let isKnown = self.stream_sent >> 32 & UInt64(TRAFFIC_STREAM_KNOWN.rawValue) != 0
        return isKnown ? UInt32(truncatingIfNeeded: self.stream_sent) : nil
    }

    /// What the counters have of that stream, modulo 2^32: the same sum as `counted_sent()` in bpf/send.bpf.h, but for the
    /// further owners.
    fileprivate var countedSent: UInt32 {
        UInt32(
            truncatingIfNeeded: self.owners.0.sent_bytes &+ self.owners.1.sent_bytes &+ self.unowned_sent_bytes
                &+ self.in_rows.sent_bytes
        )
    }
}

extension TCPStream {
    fileprivate init(_ record: traffic_socket) {
        self.init(
            sent: record.tcp_sent_bytes,
            received: record.tcp_received_bytes,
            unsent: UInt64(record.unsent_bytes),
            unread: UInt64(record.unread_bytes),
            sentLength: record.sentLength,
            urgent: Int64(record.urgent_bytes),
            early: record.early_bytes,
            isInUse: record.flags & TRAFFIC_SOCKET_BUSY.rawValue != 0,
            isPartial: record.flags & TRAFFIC_SOCKET_PARTIAL.rawValue != 0,
            isFramed: record.flags & TRAFFIC_SOCKET_FRAMED.rawValue != 0,
            isEarlyUnknown: record.flags & TRAFFIC_SOCKET_EARLY_UNKNOWN.rawValue != 0 ? true : nil
        )
    }
}

extension InterfacePackets {
    /// - Parameter processors: The counters of each processor.
    init(_ key: traffic_interface_key, _ processors: [traffic_interface]) {
        self.init(networkNamespace: key.network_namespace, index: key.index)
        for processor in processors {
            self.sent += Bytes(processor.sent)
            self.received += Bytes(processor.received)
        }
    }
}

extension InterfacePackets.Bytes {
    fileprivate init(_ bytes: traffic_interface_bytes) {
        self.init(
            packets: bytes.packets,
            ip: bytes.ip_bytes,
            other: bytes.other_bytes,
            offloadedPackets: bytes.offloaded_packets,
            offloaded: bytes.offloaded_bytes,
            fragments: bytes.fragment_bytes,
            socket: bytes.socket_bytes,
            noSocket: bytes.no_socket_bytes,
            answers: bytes.answer_bytes
        )
    }
}
