import CUnixSocket
import Glibc
import TrafficReport

/// The sending end of the daemon's `report.sock`. It never waits.
struct ReportSocket: ~Copyable {
    enum Outcome: Hashable {
        case sent
        /// The daemon does not keep up (EAGAIN, ENOBUFS): there is no room for this datagram.
        case full
        /// The datagram is larger than the kernel's limit for this socket (EMSGSIZE). It will never go, and says nothing
        /// about the daemon.
        case tooLarge
        /// There is no daemon, or this process may not send to it.
        case absent
    }

    private let descriptor: Int32

    /// The send buffer to ask for. The kernel takes no datagram that is longer than the buffer less 32 bytes
    /// (`unix_dgram_sendmsg()`), and doubles what it is asked for, up to twice `net.core.wmem_max` (socket(7)).
    ///
    /// - Parameter size: The buffer that the socket has (`net.core.wmem_default`).
    /// - Returns: `nil`: the buffer is large enough for two datagrams.
    static func bufferToAsk(over size: Int32) -> Int32? {
        let wanted = Int32(2 * Report.largestDatagram)
        return size < wanted ? wanted : nil
    }

    /// - Parameter sendBuffer: The send buffer to ask for (`SO_SNDBUF`); for tests. `nil`: the host's own, or more if
    ///   that is small.
    /// - Returns: `nil` if the process has no descriptor left.
    init?(sendBuffer: Int32? = nil) {
        self.descriptor = socket(
            AF_UNIX,
            Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
            0
        )
        if self.descriptor < 0 { return nil }
        var (size, length) = (Int32(0), socklen_t(MemoryLayout<Int32>.size))
        getsockopt(self.descriptor, SOL_SOCKET, SO_SNDBUF, &size, &length)
        guard var wanted = sendBuffer ?? Self.bufferToAsk(over: size) else { return }
        setsockopt(self.descriptor, SOL_SOCKET, SO_SNDBUF, &wanted, length)
    }

    deinit {
        close(self.descriptor)
    }

    /// Whether a datagram to this path would reach a daemon. The daemon notices nothing of this check. A daemon that is
    /// stopped counts as there.
    static func isDaemon(at path: String) -> Bool {
        // Without a free descriptor this cannot be checked.
        guard let socket = ReportSocket() else { return true }
        return unix_socket_connect(socket.descriptor, path) == 0
    }

    /// Gives the path with each datagram: a restarted daemon has another socket of the same name.
    borrowing func send(_ datagram: Span<UInt8>, to path: String) -> Outcome {
        let result = datagram.withUnsafeBytes { bytes in
            unix_socket_send(self.descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL), path)
        }
        if result >= 0 { return .sent }
        return switch errno {
        case EAGAIN, ENOBUFS, ENOMEM, EINTR: .full
        case EMSGSIZE: .tooLarge
        default: .absent
        }
    }
}

package enum TrafficClock {
    /// `CLOCK_BOOTTIME`, the daemon's clock.
    package static func nanoseconds() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
