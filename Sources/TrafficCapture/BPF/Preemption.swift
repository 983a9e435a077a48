import TrafficModel

/// Whether the kernel may preempt a task inside a BPF program, and so skip that program for other calls on the
/// processor.
enum Preemption {
    /// Since Linux 7.0 the kernel preempts programs of tracepoints too; before, they ran with preemption off. No file
    /// shows this: seen on 7.2, not on 6.18. Programs of functions (`fexit`) have no twins.
    static let reachesTracepoints = HostFacts.kernelVersion >= (7, 0)

    /// The methods, best first. ``CaptureMethod/lifecycle`` is used only on request.
    static var methods: [CaptureMethod] {
        self.reachesTracepoints ? [.tracepoint, .fexit, .kprobe, .poll] : [.fexit, .tracepoint, .kprobe, .poll]
    }

    /// The methods that are better than `method` on other kernels but come after `method` on this one.
    static func passedOver(for method: CaptureMethod) -> [MethodSelection.Refusal] {
        guard self.reachesTracepoints && method == .tracepoint else { return [] }
        return [
            MethodSelection.Refusal(
                method: .fexit,
                reason:
                    "this kernel preempts BPF programs, and only those of tracepoints have twins to count what they miss"
            )
        ]
    }
}
