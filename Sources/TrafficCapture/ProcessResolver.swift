import CLinux
import Glibc
import Synchronization
public import TrafficModel

/// Fills in what `/proc` knows of processes and notices when they end, on a thread of its own: a slow `/proc` delays names and
/// never a count.
///
/// A process is watched by a pidfd (pidfd_open(2)), so its end costs nothing until it comes and a reused pid is not taken for it.
public final class ProcessResolver: Sendable {
    private struct State {
        var requests: [OwnerObservation] = []
        var results: [CaptureEvent] = []
        var isStopped = false
    }

    private let state = Mutex(State())
    private let wake: FileHandle

    public init() throws(CaptureError) {
        self.wake = FileHandle(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    /// Asks for a process's details. Returns at once.
    ///
    /// - Parameter owner: What the kernel said of it.
    public func resolve(_ owner: OwnerObservation) {
        self.state.withLock { $0.requests.append(owner) }
        _ = eventfd_write(self.wake.descriptor, 1)
    }

    /// Details and exits since the last call.
    public func takeResults() -> [CaptureEvent] {
        self.state.withLock { state in
            defer { state.results = [] }
            return state.results
        }
    }

    public func stop() {
        self.state.withLock { $0.isStopped = true }
        _ = eventfd_write(self.wake.descriptor, 1)
    }

    /// Works until ``stop()``. Blocks its thread.
    public func run() throws(CaptureError) {
        // A descriptor per watched process.
        var limit = rlimit()
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        }
        var watch = try ProcessWatch(wake: self.wake.descriptor)
        var reader = ProcessReader()
        while true {
            let exited = watch.wait()
            let (requests, isStopped) = self.state.withLock { state in
                defer { state.requests = [] }
                return (state.requests, state.isStopped)
            }
            if isStopped { return }
            var results: [CaptureEvent] = []
            for owner in requests {
                let isAlive = watch.add(owner.identity)
                results.append(.details(owner.identity, reader.details(of: owner, isAlive: isAlive)))
                if !isAlive { results.append(.exited(owner.identity, at: .now)) }
            }
            results += exited.map { .exited($0, at: .now) }
            self.state.withLock { $0.results += results }
        }
    }
}

extension Timestamp {
    package static var now: Timestamp { Timestamp(nanosecondsSinceEpoch: MonotonicClock.wallNanoseconds()) }
}

/// The pidfds of the processes that are being watched.
private struct ProcessWatch: ~Copyable {
    private let epoll: FileHandle
    private let wake: Int32
    private var descriptors: [ProcessIdentity: Int32] = [:]
    private var processes: [Int32: ProcessIdentity] = [:]

    init(wake: Int32) throws(CaptureError) {
        let epoll = FileHandle(owning: try check("epoll_create1") { epoll_create1(Int32(EPOLL_CLOEXEC)) })
        var event = epoll_event()
        event.events = EPOLLIN.rawValue
        event.data.fd = wake
        try check("epoll_ctl", "eventfd") { epoll_ctl(epoll.descriptor, EPOLL_CTL_ADD, wake, &event) }
        self.epoll = epoll
        self.wake = wake
    }

    deinit {
        for descriptor in self.processes.keys { close(descriptor) }
    }

    /// - Returns: Whether the process lives. One whose end can't be watched (no descriptor left) counts as alive.
    mutating func add(_ process: ProcessIdentity) -> Bool {
        if process == .kernel || self.descriptors[process] != nil { return true }
        // A pid that was reused in between shows by its start time.
        let descriptor = linux_pidfd_open(process.pid)
        guard descriptor >= 0 else { return errno != ESRCH && errno != EINVAL }
        guard ProcessDirectory.isAlive(process) else {
            close(descriptor)
            return false
        }
        var event = epoll_event()
        event.events = EPOLLIN.rawValue
        event.data.fd = descriptor
        guard epoll_ctl(self.epoll.descriptor, EPOLL_CTL_ADD, descriptor, &event) == 0 else {
            close(descriptor)
            return true
        }
        self.descriptors[process] = descriptor
        self.processes[descriptor] = process
        return true
    }

    /// Sleeps until there is a request or a process ended.
    mutating func wait() -> [ProcessIdentity] {
        var events = [epoll_event](repeating: epoll_event(), count: 64)
        let count = epoll_wait(self.epoll.descriptor, &events, Int32(events.count), -1)
        guard count > 0 else { return [] }
        var exited: [ProcessIdentity] = []
        for event in events.prefix(Int(count)) {
            if event.data.fd == self.wake {
                var value: eventfd_t = 0
                eventfd_read(self.wake, &value)
            } else if let process = self.processes.removeValue(forKey: event.data.fd) {
                self.descriptors[process] = nil
                close(event.data.fd)
                exited.append(process)
            }
        }
        return exited
    }
}

/// Puts ``ProcessDetails`` together from the kernel's word and `/proc`.
private struct ProcessReader: ~Copyable {
    /// `nil` on a host without cgroup v2.
    private var cgroupPaths = CgroupPaths()
    private var users: [UInt32: String?] = [:]

    mutating func details(of owner: OwnerObservation, isAlive: Bool) -> ProcessDetails {
        var details = ProcessDetails(owner)
        details.user = self.userName(owner.uid)
        details.cgroup = self.cgroupPaths?.path(of: owner.cgroupID)
        var unitPath = details.cgroup
        if isAlive && owner.identity != .kernel {
            let pid = owner.identity.pid
            let cgroups = ProcessDirectory.cgroups(pid: pid)
            if !owner.isKernelThread {
                details.name = ProcessDirectory.name(pid: pid) ?? details.name
                details.executable = ProcessDirectory.executable(pid: pid)
                details.commandLine = ProcessDirectory.commandLine(pid: pid)
            }
            details.networkNamespace = ProcessDirectory.networkNamespace(task: "\(pid)")
            details.cgroup = cgroups.unified ?? details.cgroup
            unitPath = cgroups.systemd ?? details.cgroup
        }
        details.systemdUnit = unitPath.flatMap(CgroupNaming.systemdUnit)
        details.containerID = unitPath.flatMap(CgroupNaming.containerID)
        return details
    }

    private mutating func userName(_ uid: UInt32) -> String? {
        if let known = self.users[uid] { return known }
        var entry = passwd()
        var found: UnsafeMutablePointer<passwd>?
        var buffer = [CChar](repeating: 0, count: 16384)
        getpwuid_r(uid, &entry, &buffer, buffer.count, &found)
        let name = found.map { String(cString: $0.pointee.pw_name) }
        self.users[uid] = .some(name)
        return name
    }
}

extension ProcessDetails {
    /// What the kernel alone knows: enough for a row if the process is gone before `/proc` is read.
    public init(_ owner: OwnerObservation) {
        let startedAt =
            MonotonicClock.wallNanoseconds() - Int64(MonotonicClock.boottimeNanoseconds())
            + Int64(owner.identity.startBoottimeNanoseconds)
        self.init(
            name: owner.displayName,
            uid: owner.uid,
            startedAt: owner.identity == .kernel ? nil : Timestamp(nanosecondsSinceEpoch: startedAt)
        )
    }
}
