import CLibbpf
import CLinux
import Glibc
import Synchronization

/// Waits, on its own thread, until every BPF program that was running when the wait began has ended: a grace period of
/// the kernel's RCU.
///
/// The kernel waits for programs after an update of a map of maps (`maybe_wait_bpf_programs()` in kernel/bpf/syscall.c;
/// Linux 4.20, 1ae80cf31938). membarrier(2) would need no map, but has two faults. On a machine with one processor
/// membarrier(2) returns at once, although a program may have been preempted there. And the kernel refuses
/// membarrier(2) where processors are kept free of the tick (nohz_full). Both ways take some 10 ms, and seconds if
/// users leave the kernel's own threads no time.
final class GracePeriod {
    /// How long a sweep waits, in all its waits together, in nanoseconds. A later sweep takes what is not complete by
    /// then.
    static let patience: UInt64 = 200_000_000

    private let waiter: Waiter
    private let thread: OwnThread
    private var isUnderWay = false

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel makes no map or no thread.
    init() throws(CaptureError) {
        self.waiter = try Waiter()
        // The thread is made now, because later there may be no room for a thread: users fill the table of processes.
        self.thread = try OwnThread("wait") { [waiter] in waiter.run() }
    }

    /// If a wait is in progress, this waits for its end.
    deinit {
        self.waiter.stop()
        self.thread.join()
    }

    /// Begins a wait unless one is in progress. Returns when the wait has ended, or at the deadline.
    ///
    /// - Parameter deadline: Nanoseconds of ``MonotonicClock``.
    /// - Returns: Whether the wait has ended. If not, the next call continues the same wait; otherwise the next call
    ///   begins another wait.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel did not wait. Then the next call begins
    ///   another wait.
    func hasPassed(by deadline: UInt64) throws(CaptureError) -> Bool {
        if !self.isUnderWay { try self.waiter.begin() }
        self.isUnderWay = true
        guard try self.waiter.hasEnded(by: deadline) else { return false }
        self.isUnderWay = false
        try self.waiter.checkResult()
        return true
    }
}

/// The part that waits. Its thread waits in the kernel, where nothing can interrupt it.
private final class Waiter: Sendable {
    private let inner: OwnedDescriptor
    private let outer: OwnedDescriptor
    private let begun: OwnedDescriptor
    private let ended: OwnedDescriptor
    /// The result of the last update.
    private let result = Atomic<Int32>(0)
    private let isStopped = Atomic<Bool>(false)
    /// Why the thread has ended before it was stopped: the errno of a call that can't fail. 0 while the thread runs.
    private let breakdown = Atomic<Int32>(0)

    init() throws(CaptureError) {
        let inner = try check("bpf_map_create", "waited") {
            bpf_map_create(BPF_MAP_TYPE_ARRAY, "traffic_waited", 4, 4, 1, nil)
        }
        self.inner = OwnedDescriptor(owning: inner)
        self.outer = OwnedDescriptor(
            owning: try check("bpf_map_create", "wait") {
                shim_create_array_of_maps("traffic_wait", inner)
            }
        )
        self.begun = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC)) })
        self.ended = OwnedDescriptor(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC)) })
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the thread has ended.
    func begin() throws(CaptureError) {
        let breakdown = self.breakdown.load(ordering: .acquiring)
        guard breakdown == 0 else { throw .system(call: "eventfd_read", object: "wait", errno: breakdown) }
        try check("eventfd_write", "wait") { eventfd_write(self.begun.descriptor, 1) }
    }

    func hasEnded(by deadline: UInt64) throws(CaptureError) -> Bool {
        var event = pollfd(fd: self.ended.descriptor, events: Int16(POLLIN), revents: 0)
        let ready = try check("poll", "wait") {
            let now = MonotonicClock.nanoseconds()
            return poll(&event, 1, now < deadline ? Int32(clamping: (deadline - now) / 1_000_000 + 1) : 0)
        }
        guard ready > 0 else { return false }
        var count: eventfd_t = 0
        try check("eventfd_read", "wait") { eventfd_read(self.ended.descriptor, &count) }
        return true
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel did not wait the last time.
    func checkResult() throws(CaptureError) {
        let result = self.result.load(ordering: .relaxed)
        guard result == 0 else { throw .system(call: "bpf_map_update_elem", object: "wait", errno: -result) }
    }

    func stop() {
        self.isStopped.store(true, ordering: .relaxed)
        eventfd_write(self.begun.descriptor, 1)
    }

    func run() {
        var count: eventfd_t = 0
        while true {
            let failed = eventfd_read(self.begun.descriptor, &count) == 0 ? 0 : errno
            guard failed == 0 || failed == EINTR else {
                // Other parts go on counting: only what needs this wait fails from now on.
                self.result.store(-failed, ordering: .relaxed)
                self.breakdown.store(failed, ordering: .releasing)
                eventfd_write(self.ended.descriptor, 1)
                return
            }
            if self.isStopped.load(ordering: .relaxed) { return }
            guard count > 0 else { continue }
            count = 0
            var (element, inner) = (UInt32(0), self.inner.descriptor)
            let result = bpf_map_update_elem(self.outer.descriptor, &element, &inner, 0)
            self.result.store(result, ordering: .relaxed)
            eventfd_write(self.ended.descriptor, 1)
        }
    }
}
