import CLinux
import Glibc
import Synchronization
public import TrafficEvents
public import TrafficModel

/// Adds details of processes from `/proc` and notices when processes end. The resolver has its own thread, so a slow
/// `/proc` delays names but never a count.
///
/// The resolver watches a process by a pidfd (pidfd_open(2)). So a running process costs nothing, and a process that
/// reuses the pid is not confused with it.
public final class ProcessResolver: Sendable {
    private struct State {
        var requests = InquiryQueue()
        var unwatched = 0
        var results: [CaptureEvent] = []
        var isStopped = false
    }

    private let state = Mutex(State())
    private let wake: OwnedDescriptor
    private let users: UserNames

    public init(users: UserNames = UserNames()) throws(CaptureError) {
        self.users = users
        self.wake = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK)) })
    }

    /// Asks for a process's details. Returns at once. If a user has very many processes, some requests get no answer;
    /// the caller may repeat these.
    ///
    /// - Parameter owner: What the kernel reported about the process.
    public func resolve(_ owner: OwnerObservation) {
        self.state.withLock { $0.requests.add(owner) }
        _ = eventfd_write(self.wake.descriptor, 1)
    }

    /// Takes the details, exits and changes of users' names since the last call.
    public func takeResults() -> [CaptureEvent] {
        let results = self.state.withLock { state in
            defer { state.results = [] }
            return state.results
        }
        // After the details: a name that comes between is then there for these processes too.
        let changes = self.users.takeChanges()
        return results + (changes.isEmpty ? [] : [.usersNamed(changes)])
    }

    /// For how many processes the end is noticed late, because no descriptors are left to watch them.
    public var unwatched: Int { self.state.withLock { $0.unwatched } }

    public func stop() {
        self.state.withLock { $0.isStopped = true }
        _ = eventfd_write(self.wake.descriptor, 1)
    }

    /// Works until ``stop()``. Blocks its thread.
    public func run() throws(CaptureError) {
        // One descriptor per watched process; the other half of the limit is for everything else.
        var limit = rlimit()
        var watchable = 512
        if getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 {
            limit.rlim_cur = limit.rlim_max
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            watchable = Int(clamping: limit.rlim_max / 2)
        }
        try self.run(watchable: watchable)
    }

    private static let batch = 256

    /// - Parameter watchable: How many processes may have a descriptor at a time.
    package func run(watchable: Int) throws(CaptureError) {
        var watch = try ProcessWatch(wake: self.wake.descriptor, limit: watchable)
        var reader = ProcessReader()
        var isIdle = true
        while true {
            let exited = watch.wait(isIdle: isIdle)
            let (requests, isStopped) = self.state.withLock { state in
                let requests = state.requests.take(Self.batch)
                isIdle = state.requests.isEmpty
                return (requests, state.isStopped)
            }
            if isStopped { return }
            var results: [CaptureEvent] = []
            self.users.prepare(requests.lazy.map(\.uid))
            for owner in requests {
                let isAlive = watch.add(owner.identity)
                results.append(.details(owner.identity, reader.details(of: owner, isAlive: isAlive)))
                if !isAlive { results.append(.exited(owner.identity, at: .now)) }
            }
            results += exited.map { .exited($0, at: .now) }
            self.state.withLock { state in
                state.results += results
                state.unwatched = watch.unwatched
            }
        }
    }
}

extension Timestamp {
    package static var now: Timestamp { Timestamp(nanosecondsSinceEpoch: MonotonicClock.wallNanoseconds()) }
}

/// Builds ``ProcessDetails`` from the kernel's report and `/proc`.
private struct ProcessReader: ~Copyable {
    /// `nil` on a host without cgroup v2.
    private var cgroupPaths = CgroupPaths()

    /// Without the user's name, which ``CaptureEvent/usersNamed(_:)`` has.
    mutating func details(of owner: OwnerObservation, isAlive: Bool) -> ProcessDetails {
        var details = ProcessDetails(owner)
        details.cgroup = self.cgroupPaths?.path(of: owner.cgroupID)
        var unitPath = details.cgroup
        if isAlive && owner.identity != .kernel {
            let pid = owner.identity.pid
            let cgroups = ProcessDirectory.cgroups(pid: pid)
            if !owner.isKernelThread {
                if owner.name.isEmpty { details.name = ProcessDirectory.name(pid: pid) ?? "" }
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
}

extension ProcessDetails {
    /// Details from the kernel alone: enough for a row if the process ends before `/proc` is read.
    public init(_ owner: OwnerObservation) {
        let startedAt = MonotonicClock.bootedAtWallNanoseconds() + Int64(owner.identity.startBoottimeNanoseconds)
        self.init(
            name: owner.displayName,
            uid: owner.uid,
            startedAt: owner.identity == .kernel ? nil : Timestamp(nanosecondsSinceEpoch: startedAt)
        )
    }
}
