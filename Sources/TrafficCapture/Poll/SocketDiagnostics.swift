import CLinux
import CTrafficABI
import Glibc
package import TrafficEvents
package import TrafficModel

/// The TCP sockets of the calling thread's network namespace, from `sock_diag` (sock_diag(7)).
package enum SocketDiagnostics {
    /// A socket and the kernel's counters of its whole life.
    package struct Entry: Sendable, Hashable {
        package var cookie: SocketCookie
        package var family: AddressFamily
        package var local: SocketAddress
        package var remote: SocketAddress
        package var state: SocketState
        package var uid: UInt32
        package var inode: UInt32
        package var payload: PayloadBytes
        package var tcp: TCPCounters
        package var wire = SocketWire(quality: .estimated)
    }

    /// All TCP sockets, IPv4 and IPv6, in any state except TIME-WAIT and CLOSE.
    package static func tcpSockets() throws(CaptureError) -> [Entry] {
        try self.dump(family: AF_INET) + self.dump(family: AF_INET6)
    }

    private struct Request: BitwiseCopyable {
        var header = nlmsghdr()
        var diag = inet_diag_req_v2()
    }

    /// The user of the socket at the other end of a TCP connection.
    ///
    /// - Returns: `nil` if no process of this network namespace has that socket: the other end is elsewhere, or closed.
    package static func user(ofPeer peer: SocketAddress, connectedTo own: SocketAddress) -> UInt32? {
        var request = Request()
        request.header.nlmsg_len = UInt32(MemoryLayout<Request>.size)
        request.header.nlmsg_type = UInt16(SOCK_DIAG_BY_FAMILY)
        request.header.nlmsg_flags = UInt16(NLM_F_REQUEST)
        request.diag.sdiag_family = UInt8(peer.address.isIPv4 ? AF_INET : AF_INET6)
        request.diag.sdiag_protocol = UInt8(IPPROTO_TCP)
        request.diag.idiag_states = ~0
        request.diag.id.idiag_cookie = (~0, ~0)  // INET_DIAG_NOCOOKIE
        // The interface of number 1 is lo. With it the kernel finds sockets that are bound to lo (SO_BINDTODEVICE), too.
        request.diag.id.idiag_if = peer.address.isLoopback ? 1 : 0
        request.diag.id.idiag_sport = peer.port.bigEndian
        request.diag.id.idiag_dport = own.port.bigEndian
        request.diag.id.idiag_src = peer.address.words
        request.diag.id.idiag_dst = own.address.words
        let empty: [Entry] = []
        let found = try? Netlink.list(family: NETLINK_SOCK_DIAG, name: "sock_diag", request, into: empty) {
            bytes,
            entries throws(CaptureError) in
            // There is one message, and none that says the end.
            _ = try SocketDiagnostics.parse(bytes, into: &entries)
            return true
        }
        // The kernel may find a socket that listens at that port, or one that claims a foreign address (IPV6_FREEBIND)
        // and waits for an answer in vain. One that its process has closed has no inode.
        return found?.first {
            $0.local == peer && $0.remote == own && $0.inode != 0 && ![.listen, .synSent, .closed].contains($0.state)
        }?.uid
    }

    private static func dump(family: Int32) throws(CaptureError) -> [Entry] {
        var request = Request()
        request.header.nlmsg_len = UInt32(MemoryLayout<Request>.size)
        request.header.nlmsg_type = UInt16(SOCK_DIAG_BY_FAMILY)
        request.header.nlmsg_flags = UInt16(NLM_F_REQUEST | NLM_F_DUMP)
        request.diag.sdiag_family = UInt8(family)
        request.diag.sdiag_protocol = UInt8(IPPROTO_TCP)
        request.diag.idiag_ext = 1 << (UInt8(INET_DIAG_INFO) - 1)
        request.diag.idiag_states = ~(1 << 6 | 1 << 7)  // TCP_TIME_WAIT, TCP_CLOSE
        let empty: [Entry] = []
        return try Netlink.list(family: NETLINK_SOCK_DIAG, name: "sock_diag", request, into: empty) {
            bytes,
            entries throws(CaptureError) in
            try SocketDiagnostics.parse(bytes, into: &entries)
        }
    }

    /// - Parameter bytes: The result of one `recv`: any number of netlink messages.
    /// - Returns: Whether the dump is complete.
    package static func parse(_ bytes: RawSpan, into entries: inout [Entry]) throws(CaptureError) -> Bool {
        try NetlinkMessages.forEach(in: bytes, name: "sock_diag") { message throws(CaptureError) in
            if let entry = try Entry(message) { entries.append(entry) }
        }
    }
}

extension SocketDiagnostics.Entry {
    /// - Returns: `nil` for a socket in an unknown state.
    fileprivate init?(_ payload: RawSpan) throws(CaptureError) {
        let size = MemoryLayout<inet_diag_msg>.size
        guard payload.byteCount >= size else { throw .malformed("inet_diag_msg of \(payload.byteCount) bytes") }
        let message = payload.unsafeLoadUnaligned(as: inet_diag_msg.self)
        guard let state = SocketState(number: message.idiag_state, connectionless: false) else { return nil }
        let isIPv6 = Int32(message.idiag_family) == AF_INET6
        let cookie = UInt64(message.id.idiag_cookie.1) << 32 | UInt64(message.id.idiag_cookie.0)
        self.cookie = SocketCookie(rawValue: cookie)
        self.family = isIPv6 ? .ipv6 : .ipv4
        self.local = SocketAddress(
            address: InternetAddress(words: message.id.idiag_src, isIPv6: isIPv6),
            port: UInt16(bigEndian: message.id.idiag_sport)
        )
        self.remote = SocketAddress(
            address: InternetAddress(words: message.id.idiag_dst, isIPv6: isIPv6),
            port: UInt16(bigEndian: message.id.idiag_dport)
        )
        self.state = state
        self.uid = message.idiag_uid
        self.inode = message.idiag_inode
        self.payload = PayloadBytes()
        self.tcp = TCPCounters()
        // The queue lengths of a listener are numbers of connections, not bytes.
        guard state != .listen,
            let info = try NetlinkMessages.attribute(INET_DIAG_INFO, in: payload, from: size)
        else {
            return
        }
        self.takeCounters(payload.extracting(info), unread: UInt64(message.idiag_rqueue))
    }

