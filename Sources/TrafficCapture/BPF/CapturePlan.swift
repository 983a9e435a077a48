import TrafficModel

/// Which programs a method uses on this kernel, and what the capture does not see without those that the kernel refuses
/// or has no place for.
struct CapturePlan {
    let programs: [BPFPrograms.Hook]
    let blindSpots: [String]
    /// Which packets the programs count.
    let wire: WireCounting
    /// Whether a TCP socket leaves its totals when its last file is gone (`bpf/closing.bpf.h`). It does where the
    /// kernel may run no program at the socket's end, and where no sweep lists the socket between close(2) and that
    /// end. Without effect for `kprobe` and `lifecycle`.
    let leavesTotals: Bool

    /// - Parameters:
    ///   - wire: Which packets to count.
    ///   - refused: By program, why the kernel refuses it.
    ///   - isKnown: Whether the kernel has the place of a program.
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if the method can't do without a program that is missing.
    init(
        _ method: CaptureMethod,
        wire: WireCounting,
        facts: KernelFacts = .ofThisKernel,
        refused: [String: String] = [:],
        isKnown: (BPFPrograms.Hook) -> Bool = \.isKnownToKernel
    ) throws(CaptureError) {
        var (programs, missing, needless) = Self.split(method, facts: facts, refused: refused, isKnown: isKnown)
        let unused = BPFPrograms.unused(with: wire)
        programs.removeAll { unused.contains($0.program) }
        missing.removeAll { unused.contains($0.hook.program) }
        if programs.contains(where: { $0.program == BPFPrograms.sweep }) {
            programs.removeAll { BPFPrograms.sweepSubstitutes.contains($0.program) }
            missing.removeAll { BPFPrograms.sweepSubstitutes.contains($0.hook.program) }
        }
        var blindSpots = BPFPrograms.blindSpots(of: method)
        if facts.maySkipPrograms(of: method) {
            blindSpots.append(BPFPrograms.skippedProgramBlindSpot)
        }
        if method == .tracepoint && facts.preemptsFunctions
            && programs.contains(where: { $0.program == BPFPrograms.splice })
        {
            blindSpots.append(
                "\(BPFPrograms.splicedBlindSpot), in calls for which this kernel skips a program (`missed_runs`)"
            )
        }
        for (hook, reason) in missing {
            switch hook.without {
            case .blind(let spot):
                blindSpots.append("\(spot) (\(reason))")
            case .substitute(let substitutes, let spot)
            where substitutes.subtracting(needless).isSubset(of: programs.map(\.program)):
                if let spot { blindSpots.append("\(spot) (\(reason))") }
            case .substitute(let substitutes, _):
                let others = substitutes.sorted().map { "\($0): \(refused[$0] ?? "not there")" }.joined(separator: ", ")
                throw .unsupported(
                    feature: "method \(method.rawValue)",
                    reason: "\(reason), and its substitute \(others)"
                )
            case .otherMethod:
                throw .unsupported(feature: "method \(method.rawValue)", reason: reason)
            }
        }
        self.wire = WireCounting(by: Set(programs.map(\.program)))
        switch wire {
        case _ where method == .lifecycle: blindSpots.append(BPFPrograms.streamsBlindSpot)
        case .derived: blindSpots.append("\(BPFPrograms.packetBlindSpot) (`--wire derived`)")
        case .exact: blindSpots.append("\(BPFPrograms.interfaceBlindSpot) (`--wire audited` counts them)")
        case .audited: break
        }
        if facts.hidesProcess1 { blindSpots.append(BPFPrograms.hiddenProcessBlindSpot) }
        self.leavesTotals =
            facts.preemptsTracepoints || facts.hidesProcess1
            || !Set(programs.map(\.program)).isSuperset(of: [BPFPrograms.sweep, "tcp_destroy_twin"])
        if self.leavesTotals && method.object == .storage && method != .lifecycle,
            let release = missing.first(where: { $0.hook.program == BPFPrograms.release })
        {
            blindSpots.append("\(BPFPrograms.unseenEndBlindSpot) (\(release.reason))")
        }
        (self.programs, self.blindSpots) = (programs, blindSpots)
    }

    private typealias Missing = (hook: BPFPrograms.Hook, reason: String)

    /// Which programs of the method can be used. A program leaves with its companions, and one reason is enough.
    /// `needless`: programs whose place this kernel lacks, and nothing is missing.
    private static func split(
        _ method: CaptureMethod,
        facts: KernelFacts,
        refused: [String: String],
        isKnown: (BPFPrograms.Hook) -> Bool
    ) -> (programs: [BPFPrograms.Hook], missing: [Missing], needless: Set<String>) {
        var programs = BPFPrograms.of(method, facts, isKnown: isKnown)
        var missing: [Missing] = []
        var (lacking, needless): (Set<String>, Set<String>) = ([], [])
        for hook in programs {
            if let reason = refused[hook.program] {
                missing.append((hook, "\(hook.program): \(reason)"))
            } else if hook.program == BPFPrograms.sweep && method.object == .storage && !facts.storageWalkIsSafe {
                missing.append((hook, "\(hook.program): the walk through socket storage is not safe on this kernel"))
            } else if !isKnown(hook) {
                lacking.insert(hook.program)
                if hook.kernelMayLackPlace {
                    needless.insert(hook.program)
                } else {
                    missing.append((hook, "the kernel has no \(hook.place)"))
                }
            }
        }
        let companions = missing.reduce(into: Set<String>()) {
            $0.formUnion(BPFPrograms.companions(of: $1.hook.program))
        }
        programs.removeAll { lacking.contains($0.program) || companions.contains($0.program) }
        var said: Set<Set<String>> = []
        missing.removeAll { missing in
            let companions = BPFPrograms.companions(of: missing.hook.program)
            return companions.count > 1 && !said.insert(companions).inserted
        }
        return (programs, missing, needless)
    }

    var names: Set<String> { Set(self.programs.map(\.program)) }
}

extension WireCounting {
    /// - Parameter programs: The programs that the kernel has not refused.
    fileprivate init(by programs: Set<String>) {
        guard programs.isSuperset(of: BPFPrograms.packets) else {
            self = .derived
            return
        }
        self = programs.isSuperset(of: BPFPrograms.interfaces) ? .audited : .exact
    }
}
