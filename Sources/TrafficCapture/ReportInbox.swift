import CLinux
import Glibc
import Synchronization
public import TrafficModel

/// The daemon's `report.sock`: takes what cooperating programs send, on a thread of its own, and keeps it until the next round.
///
/// A Unix socket queues few datagrams (`net.unix.max_dgram_qlen`, 10 by default): they are taken out at once, whatever the rest of the
/// daemon is at. What waits is bounded; beyond that datagrams are dropped and counted.
public final class ReportInbox: Sendable {
    /// Bytes that wait.
    private static let capacity = 16 << 20
    /// Waiting bytes that are worth a round of their own.
    private static let fill = 2 << 20
    /// `TrafficReport.Report.largestDatagram` and one more, which tells that it was cut off.
    private static let largestDatagram = 49_153

    private struct State {
        var reports: [ReceivedReport] = []
        var bytes = 0
        var dropped: UInt64 = 0
        var isStopped = false
    }

    private let socket: FileHandle
    private let wake: FileHandle
    private let filled: FileHandle
    private let state = Mutex(State())

    /// - Parameter path: Where to bind; nothing is there.
    /// - Throws: ``CaptureError/system(call:object:errno:)``.
    public init(bindingAt path: String) throws(CaptureError) {
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let socket = FileHandle(owning: try check("socket", path) { Glibc.socket(AF_UNIX, type, 0) })
        var (on, size) = (Int32(1), Int32(4 << 20))
        let length = socklen_t(MemoryLayout<Int32>.size)
        // Before it is bound: every datagram has its sender's credentials.
        try check("setsockopt", "SO_PASSCRED") { setsockopt(socket.descriptor, SOL_SOCKET, SO_PASSCRED, &on, length) }
        setsockopt(socket.descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, length)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        guard path.utf8.count < MemoryLayout.size(ofValue: address.sun_path) else {
            throw .system(call: "bind", object: path, errno: ENAMETOOLONG)
        }
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        try check("bind", path) {
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(socket.descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
                }
            }
        }
        self.socket = socket
        self.wake = FileHandle(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
        self.filled = FileHandle(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    /// Becomes readable when what waits should not wait for the next round.
    var filledDescriptor: Int32 { self.filled.descriptor }

    /// Everything that has come since the last call, and how many datagrams were dropped since the start.
    public func take() -> (reports: [ReceivedReport], dropped: UInt64) {
        var value: eventfd_t = 0
        eventfd_read(self.filled.descriptor, &value)
        return self.state.withLock { state in
            defer { (state.reports, state.bytes) = ([], 0) }
            return (state.reports, state.dropped)
        }
    }

    public func stop() {
        self.state.withLock { $0.isStopped = true }
        eventfd_write(self.wake.descriptor, 1)
    }

    /// Works until ``stop()``. Blocks its thread.
    public func run() {
        // Of this thread alone: the queue is short, and taking a datagram out is short work.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -10)
        var starts = StartTimes()
        var buffer = [UInt8](repeating: 0, count: Self.largestDatagram)
        var events = [
            pollfd(fd: self.socket.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: self.wake.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        while !self.state.withLock({ $0.isStopped }) {
            poll(&events, nfds_t(events.count), -1)
            starts.forget()
            // In bursts, so that it hears that it is to stop.
            for _ in 0..<256 {
                var pid: pid_t = 0
                let length = buffer.withUnsafeMutableBytes {
                    linux_receive_from(self.socket.descriptor, $0.baseAddress, $0.count, &pid)
                }
                guard length >= 0 else { break }
                // A pid of 0: it came from outside the daemon's PID namespace.
                let report = ReceivedReport(
                    pid: pid,
                    startTicks: starts.ticks(of: pid),
                    datagram: Array(buffer[..<min(length, buffer.count)])
                )
                self.keep(report)
            }
        }
    }

    private func keep(_ report: ReceivedReport) {
        let isFilled = self.state.withLock { state in
            let bytes = state.bytes + report.datagram.count + MemoryLayout<ReceivedReport>.size
            guard bytes <= Self.capacity else {
                state.dropped += 1
                return false
            }
            let wasBelow = state.bytes < Self.fill
            state.bytes = bytes
            state.reports.append(report)
            return wasBelow && bytes >= Self.fill
        }
        if isFilled { eventfd_write(self.filled.descriptor, 1) }
    }
}

/// When processes began, looked up once for a burst of datagrams: a pid is not reused that fast.
private struct StartTimes {
    private static let lifetime: UInt64 = 1_000_000_000

    private var ticks: [Int32: UInt64?] = [:]
    private var since: UInt64 = 0

    mutating func forget() {
        let now = MonotonicClock.nanoseconds()
        guard now - min(now, self.since) >= Self.lifetime || now < self.since else { return }
        self.ticks.removeAll(keepingCapacity: true)
        self.since = now
    }

    mutating func ticks(of pid: Int32) -> UInt64? {
        if let known = self.ticks[pid] { return known }
        let ticks = pid > 0 ? ProcessDirectory.startTicks(pid: pid) : nil
        self.ticks[pid] = .some(ticks)
        return ticks
    }
}
