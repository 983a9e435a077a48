import CLinux
import CUnixSocket
import Glibc
import Synchronization
public import TrafficCapture
public import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

/// The daemon's `report.sock`. It takes what cooperating programs send, on a thread of its own, and keeps it until the
/// next round.
///
/// A Unix socket queues few datagrams, of all senders together. So this thread takes each datagram out at once. If
/// there is no room for a datagram, the thread discards it unread, which is less work than sending it. The bytes that
/// wait are limited for each process, for each user and in all (``ReportLimits/waitingBytes``). Datagrams beyond a
/// limit are dropped and counted.
public final class ReportInbox: Sendable {
    /// How many datagrams the kernel queues, of all senders together.
    private static let queueLength = 256
    /// When this many bytes wait, the inbox asks for a round of their own.
    private static let fill = 2 << 20
    private struct State {
        var reports: [ReceivedReport] = []
        /// Bytes that wait, by pid. A pid is enough, because an entry stays here for one round at most.
        var budget = Budget<Int32>()
        /// The inbox has already asked for an early round.
        var isFilled = false
        var dropped: UInt64 = 0
        var isStopped = false
    }

    private let socket: OwnedDescriptor
    private let wake: OwnedDescriptor
    private let filled: OwnedDescriptor
    private let state = Mutex(State())

    /// - Parameter path: Where to bind the socket. No file may be there.
    /// - Throws: ``CaptureError/system(call:object:errno:)``.
    public init(bindingAt path: String) throws(CaptureError) {
        let socket = try Self.socketWithLongQueue()
        var on = Int32(1)
        let length = socklen_t(MemoryLayout<Int32>.size)
        // Set before the bind, so that every datagram has its sender's credentials.
        try check("setsockopt", "SO_PASSCRED") { setsockopt(socket.descriptor, SOL_SOCKET, SO_PASSCRED, &on, length) }
        try check("bind", path) { unix_socket_bind(socket.descriptor, path) }
        self.socket = socket
        self.wake = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
        self.filled = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    /// Makes a Unix socket with a long queue. The kernel takes the queue length from the socket's network namespace
    /// when it makes the socket (unix_create1() in net/unix/af_unix.c). The daemon must not change the host's setting.
    /// So the daemon makes the socket in a new network namespace, which ends when the socket is closed. If the daemon
    /// may not make a namespace, the queue has the host's length.
    private static func socketWithLongQueue() throws(CaptureError) -> OwnedDescriptor {
        let type = Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard let home = try? OwnedDescriptor(path: "/proc/thread-self/ns/net"), linux_unshare_network() == 0 else {
            return OwnedDescriptor(owning: try check("socket", "report.sock") { Glibc.socket(AF_UNIX, type, 0) })
        }
        // A service may find this file read-only. Then the host's own length is better: a new namespace begins with 10.
        let setting = fopen("/proc/sys/net/unix/max_dgram_qlen", "w")
        if let setting {
            fputs("\(Self.queueLength)", setting)
            fclose(setting)
        } else {
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
        }
        let result = Result { () throws(CaptureError) in
            try check("socket", "report.sock") { Glibc.socket(AF_UNIX, type, 0) }
        }
        if setting != nil {
            try check("setns", "home network namespace") { linux_setns_network(home.descriptor) }
        }
        return OwnedDescriptor(owning: try result.get())
    }

    /// Becomes readable when the waiting bytes should not wait for the next round.
    public var filledDescriptor: Int32 { self.filled.descriptor }

    /// Returns all datagrams since the last call, and how many datagrams were dropped since the start.
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
        // Raises the priority of this thread alone, because the queue is short and taking a datagram out is little
        // work.
        setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, -10)
        var starts = StartTimes()
        // One byte more than the largest datagram, so that a cut-off datagram shows.
        var buffer = [UInt8](repeating: 0, count: Report.largestDatagram + 1)
        var events = [
            pollfd(fd: self.socket.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: self.wake.descriptor, events: Int16(POLLIN), revents: 0),
        ]
        while !self.state.withLock({ $0.isStopped }) {
            poll(&events, nfds_t(events.count), -1)
            starts.forget()
            // In bursts, so that the thread notices ``stop()``.
            for _ in 0..<256 {
                var sender = linux_ucred()
                let length = linux_receive_from(self.socket.descriptor, nil, 0, &sender, Int32(MSG_PEEK))
                guard length >= 0 else { break }
                // A pid of 0 means that the sender is outside the daemon's PID namespace.
                let count = min(length, buffer.count)
                let hasRoom = self.hasRoom(for: count, of: sender)
                _ = buffer.withUnsafeMutableBytes {
                    linux_receive_from(self.socket.descriptor, $0.baseAddress, hasRoom ? $0.count : 0, &sender, 0)
                }
                guard hasRoom else { continue }
                let report = ReceivedReport(
                    pid: sender.pid,
                    uid: sender.uid,
                    startTicks: starts.ticks(of: sender),
                    datagram: Array(buffer[..<count])
                )
                self.keep(report)
            }
        }
    }

    /// Takes the room for the datagram, or counts the datagram as dropped.
    private func hasRoom(for count: Int, of sender: linux_ucred) -> Bool {
        self.state.withLock { state in
            let hasRoom = state.budget.take(
                count + ReportLimits.overheadOfDatagram,
                of: sender.pid,
                PayingUser(sender.uid),
                within: ReportLimits.waitingBytes
            )
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

/// The start times of senders. Each pid is looked up once for a burst of datagrams, whoever the sender says it is: root of
/// a user namespace may say any user of it, with each datagram another one (unix(7), `SCM_CREDENTIALS`).
///
/// A user can start 32,768 processes in a second, and so get a pid again. Then the start time that is kept here is of an
/// earlier process of the same user, and never of another user's.
private struct StartTimes {
    private static let lifetime: UInt64 = 1_000_000_000

    private var senders: [Int32: (ticks: UInt64, uid: UInt32)?] = [:]
    private var since: UInt64 = 0

    mutating func forget() {
        let now = MonotonicClock.nanoseconds()
        guard now - min(now, self.since) >= Self.lifetime || now < self.since else { return }
        self.senders.removeAll(keepingCapacity: true)
        self.since = now
    }

    /// - Returns: `nil` if the process is gone, or is not a process of this user.
    mutating func ticks(of credentials: linux_ucred) -> UInt64? {
        let pid = credentials.pid
        let sender = self.senders[pid] ?? (pid > 0 ? ProcessDirectory.startTicksAndUser(pid: pid) : nil)
        self.senders[pid] = .some(sender)
        return sender.flatMap { $0.uid == credentials.uid ? $0.ticks : nil }
    }
}
