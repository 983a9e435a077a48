import CLinux
import Glibc
import Synchronization
public import TrafficModel

/// The daemon's `report.sock`: takes what cooperating programs send, on a thread of its own, and keeps it until the next round.
///
/// A Unix socket queues few datagrams, of all senders together. So this thread takes each out at once, and discards unread those that there is no
/// room for, which is less work than sending them. What waits is bounded for each process, each user and in all
/// (``ReportLimits/waitingBytes``); beyond that datagrams are dropped and counted.
public final class ReportInbox: Sendable {
    /// Datagrams that the kernel queues, of all senders together.
    private static let queueLength = 256
    /// Waiting bytes that are worth a round of their own.
    private static let fill = 2 << 20
    /// `TrafficReport.Report.largestDatagram` and one more, which tells that it was cut off.
    private static let largestDatagram = 49_153

    private struct State {
        var reports: [ReceivedReport] = []
        /// Bytes that wait. By pid: a process is gone from here within a round.
        var budget = Budget<Int32>(ReportLimits.waitingBytes)
        /// It has been said that they should not wait any longer.
        var isFilled = false
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
        let socket = try Self.socketWithLongQueue()
        var on = Int32(1)
        let length = socklen_t(MemoryLayout<Int32>.size)
        // Before it is bound: every datagram has its sender's credentials.
        try check("setsockopt", "SO_PASSCRED") { setsockopt(socket.descriptor, SOL_SOCKET, SO_PASSCRED, &on, length) }
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

    /// A Unix socket's queue is as long as its network namespace said when it was made (unix_create1() in net/unix/af_unix.c). The host's
    /// setting is not ours to change, so it is made in a namespace of its own, which goes when it is closed. Where there is no right to
    /// make one, the queue is as long as the host's are.
    private static func socketWithLongQueue() throws(CaptureError) -> FileHandle {
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let home = try? FileHandle(path: "/proc/thread-self/ns/net")
        let isAway = home != nil && linux_unshare_network() == 0
        if isAway, let setting = fopen("/proc/sys/net/unix/max_dgram_qlen", "w") {
            fputs("\(Self.queueLength)", setting)
            fclose(setting)
        }
        let result = Result { () throws(CaptureError) in
            try check("socket", "report.sock") { Glibc.socket(AF_UNIX, type, 0) }
        }
        if isAway, let home { try check("setns", "home network namespace") { linux_setns_network(home.descriptor) } }
        return FileHandle(owning: try result.get())
    }

    /// Becomes readable when what waits should not wait for the next round.
    var filledDescriptor: Int32 { self.filled.descriptor }

    /// Everything that has come since the last call, and how many datagrams were dropped since the start.
    public func take() -> (reports: [ReceivedReport], dropped: UInt64) {
        var value: eventfd_t = 0
        eventfd_read(self.filled.descriptor, &value)
        return self.state.withLock { state in
            defer {
                (state.reports, state.isFilled) = ([], false)
                state.budget.reset()
            }
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
                var sender = linux_ucred()
                let length = linux_receive_from(self.socket.descriptor, nil, 0, &sender, Int32(MSG_PEEK))
                guard length >= 0 else { break }
                // A pid of 0: it came from outside the daemon's PID namespace.
                let count = min(length, buffer.count)
                let hasRoom = self.hasRoom(for: count, of: sender)
                _ = buffer.withUnsafeMutableBytes {
                    linux_receive_from(self.socket.descriptor, $0.baseAddress, hasRoom ? $0.count : 0, &sender, 0)
                }
                guard hasRoom else { continue }
                let report = ReceivedReport(
                    pid: sender.pid,
                    startTicks: starts.ticks(of: sender.pid),
                    datagram: Array(buffer[..<count])
                )
                self.keep(report)
            }
        }
    }

    /// Takes the room, or counts the datagram as dropped.
    private func hasRoom(for count: Int, of sender: linux_ucred) -> Bool {
        self.state.withLock { state in
            let hasRoom = state.budget.take(count + ReportLimits.overheadOfDatagram, of: sender.pid, sender.uid)
            if !hasRoom { state.dropped += 1 }
            return hasRoom
        }
    }

    private func keep(_ report: ReceivedReport) {
        let isFilled = self.state.withLock { state in
            state.reports.append(report)
            guard !state.isFilled, state.budget.used >= Self.fill else { return false }
            state.isFilled = true
            return true
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
