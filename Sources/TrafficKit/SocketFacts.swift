import Glibc

/// What the kernel says of a socket of this process.
package struct SocketFacts: Hashable, Sendable {
    /// `SO_COOKIE`; 0: unknown, or a socket that the daemon does not count, such as a Unix socket: the daemon would wait in vain for it.
    package private(set) var cookie: UInt64 = 0
    /// The kernel knows it.
    package private(set) var isSocket = false
    /// Bytes that the process gave it; retransmissions are none.
    package private(set) var sentBytes: UInt64 = 0
    /// Bytes that the process took from it.
    package private(set) var receivedBytes: UInt64 = 0
    /// The process has given it nothing, as the kernel says, or because there is no connection yet; `false`: it has, or nobody knows.
    package private(set) var isFresh = false

    package init() {}

    /// All are 0 where it is no socket; the bytes where it is none of TCP, or not connected.
    package init(of socket: CInt, isConnected: Bool) {
        var length = socklen_t(MemoryLayout<UInt64>.size)
        self.isSocket = getsockopt(socket, SOL_SOCKET, SO_COOKIE, &self.cookie, &length) == 0
        if !self.isSocket || !Self.isCounted(socket) { self.cookie = 0 }
        guard isConnected else {
            self.isFresh = true
            return
        }
        // What arrives between the two calls would be missing: again, until nothing did.
        for _ in 0..<100 {
            var unread: CInt = 0
            guard let before = Self.info(socket), ioctl(socket, UInt(FIONREAD), &unread) == 0,
                let after = Self.info(socket)
            else { return }
            // The other side's end is counted as a byte.
            let hasEnded = Self.ended.contains(UInt8(truncatingIfNeeded: after[0].littleEndian))
            guard
                let sent = Self.bytes(
                    of: after[Self.sent],
                    and: after[Self.notSent] & 0xffff_ffff,
                    without: after[Self.retransmitted]
                ),
                let received = Self.bytes(
                    of: after[Self.received],
                    without: UInt64(max(0, unread)) + (hasEnded ? 1 : 0)
                )
            else {
                // Without its place nothing can be said of the socket.
                (self.cookie, self.sentBytes, self.receivedBytes, self.isFresh) = (0, 0, 0, false)
                return
            }
            (self.sentBytes, self.receivedBytes, self.isFresh) = (sent, received, sent == 0)
            if before[Self.received] == after[Self.received] { return }
        }
    }

    /// Takes the kernel's counters together, which need not be of the same bytes: with Multipath TCP some are of the first subflow alone.
    ///
    /// - Returns: `nil`: more is to be left out than there is, or there is more than any socket has had.
    static func bytes(of count: UInt64, and further: UInt64 = 0, without others: UInt64) -> UInt64? {
        guard count < Self.mostBytes, further < Self.mostBytes, others <= count + further else { return nil }
        return count + further - others
    }

    /// Half of what any sum of such numbers may be.
    private static let mostBytes: UInt64 = 1 << 62

    /// Bytes that the process has written, and what writes for it has not given to the socket yet: they come next.
    package mutating func add(unsent: Int) {
        self.sentBytes += UInt64(max(0, unsent))
        self.isFresh = self.isFresh && unsent == 0
    }

    /// As it was before so many bytes were received.
    package func before(receiving count: Int) -> SocketFacts {
        var facts = self
        facts.receivedBytes -= min(UInt64(count), facts.receivedBytes)
        return facts
    }

    /// IPv4 or IPv6.
    private static func isCounted(_ socket: CInt) -> Bool {
        var domain: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        guard getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 else { return false }
        return domain == AF_INET || domain == AF_INET6
    }

    // MARK: TCP_INFO

    /// Words of `struct tcp_info` (include/uapi/linux/tcp.h), which Glibc has without its newer fields.
    private typealias Info = InlineArray<28, UInt64>
    private static let received = 128 / 8
    /// In the first half of its word.
    private static let notSent = 144 / 8
    private static let sent = 200 / 8
    private static let retransmitted = 208 / 8
    /// States, in its first byte, in which a FIN was received: `TCP_TIME_WAIT`, `TCP_CLOSE_WAIT`, `TCP_LAST_ACK`, `TCP_CLOSING`.
    private static let ended: Set<UInt8> = [6, 8, 9, 11]

    private static func info(_ socket: CInt) -> Info? {
        var info = Info(repeating: 0)
        var length = socklen_t(MemoryLayout<Info>.size)
        return getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &info, &length) == 0 ? info : nil
    }
}
