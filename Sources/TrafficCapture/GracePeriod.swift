import CLibbpf
import CLinux
import Glibc
import Synchronization

/// Waits, on a thread of its own, until every BPF program that was running when the wait began has ended: a grace period of the kernel's RCU.
///
/// The kernel waits for programs after an update of a map of maps (`maybe_wait_bpf_programs()` in kernel/bpf/syscall.c; Linux 4.20,
/// 1ae80cf31938). membarrier(2) would do without a map, but returns at once on a machine with one processor, where a program may have been
/// preempted, and is refused where processors are kept free of the tick (nohz_full). Either takes some 10 ms, and seconds where
/// users leave the kernel's own threads no time.
final class GracePeriod {
    /// How long a sweep waits, in all its waits together, in nanoseconds. What is not complete by then comes with a later sweep.
    static let patience: UInt64 = 200_000_000

    private let waiter: Waiter
    private let thread: pthread_t
    private var isUnderWay = false

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel makes no map or no thread.
    init() throws(CaptureError) {
        self.waiter = try Waiter()
        // Now, because later there may be no room for a thread: users fill the table of processes.
        var thread = pthread_t()
        let retained = Unmanaged.passRetained(self.waiter)
        let error = pthread_create(
            &thread,
            nil,
            { argument in
                if let argument { Unmanaged<Waiter>.fromOpaque(argument).takeRetainedValue().run() }
                return nil
            },
            retained.toOpaque()
        )
        guard error == 0 else {
            retained.release()
            throw .system(call: "pthread_create", object: "wait", errno: error)
        }
        self.thread = thread
    }

    /// Waits for the end of a wait that is under way.
    deinit {
        self.waiter.stop()
        pthread_join(self.thread, nil)
    }

    /// Begins a wait, unless one is under way, and returns when it has ended, or at the deadline.
    ///
    /// - Parameter deadline: Nanoseconds of ``MonotonicClock``.
    /// - Returns: Whether the wait has ended. Where it has not, the next call goes on with it; else the next call begins another.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel did not wait; then the next call begins another wait.
    func hasPassed(by deadline: UInt64) throws(CaptureError) -> Bool {
        if !self.isUnderWay { try self.waiter.begin() }
        self.isUnderWay = true
        guard try self.waiter.hasEnded(by: deadline) else { return false }
        self.isUnderWay = false
        try self.waiter.checkResult()
        return true
    }
}

/// What waits. Its thread waits in the kernel, where nothing can interrupt it.
private final class Waiter: Sendable {
    private let inner: FileHandle
    private let outer: FileHandle
    private let begun: FileHandle
    private let ended: FileHandle
    /// What the last update returned.
    private let result = Atomic<Int32>(0)
    private let isStopped = Atomic<Bool>(false)

    init() throws(CaptureError) {
        let inner = try check("bpf_map_create", "waited") {
            bpf_map_create(BPF_MAP_TYPE_ARRAY, "traffic_waited", 4, 4, 1, nil)
        }
        self.inner = FileHandle(owning: inner)
        self.outer = FileHandle(
            owning: try check("bpf_map_create", "wait") {
                shim_create_array_of_maps("traffic_wait", inner)
            }
        )
        self.begun = FileHandle(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC)) })
        self.ended = FileHandle(owning: try check("eventfd") { eventfd(0, Int32(EFD_CLOEXEC)) })
    }

    func begin() throws(CaptureError) {
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

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the last wait was none.
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
            guard eventfd_read(self.begun.descriptor, &count) == 0 || errno == EINTR else {
                fatalError("nobody waits for BPF programs any more: eventfd_read: errno \(errno)")
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
