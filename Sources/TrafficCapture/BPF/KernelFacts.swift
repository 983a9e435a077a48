import CLibbpf
import TrafficModel

/// What the running kernel shows of itself, most of it by its type information (BTF).
///
/// No version number decides: distributions take changes into older kernels, and a build may lack what its version has.
/// Where the type information shows nothing, the daemon assumes the worse case.
struct KernelFacts: Hashable, Sendable {
    /// Whether `iter/bpf_sk_storage_map` can't crash this kernel.
    ///
    /// 5d800f87d0a5 ("bpf: Support lockless unlink when freeing map or local storage", Linux 7.0) clears a pointer that
    /// the walk follows. It added `bpf_local_storage_elem.state` and `bpf_local_storage.owner_refcnt`.
    var storageWalkIsSafe: Bool

    /// Whether the kernel may preempt a task inside a program of a tracepoint, and so skip that program for other calls
    /// on the processor (preempt.bpf.h). Programs of functions (`fexit`) have no twins to count what they miss.
    ///
    /// Since a46023d5616e ("tracing: Guard __DECLARE_TRACE() use of __DO_TRACE_CALL() with SRCU-fast", Linux 7.0) the
    /// programs run in a reader of `tracepoint_srcu`; before, they ran with preemption off. Linux had a variable of that
    /// name before 6.13 too, for other tracepoints, and then also the function `srcu_free_old_probes`.
    var preemptsTracepoints: Bool

    /// Whether the kernel may preempt a task inside a program of a function (`fexit`), and so skip that program as above.
    ///
    /// Such a program keeps its processor by `migrate_disable()` but may be preempted there
    /// (`__bpf_prog_enter_recur()`, kernel/bpf/trampoline.c) where the kernel is built with `CONFIG_PREEMPTION` and so has
    /// `preempt_schedule()`. With `CONFIG_PREEMPT_DYNAMIC` debugfs says whether the kernel uses this. The daemon reads that at
    /// its start, if it may; where it can't, it assumes that the kernel does.
    var preemptsFunctions: Bool

    /// Whether sendfile(2) and splice(2) into a socket pass no tracepoint: the kernel has `inet_sendpage()`, which
    /// dc97391e6610 ("sock: Remove ->sendpage*()", Linux 6.5) removed.
    private var hidesSendpage: Bool

    /// Whether a hash that probes use may allocate an element's memory when the element is added.
    ///
    /// ee4ed53c5eb6 ("bpf: Convert percpu hash map to per-cpu bpf_mem_alloc", Linux 6.1) and its siblings allow that. It
    /// added `bpf_htab.pcpu_ma`.
    var hashesAllocateAsNeeded: Bool

    /// Whether the kernel runs no program while a thread of process 1 runs, and counts no miss.
    ///
    /// Kernels of some virtual machines do that where the setting `kernel.init_private` is on. If a softirq interrupts such a
    /// thread, no program sees the packets that pass in it, and the connections that begin or end in it.
    var hidesProcess1 = false

    static let ofThisKernel: KernelFacts = {
        let types = btf__load_vmlinux_btf()
        defer { btf__free(types) }
        var facts = KernelFacts(types.map(KernelTypes.init))
        if let mode = text(ofFile: "/sys/kernel/debug/sched/preempt"), Self.isCooperative(mode) {
            facts.preemptsFunctions = false
        }
        facts.hidesProcess1 = text(ofFile: "/proc/sys/kernel/init_private").map { $0.trimmed != "0" } ?? false
        return facts
    }()

    /// - Parameter types: `nil`: the kernel shows nothing.
    init(_ types: KernelTypes?) {
        let element = types?.members(of: "bpf_local_storage_elem")
        let storage = types?.members(of: "bpf_local_storage")
        self.storageWalkIsSafe =
            element.map { !$0.contains("state") } ?? false && storage.map { !$0.contains("owner_refcnt") } ?? false
        // A kernel that was built without the types of its variables can't show the one that matters.
        let showsVariables = types?.has("runqueues", BTF_KIND_VAR) ?? false
        let hasReader = types?.has("tracepoint_srcu_srcu_data", BTF_KIND_VAR) ?? true
        let isOfOthers = types?.has("srcu_free_old_probes", BTF_KIND_FUNC) ?? false
        self.preemptsTracepoints = !showsVariables || (hasReader && !isOfOthers)
        // A kernel that shows no functions can't show this one.
        let showsFunctions = types?.has("__schedule", BTF_KIND_FUNC) ?? false
        self.preemptsFunctions = types?.has("preempt_schedule", BTF_KIND_FUNC) ?? true || !showsFunctions
        self.hidesSendpage = types?.has("inet_sendpage", BTF_KIND_FUNC) ?? false
        self.hashesAllocateAsNeeded = types?.members(of: "bpf_htab")?.contains("pcpu_ma") ?? false
    }

    /// - Parameter mode: As in debugfs: the mode in use is in parentheses, for example `none (voluntary) full`.
    static func isCooperative(_ mode: String) -> Bool { mode.contains("(none)") || mode.contains("(voluntary)") }

    /// With `tracepoint` either the kernel skips no program, or twins count what it skips, except in one call that no
    /// tracepoint sees (`sock_splice_read_exit`).
    private var prefersTracepoints: Bool { self.preemptsTracepoints || self.preemptsFunctions && !self.hidesSendpage }

    /// Whether the kernel may skip programs of a method that has no twins.
    func maySkipPrograms(of method: CaptureMethod) -> Bool {
        switch method {
        case .fexit: self.preemptsTracepoints || self.preemptsFunctions
        case .kprobe: self.preemptsTracepoints
        case .tracepoint, .poll, .lifecycle: false
        }
    }

    /// The methods, best first. ``CaptureMethod/lifecycle`` is used only on request.
    var methods: [CaptureMethod] {
        self.prefersTracepoints ? [.tracepoint, .fexit, .kprobe, .poll] : [.fexit, .tracepoint, .kprobe, .poll]
    }

    /// The methods that are better than `method` on other kernels but come after `method` on this one.
    func passedOver(for method: CaptureMethod) -> [MethodSelection.Refusal] {
        guard self.prefersTracepoints && method == .tracepoint else { return [] }
        let reason =
            self.preemptsTracepoints
            ? "this kernel may preempt BPF programs, and only those of tracepoints have twins to count what they miss"
            : "this kernel may preempt a task inside a BPF program of a function, and skips that program for other tasks then"
        return [MethodSelection.Refusal(method: .fexit, reason: reason)]
    }
}

/// Type information of a kernel. The value must not outlive the `struct btf`.
struct KernelTypes {
    private let types: OpaquePointer

    init(_ types: OpaquePointer) {
        self.types = types
    }

    func has(_ name: String, _ kind: Int32) -> Bool {
        btf__find_by_name_kind(self.types, name, UInt32(kind)) > 0
    }

    /// The names of the members of a struct; `nil` if there is no such struct.
    func members(of name: String) -> Set<String>? {
        let id = btf__find_by_name_kind(self.types, name, UInt32(BTF_KIND_STRUCT))
        guard id > 0, let type = btf__type_by_id(self.types, UInt32(id)), let members = btf_members(type) else {
            return nil
        }
        return Set(
            UnsafeBufferPointer(start: members, count: Int(btf_vlen(type))).compactMap { member in
                btf__name_by_offset(self.types, member.name_off).map { String(cString: $0) }
            }
        )
    }
}
