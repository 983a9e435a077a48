import CLinux
import Glibc
import TrafficModel

/// Notices when processes end: by pidfd, or by a check once a second if descriptors run out.
struct ProcessWatch: ~Copyable {
    private static let lookMilliseconds: Int32 = 1_000
    /// How many processes without a descriptor one check covers.
    private static let looks = 1_000

    private let epoll: OwnedDescriptor
    private let wake: Int32
    private let limit: Int
    private var descriptors: [ProcessIdentity: Int32] = [:]
    private var processes: [Int32: ProcessIdentity] = [:]
    /// Processes without a descriptor. The first process has waited longest for a check.
    private var others: [ProcessIdentity] = []
    private var isOther: Set<ProcessIdentity> = []
    private var nextLook: UInt64 = 0

    var unwatched: Int { self.others.count }

    /// - Parameters:
    ///   - wake: Becomes readable when there is something else to do.
    ///   - limit: How many descriptors may be open at a time.
    init(wake: Int32, limit: Int) throws(CaptureError) {
        let epoll = OwnedDescriptor(owning: try check("epoll_create1") { epoll_create1(Int32(EPOLL_CLOEXEC)) })
        var event = epoll_event()
        event.events = EPOLLIN.rawValue
        event.data.fd = wake
        try check("epoll_ctl", "eventfd") { epoll_ctl(epoll.descriptor, EPOLL_CTL_ADD, wake, &event) }
        self.epoll = epoll
        self.wake = wake
        self.limit = limit
    }

    deinit {
        for descriptor in self.processes.keys { close(descriptor) }
    }

    /// - Returns: Whether the process lives.
    mutating func add(_ process: ProcessIdentity) -> Bool {
        if process == .kernel || self.descriptors[process] != nil { return true }
        guard !ProcessDirectory.isGone(process) else { return false }
        if !self.open(process), self.isOther.insert(process).inserted { self.others.append(process) }
        return true
    }

    private mutating func open(_ process: ProcessIdentity) -> Bool {
        guard self.descriptors.count < self.limit else { return false }
        let descriptor = linux_pidfd_open(process.pid)
        guard descriptor >= 0 else { return false }
        var event = epoll_event()
        event.events = EPOLLIN.rawValue
        event.data.fd = descriptor
        // Between the check and the opening, the pid may have become that of another process.
        guard !ProcessDirectory.isGone(process),
            epoll_ctl(self.epoll.descriptor, EPOLL_CTL_ADD, descriptor, &event) == 0
        else {
            close(descriptor)
            return false
        }
        self.descriptors[process] = descriptor
        self.processes[descriptor] = process
        return true
    }

    /// Sleeps until there is something to do.
    ///
    /// - Parameter isIdle: Whether no other work waits. If other work waits, this does not sleep.
    /// - Returns: Processes that ended.
    mutating func wait(isIdle: Bool) -> [ProcessIdentity] {
        var events = [epoll_event](repeating: epoll_event(), count: 64)
        let timeout = isIdle ? self.others.isEmpty ? -1 : Self.lookMilliseconds : 0
        let count = epoll_wait(self.epoll.descriptor, &events, Int32(events.count), timeout)
        var exited: [ProcessIdentity] = []
        for event in events.prefix(Int(max(0, count))) {
            if event.data.fd == self.wake {
                var value: eventfd_t = 0
                eventfd_read(self.wake, &value)
            } else if let process = self.processes.removeValue(forKey: event.data.fd) {
                self.descriptors[process] = nil
                close(event.data.fd)
                exited.append(process)
            }
        }
        return exited + self.look()
    }

    /// Checks processes without a descriptor. A process gets a descriptor if one is free again.
    private mutating func look() -> [ProcessIdentity] {
        let now = MonotonicClock.nanoseconds()
        guard !self.others.isEmpty, now >= self.nextLook else { return [] }
        self.nextLook = now + UInt64(Self.lookMilliseconds) * 1_000_000
        var exited: [ProcessIdentity] = []
        let batch = self.others.prefix(Self.looks)
        self.others.removeFirst(batch.count)
        for process in batch {
            if ProcessDirectory.isGone(process) {
                exited.append(process)
            } else if !self.open(process) {
                self.others.append(process)
                continue
            }
            self.isOther.remove(process)
        }
        return exited
    }
}
