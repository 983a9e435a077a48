import CLinux
public import TrafficModel

/// Finds the best rung that this machine offers: by loading and attaching, in the order of ``Preemption/rungs``.
public struct RungSelection {
    /// A better rung that was tried first, and why it is not the one.
    public struct Refusal: Sendable, Hashable {
        public var rung: CaptureRung
        public var reason: String
    }

    public let source: any CaptureSource
    public let refusals: [Refusal]

    /// - Parameters:
    ///   - wanted: The only rung to accept; `nil` for the best one.
    ///   - wire: Whether to see every packet or to estimate, which spares the kernel its programs for packets.
    /// - Throws: ``CaptureError/permission(needs:)`` where the process may not load BPF programs at all, otherwise what the
    ///   wanted rung, or the last one, failed with.
    public init(wanted: CaptureRung? = nil, wire: Quality = .exact) throws(CaptureError) {
        if wanted != .poll { try Privileges.checkBPF() }
        // libbpf reads the kernel's BTF, megabytes of it, and frees it again. glibc would learn from the first of these blocks to
        // keep the next ones in its arena, for good; with the threshold set each one is a mapping and goes back when freed.
        mallopt(M_MMAP_THRESHOLD, 128 << 10)
        var refusals: [Refusal] = []
        for rung in Preemption.rungs where wanted == nil || wanted == rung {
            do {
                self.source =
                    switch rung {
                    case .fexit, .tracepoint, .kprobe:
                        try BPFCapture(
                            rung: rung,
                            reason: (wanted == nil ? refusals + Preemption.passedOver(for: rung) : []).reason,
                            wire: wire
                        )
                    case .poll:
                        try PollCapture(reason: refusals.reason)
                    }
                self.refusals = refusals
                return
            } catch {
                if wanted != nil || rung == .poll { throw error }
                refusals.append(Refusal(rung: rung, reason: "\(error)"))
            }
        }
        throw .malformed("no capture rung")
    }
}

extension [RungSelection.Refusal] {
    fileprivate var reason: String? {
        self.isEmpty ? nil : self.map { "\($0.rung.rawValue): \($0.reason)" }.joined(separator: "; ")
    }
}
