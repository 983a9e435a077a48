import CLinux
public import TrafficModel

/// Finds the best method that this machine offers, by loading and attaching the programs of each method in the order of
/// ``KernelFacts/methods``.
public struct MethodSelection {
    /// A better method that was tried first, and why it is not in use.
    public struct Refusal: Sendable, Hashable {
        public var method: CaptureMethod
        public var reason: String

        init(method: CaptureMethod, reason: String) {
            (self.method, self.reason) = (method, reason)
        }

        /// - Parameter error: Why the method can't be used.
        init(method: CaptureMethod, _ error: CaptureError) {
            if case .unsupported("method \(method.rawValue)", let reason) = error {
                self.init(method: method, reason: reason)
            } else {
                self.init(method: method, reason: "\(error)")
            }
        }
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
        for method in wanted.map({ [$0] }) ?? KernelFacts.ofThisKernel.methods {
            do {
                self.source =
                    switch method {
                    case .fexit, .tracepoint, .kprobe, .lifecycle:
                        try BPFCapture(
                            method: method,
                            reason: (wanted == nil ? refusals + KernelFacts.ofThisKernel.passedOver(for: method) : [])
                                .reason,
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
                refusals.append(Refusal(method: method, error))
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

// MARK: What a kernel would take

extension MethodSelection {
    /// How a method would count on this kernel.
    public struct Finding: Sendable, Hashable {
        public var method: CaptureMethod
        /// Why it can't be used; `nil` if it can.
        public var refusal: String?
        public var blindSpots: [String]
    }

    /// Tries methods one after the other. Nothing stays attached.
    ///
    /// - Parameter wanted: The only method to try; `nil` for all that are tried at a start, best first.
    /// - Throws: ``CaptureError/permission(needs:)`` if the process may not load BPF programs at all.
    public static func findings(of wanted: CaptureMethod?, wire: WireCounting) throws(CaptureError) -> [Finding] {
        if wanted != .poll { try Privileges.checkBPF() }
        return (wanted.map { [$0] } ?? KernelFacts.ofThisKernel.methods).map { method in
            do throws(CaptureError) {
                let source: any CaptureSource =
                    method == .poll ? try PollCapture() : try BPFCapture(method: method, wire: wire)
                return Finding(method: method, refusal: nil, blindSpots: source.status.blindSpots)
            } catch {
                return Finding(method: method, refusal: Refusal(method: method, error).reason, blindSpots: [])
            }
        }
    }

    /// What to do about a kernel that leaves only ``CaptureMethod/poll``.
    public static let remedyForPolling =
        "Exact counting needs root and Linux 5.10 or later with BTF (CONFIG_DEBUG_INFO_BTF). If root gets \"Operation not "
        + "permitted\", look for lockdown=confidentiality, a container's seccomp filter, or a security module. `sudo trafficd "
        + "check` lists what is refused. Start trafficd anew when it is mended"
}
