import CUnixSocket
import Glibc

/// The sending end of the daemon's `report.sock`. It never waits.
struct ReportSocket: ~Copyable {
    enum Outcome: Hashable {
        case sent
        /// The daemon does not keep up (EAGAIN, ENOBUFS): there is no room for this datagram.
        case full
        /// There is no daemon, or this process may not send to it.
        case absent
    }

    private let descriptor: Int32

    /// - Returns: `nil` if the process has no descriptor left.
    init?() {
        self.descriptor = socket(
            AF_UNIX,
            Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue),
            0
        )
        if self.descriptor < 0 { return nil }
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
        case EAGAIN, ENOBUFS, EINTR, EMSGSIZE: .full
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
