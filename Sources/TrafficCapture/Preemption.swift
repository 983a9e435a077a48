import TrafficModel

/// Whether the kernel may preempt a task inside a BPF program, and so leave that program out of other calls on the processor.
enum Preemption {
    /// Since Linux 7.0 in programs of tracepoints, too; before that they ran with preemption off. No file says so: seen on 7.2, not on 6.18.
    /// Programs of functions (`fexit`) have no twins.
    static let reachesTracepoints = HostFacts.kernelVersion >= (7, 0)

    /// The rungs, best first.
    static var rungs: [CaptureRung] {
        self.reachesTracepoints ? [.tracepoint, .fexit, .kprobe, .poll] : CaptureRung.allCases
    }

    /// What would be better elsewhere than `rung` and comes after it here.
    static func passedOver(for rung: CaptureRung) -> [RungSelection.Refusal] {
        guard self.reachesTracepoints && rung == .tracepoint else { return [] }
        return [
            RungSelection.Refusal(
                rung: .fexit,
                reason:
                    "this kernel preempts BPF programs, and only those of tracepoints have twins to count what they miss"
            )
        ]
    }
}
