import Glibc

/// Numbers of the kernel for a socket of this process.
package struct SocketFacts: Hashable, Sendable {
    /// `SO_COOKIE`; 0: unknown, or a socket that the daemon does not count, such as a Unix socket. The daemon would
    /// wait in vain for the bytes of such a socket.
    package private(set) var cookie: UInt64 = 0
    /// The kernel says that the descriptor is a socket.
    package private(set) var isSocket = false
    /// Bytes that the process gave to the socket, without retransmissions.
    package private(set) var sentBytes: UInt64 = 0
    /// Bytes that the process took from the socket.
    package private(set) var receivedBytes: UInt64 = 0
    /// The process has given the socket nothing: the kernel says so, or there is no connection yet. `false`: the
    /// process has given bytes to the socket, or this is unknown.
    package private(set) var isFresh = false

    package init() {}

    /// All numbers are 0 if the descriptor is no socket. The bytes are 0 if the socket is not TCP or not connected.
    package init(of socket: CInt, isConnected: Bool) {
        var length = socklen_t(MemoryLayout<UInt64>.size)
        self.isSocket = getsockopt(socket, SOL_SOCKET, SO_COOKIE, &self.cookie, &length) == 0
        if !self.isSocket || !Self.isCounted(socket) { self.cookie = 0 }
        guard isConnected else {
            self.isFresh = true
            return
        }
        // Bytes that arrive between two of these calls would be missing. So this repeats until none arrive.
        for _ in 0..<100 {
            var unread: CInt = 0
            guard let before = Self.info(socket), ioctl(socket, UInt(FIONREAD), &unread) == 0,
                let after = Self.info(socket)
            else { return }
            // The kernel counts the other side's FIN as one byte.
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
                // Without its byte positions nothing can be reported of the socket.
                (self.cookie, self.sentBytes, self.receivedBytes, self.isFresh) = (0, 0, 0, false)
                return
            }
            (self.sentBytes, self.receivedBytes, self.isFresh) = (sent, received, sent == 0)
            if before[Self.received] == after[Self.received] { return }
        }
    }

    /// Combines the kernel's counters, which may not be about the same bytes: with Multipath TCP some are about the
    /// first subflow alone.
    ///
    /// - Returns: `nil`: `others` is more than the sum, or a counter is larger than any socket can reach.
    static func bytes(of count: UInt64, and further: UInt64 = 0, without others: UInt64) -> UInt64? {
        guard count < Self.mostBytes, further < Self.mostBytes, others <= count + further else { return nil }
        return count + further - others
    }

    /// The limit of each counter, so that the sum of two counters cannot overflow.
    private static let mostBytes: UInt64 = 1 << 62

    /// Adds bytes that the process has written and its channel has not given to the socket yet: these bytes come next.
    package mutating func add(unsent: Int) {
        self.sentBytes += UInt64(max(0, unsent))
        self.isFresh = self.isFresh && unsent == 0
    }

    /// The facts before the socket received the last `count` bytes.
    package func before(receiving count: Int) -> SocketFacts {
        var facts = self
        facts.receivedBytes -= min(UInt64(count), facts.receivedBytes)
        return facts
    }

    /// Whether the socket is IPv4 or IPv6: the daemon counts only these.
    private static func isCounted(_ socket: CInt) -> Bool {
        var domain: CInt = 0
        var length = socklen_t(MemoryLayout<CInt>.size)
        guard getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 else { return false }
        return domain == AF_INET || domain == AF_INET6
    }

    // MARK: TCP_INFO

    /// Words of `struct tcp_info` (include/uapi/linux/tcp.h). Glibc's own struct lacks the newer fields.
    private typealias Info = InlineArray<28, UInt64>
    private static let received = 128 / 8
    /// In the low half of its word.
    private static let notSent = 144 / 8
    private static let sent = 200 / 8
    private static let retransmitted = 208 / 8
    /// States in which a FIN was received, in the struct's first byte: `TCP_TIME_WAIT`, `TCP_CLOSE_WAIT`,
    /// `TCP_LAST_ACK`, `TCP_CLOSING`.
    private static let ended: Set<UInt8> = [6, 8, 9, 11]

    private static func info(_ socket: CInt) -> Info? {
        var info = Info(repeating: 0)
        var length = socklen_t(MemoryLayout<Info>.size)
        return getsockopt(socket, CInt(IPPROTO_TCP), TCP_INFO, &info, &length) == 0 ? info : nil
    }
}
