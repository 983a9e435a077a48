import CLibbpf
import Dispatch
import Synchronization

/// Waits until no BPF program that ran when the wait began is running any more, without keeping the caller.
///
/// The kernel waits for programs after an update of a map that holds maps (`maybe_wait_bpf_programs()` in kernel/bpf/syscall.c; Linux 4.20,
/// 1ae80cf31938). membarrier(2) would do without a map, but returns at once on a machine with one processor, where a program may have been
/// preempted, and is refused where processors are kept free of the tick (nohz_full). Either takes some 10 ms, and seconds where
/// users leave the kernel's own threads no time.
final class GracePeriod {
    /// For how long a sweep waits before it leaves the rest to the next one.
    static let patience = DispatchTimeInterval.milliseconds(200)

    private let maps: Maps
    private let queue = DispatchQueue(label: "trafficd.grace-period")
    private var isUnderWay = false

    private final class Maps: Sendable {
        let inner: FileHandle
        let outer: FileHandle
        /// What the update returned.
        let result = Atomic<Int32>(0)
        let ended = DispatchSemaphore(value: 0)

        init() throws(CaptureError) {
            let inner = try check("bpf_map_create", "waited") {
                bpf_map_create(BPF_MAP_TYPE_ARRAY, "traffic_waited", 4, 4, 1, nil)
            }
            self.inner = FileHandle(owning: inner)
            self.outer = FileHandle(
                owning: try check("bpf_map_create", "wait") { shim_create_array_of_maps("traffic_wait", inner) }
            )
        }

        func wait() {
            var (element, inner) = (UInt32(0), self.inner.descriptor)
            let result = bpf_map_update_elem(self.outer.descriptor, &element, &inner, 0)
            self.result.store(result, ordering: .relaxed)
            self.ended.signal()
        }
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel makes no map.
    init() throws(CaptureError) {
        self.maps = try Maps()
    }

    /// Not before the last wait has ended.
    func begin() {
        precondition(!self.isUnderWay)
        self.isUnderWay = true
        self.queue.async { [maps] in maps.wait() }
    }

    /// - Parameter time: For how long to wait for the end.
    /// - Returns: Whether the wait has ended. Then a new one may begin.
    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel did not wait. Then a new one may begin, too.
    func hasEnded(within time: DispatchTimeInterval) throws(CaptureError) -> Bool {
        guard self.maps.ended.wait(timeout: .now() + time) == .success else { return false }
        self.isUnderWay = false
        let result = self.maps.result.load(ordering: .relaxed)
        guard result == 0 else { throw .system(call: "bpf_map_update_elem", object: "wait", errno: -result) }
        return true
    }
}