    /// Computes payload from the kernel's sequence counters, which also count the SYN and the FIN.
    ///
    /// - Sent: all transmitted bytes (`bytes_sent`) minus retransmitted bytes, plus bytes that were accepted and not
    ///   sent yet. A FIN that waits behind unsent data counts among the unsent bytes and is subtracted.
    /// - Received: bytes that came in order (`bytes_received`) minus unread bytes. A FIN that was read is in this
    ///   number and is subtracted.
    private mutating func takeCounters(_ info: RawSpan, unread: UInt64) {
        let retransmitted = info.counter64(LINUX_TCP_INFO_BYTES_RETRANS)
        let finQueued: Bool
        let finReceived: Bool
        switch self.state {
        case .finWait1: (finQueued, finReceived) = (true, false)
        case .closing, .lastAck: (finQueued, finReceived) = (true, true)
        case .closeWait, .timeWait: (finQueued, finReceived) = (false, true)
        default: (finQueued, finReceived) = (false, false)
        }
        let notSent = info.counter32(LINUX_TCP_INFO_NOTSENT_BYTES)
        let sent = info.counter64(LINUX_TCP_INFO_BYTES_SENT) +| notSent -| (finQueued && notSent > 0 ? 1 : 0)
        let received = info.counter64(LINUX_TCP_INFO_BYTES_RECEIVED)
        let handedOver = received -| unread
        self.payload = PayloadBytes(
            sent: sent -| retransmitted,
            received: finReceived && unread == 0 && handedOver > 0 ? handedOver - 1 : handedOver
        )
        self.tcp = TCPCounters(
            retransmittedBytes: retransmitted,
            retransmittedSegments: info.counter32(LINUX_TCP_INFO_TOTAL_RETRANS),
            segmentsSent: info.counter32(LINUX_TCP_INFO_SEGS_OUT),
            segmentsReceived: info.counter32(LINUX_TCP_INFO_SEGS_IN),
            smoothedRoundTripMicroseconds: info.counter32(LINUX_TCP_INFO_RTT)
        )
        let headers = self.usualHeaders(
            timestamps: info.counter8(LINUX_TCP_INFO_OPTIONS) & 1 != 0  // TCPI_OPT_TIMESTAMPS
        )
        self.wire = SocketWire(
            sent: WireBytes(
                payload: info.counter64(LINUX_TCP_INFO_BYTES_SENT),
                headers: self.tcp.segmentsSent *| headers
            ),
            received: WireBytes(payload: received, headers: self.tcp.segmentsReceived *| headers),
            quality: .estimated
        )
    }

    /// Bytes of the headers of a segment: IP (RFC 791, RFC 8200), TCP (RFC 9293), timestamps with padding (RFC 7323).
    private func usualHeaders(timestamps: Bool) -> UInt64 {
        let address = self.remote.address.isIPv4 ? TRAFFIC_IPV4_HEADER : TRAFFIC_IPV6_HEADER
        let options = timestamps ? TRAFFIC_TIMESTAMPS_OPTION.rawValue : 0
        return UInt64(address.rawValue + TRAFFIC_TCP_HEADER.rawValue + options)
    }
}

extension RawSpan {
    /// A field of `struct tcp_info`; 0 if the kernel is too old to have the field.
    fileprivate func counter32(_ offset: linux_tcp_info_offset) -> UInt64 {
        let start = Int(offset.rawValue)
        return start + 4 <= self.byteCount
            ? UInt64(self.unsafeLoadUnaligned(fromByteOffset: start, as: UInt32.self)) : 0
    }

    fileprivate func counter8(_ offset: linux_tcp_info_offset) -> UInt8 {
        let start = Int(offset.rawValue)
        return start < self.byteCount ? self.unsafeLoad(fromByteOffset: start, as: UInt8.self) : 0
    }

    fileprivate func counter64(_ offset: linux_tcp_info_offset) -> UInt64 {
        let start = Int(offset.rawValue)
        return start + 8 <= self.byteCount ? self.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self) : 0
    }
}

extension InternetAddress {
    /// As in `inet_diag_sockid`, in network byte order. IPv4 uses the first word.
    fileprivate var words: (UInt32, UInt32, UInt32, UInt32) {
        let all = withUnsafeBytes(of: self.bytes) { $0.loadUnaligned(as: (UInt32, UInt32, UInt32, UInt32).self) }
        return self.isIPv4 ? (all.3, 0, 0, 0) : all
    }

    /// - Parameter words: As in `inet_diag_sockid`, in network byte order. IPv4 uses the first word.
    fileprivate init(words: (UInt32, UInt32, UInt32, UInt32), isIPv6: Bool) {
        let all = isIPv6 ? [words.0, words.1, words.2, words.3] : [0, 0, UInt32(0xffff).bigEndian, words.0]
        self = all.withUnsafeBytes { InternetAddress(bytes: $0.loadUnaligned(as: InlineArray<16, UInt8>.self)) }
    }
}
