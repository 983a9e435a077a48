import Glibc

/// The sending end of the daemon's `report.sock`. Never waits.
struct ReportSocket: ~Copyable {
    enum Outcome: Hashable {
        case sent
        /// The daemon does not keep up (EAGAIN, ENOBUFS): there is no room for this one.
        case full
        /// There is no daemon, or it is not for us.
        case absent
    }

    private let descriptor: Int32

    /// - Returns: `nil` where the process has no descriptor left.
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

    /// Whether what is sent there would reach a daemon, which notices nothing of this. One that is stopped is there.
    static func isDaemon(at path: String) -> Bool {
        // Without a descriptor to spare nobody can tell.
        guard let socket = ReportSocket() else { return true }
        return Self.withAddress(of: path) { connect(socket.descriptor, $0, $1) } == 0
    }

    /// Addressed anew each time: a daemon that was restarted has another socket of the same name.
    borrowing func send(_ datagram: Span<UInt8>, to path: String) -> Outcome {
        let result = datagram.withUnsafeBytes { bytes in
            Self.withAddress(of: path) {
                sendto(self.descriptor, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL), $0, $1)
            }
        }
        guard let result else { return .absent }
        if result >= 0 { return .sent }
        return switch errno {
        case EAGAIN, ENOBUFS, EINTR, EMSGSIZE: .full
        default: .absent
        }
    }

    /// - Returns: `nil` where the path is too long for an address.
    private static func withAddress<Result>(
        of path: String,
        _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else { return nil }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
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
