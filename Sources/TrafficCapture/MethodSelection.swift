import CLinux
public import TrafficModel

/// Finds the best method that this machine offers, by loading and attaching the programs of each method in the order of
/// ``Preemption/methods``.
public struct MethodSelection {
    /// A better method that was tried first, and why it is not in use.
    public struct Refusal: Sendable, Hashable {
        public var method: CaptureMethod
        public var reason: String
    }

    public let source: any CaptureSource
    public let refusals: [Refusal]

    /// - Parameter capture: One that an earlier daemon selected and left.
    public init(goingOnWith capture: BPFCapture) {
        (self.source, self.refusals) = (capture, [])
    }

    /// - Parameters:
    ///   - wanted: The only method to accept; `nil` for the best one.
    ///   - wire: Which packets to count.
    ///   - outlivesDaemon: Whether the capture is to be pinned, if it can be.
    /// - Throws: ``CaptureError/permission(needs:)`` if the process may not load BPF programs at all; otherwise the
    ///   error of the wanted method, or of the last method tried.
    public init(
        wanted: CaptureMethod? = nil,
        wire: WireCounting = .exact,
        outlivesDaemon: Bool = false
    ) throws(CaptureError) {
        if wanted != .poll { try Privileges.checkBPF() }
        // libbpf reads the kernel's BTF, which has megabytes, and frees the memory again. After the first free of such
        // a block, glibc would keep later blocks in its arena forever. With this threshold each block is a mapping and
        // returns to the kernel when freed.
        mallopt(M_MMAP_THRESHOLD, 128 << 10)
        var refusals: [Refusal] = []
        for method in wanted.map({ [$0] }) ?? Preemption.methods {
            do {
                self.source =
                    switch method {
                    case .fexit, .tracepoint, .kprobe, .lifecycle:
                        try BPFCapture(
                            method: method,
                            reason: (wanted == nil ? refusals + Preemption.passedOver(for: method) : []).reason,
                            wire: wire,
                            outlivesDaemon: outlivesDaemon
                        )
                    case .poll:
                        try PollCapture(reason: refusals.reason)
                    }
                self.refusals = refusals
                return
            } catch {
                if wanted != nil || method == .poll { throw error }
                refusals.append(Refusal(method: method, reason: "\(error)"))
            }
        }
        throw .malformed("no capture method")
    }
}

extension [MethodSelection.Refusal] {
    fileprivate var reason: String? {
        self.isEmpty ? nil : self.map { "\($0.method.rawValue): \($0.reason)" }.joined(separator: "; ")
    }
}
