import CLibbpf

/// Waits until no BPF program that runs now is running any more.
///
/// The kernel does that after an update of a map that holds maps (`maybe_wait_bpf_programs()` in kernel/bpf/syscall.c; Linux 4.20,
/// 1ae80cf31938). membarrier(2) would do without a map, but returns at once on a machine with one processor, where a program may have been
/// preempted, and is refused where processors are kept free of the tick (nohz_full).
final class GracePeriod {
    private let inner: FileHandle
    private let outer: FileHandle

    /// - Throws: ``CaptureError/system(call:object:errno:)`` where the kernel makes no map.
    init() throws(CaptureError) {
        let inner = try check("bpf_map_create", "waited") {
            bpf_map_create(BPF_MAP_TYPE_ARRAY, "traffic_waited", 4, 4, 1, nil)
        }
        self.inner = FileHandle(owning: inner)
        self.outer = FileHandle(
            owning: try check("bpf_map_create", "wait") { shim_create_array_of_maps("traffic_wait", inner) }
        )
    }

    func wait() throws(CaptureError) {
        var (element, inner) = (UInt32(0), self.inner.descriptor)
        try check("bpf_map_update_elem", "wait") { bpf_map_update_elem(self.outer.descriptor, &element, &inner, 0) }
    }
}
