import CLibbpf
import Foundation
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("What a method does without a program")
struct CapturePlanTests {
    /// A kernel without surprises: it has every place, and its walk through socket storage is safe.
    static let facts: KernelFacts = {
        var facts = KernelFacts(nil)
        (facts.storageWalkIsSafe, facts.preemptsTracepoints, facts.preemptsFunctions) = (true, false, false)
        return facts
    }()

    static let methods: [CaptureMethod] = [.fexit, .tracepoint, .kprobe, .lifecycle]

    static func plan(
        _ method: CaptureMethod,
        wire: WireCounting = .audited,
        facts: KernelFacts = Self.facts,
        refusing refused: Set<String> = [],
        isKnown: (BPFPrograms.Hook) -> Bool = { _ in true }
    ) throws(CaptureError) -> CapturePlan {
        let refused = Dictionary(uniqueKeysWithValues: refused.map { ($0, "no") })
        return try CapturePlan(method, wire: wire, facts: facts, refused: refused, isKnown: isKnown)
    }

    @Test(
        "each program refused in turn: the plan lacks it, and says so or has another method tried",
        arguments: methods
    )
    func eachRefused(method: CaptureMethod) throws {
        let whole = try Self.plan(method)
        #expect(whole.names.isDisjoint(with: BPFPrograms.sweepSubstitutes))
        for hook in whole.programs {
            let result = Result { () throws(CaptureError) in try Self.plan(method, refusing: [hook.program]) }
            if case .failure(let error) = result {
                #expect(hook.without == .otherMethod)
                #expect("\(error)".contains(hook.program))
                continue
            }
            let plan = try result.get()
            #expect(!plan.names.contains(hook.program))
            switch hook.without {
            case .otherMethod: Issue.record("\(hook.program) is needed")
            case .blind(let spot): #expect(plan.blindSpots.contains("\(spot) (\(hook.program): no)"))
            case .substitute(let substitutes, let spot):
                #expect(plan.names.isSuperset(of: substitutes))
                if let spot { #expect(plan.blindSpots.contains("\(spot) (\(hook.program): no)")) }
            }
        }
    }

    @Test(
        "a program and its substitute refused: the next method is tried, and the reason names a program",
        arguments: methods
    )
    func bothRefused(method: CaptureMethod) throws {
        for hook in try Self.plan(method).programs {
            guard case .substitute(let substitutes, _) = hook.without else { continue }
            let error = #expect(throws: CaptureError.self) {
                try Self.plan(method, refusing: substitutes.union([hook.program]))
            }
            let reason = "\(try #require(error))"
            #expect(substitutes.union([hook.program]).contains { reason.contains($0) }, "\(reason)")
        }
    }

    @Test("without the sweep of all sockets the held ones and those of the namespaces are swept")
    func sweeps() throws {
        var unsafe = Self.facts
        unsafe.storageWalkIsSafe = false
        for plan in [
            try Self.plan(.tracepoint, refusing: [BPFPrograms.sweep]), try Self.plan(.tracepoint, facts: unsafe),
        ] {
            #expect(plan.names.isSuperset(of: BPFPrograms.sweepSubstitutes))
            #expect(!plan.names.contains(BPFPrograms.sweep))
            #expect(plan.blindSpots.contains { $0.hasPrefix(BPFPrograms.heldBlindSpot) })
        }
        // Only the walk through socket storage has that fault, and `kprobe` has none.
        #expect(try Self.plan(.kprobe, facts: unsafe).names.contains(BPFPrograms.sweep))
        let held = try Self.plan(.tracepoint, refusing: [BPFPrograms.sweep, BPFPrograms.sweepOfTCPSockets])
        #expect(held.blindSpots.contains { $0.hasPrefix("TCP sockets that no process holds") })
    }

    @Test("sockets leave their totals at their release only where a program may miss their end")
    func unseenEnds() throws {
        #expect(try !Self.plan(.tracepoint).leavesTotals)
        #expect(try Self.plan(.tracepoint, refusing: [BPFPrograms.sweep]).leavesTotals)
        for change in [\KernelFacts.hidesProcess1, \.preemptsTracepoints] {
            var facts = Self.facts
            facts[keyPath: change] = true
            let plan = try Self.plan(.tracepoint, facts: facts)
            #expect(plan.leavesTotals)
            #expect(plan.blindSpots.contains(BPFPrograms.hiddenProcessBlindSpot) == facts.hidesProcess1)
        }
        // Without the program at the release they leave nothing.
        let says = { (facts: KernelFacts, refused: Set<String>) in
            try Self.plan(.tracepoint, facts: facts, refusing: refused).blindSpots.contains {
                $0.hasPrefix(BPFPrograms.unseenEndBlindSpot)
            }
        }
        var preempting = Self.facts
        preempting.preemptsTracepoints = true
        #expect(try says(preempting, [BPFPrograms.release]))
        #expect(try !says(preempting, []) && !says(Self.facts, [BPFPrograms.release]))
    }

    @Test("the counts of packets are given up together, those at interfaces alone")
    func packets() throws {
        let plan = try Self.plan(.tracepoint, refusing: ["packet_received"])
        #expect(plan.wire == .derived)
        #expect(plan.names.isDisjoint(with: BPFPrograms.packets.union(BPFPrograms.interfaces)))
        #expect(plan.blindSpots.count { $0.hasPrefix(BPFPrograms.packetBlindSpot) } == 1)
        #expect(try Self.plan(.tracepoint, refusing: ["interface_sent"]).wire == .exact)
        // What is not used cannot be missed.
        #expect(
            !(try Self.plan(.tracepoint, wire: .exact, refusing: ["interface_sent"])).blindSpots.contains {
                $0.contains("no)")
            }
        )
    }

    @Test("a kernel may lack some functions without a loss, and no others")
    func lacking() throws {
        let without = { (function: String) throws(CaptureError) in
            try Self.plan(.fexit) { $0.place != .fexit(function) }
        }
        #expect(try without("inet6_sendmsg").blindSpots == Self.plan(.fexit).blindSpots)
        #expect(
            try without("sock_splice_read").blindSpots.contains { $0.contains("the kernel has no sock_splice_read") }
        )
        #expect(throws: CaptureError.self) { try without("inet_sendmsg") }
    }

    @Test("a substitute whose place this kernel lacks, and needs not, is not missing")
    func needlessSubstitute() throws {
        let withoutIPv6 = { (hook: BPFPrograms.Hook) in !hook.program.hasPrefix("inet6_") }
        let plan = try Self.plan(.kprobe, refusing: ["datagram_consumed"], isKnown: withoutIPv6)
        #expect(plan.names.contains("inet_recvmsg_returned") && !plan.names.contains("datagram_consumed"))
    }

    @Test("where the kernel may skip programs, the methods without twins say so")
    func skippedPrograms() throws {
        var (everywhere, inFunctions) = (Self.facts, Self.facts)
        everywhere.preemptsTracepoints = true
        inFunctions.preemptsFunctions = true
        for method in Self.methods {
            let plans = try [Self.facts, inFunctions, everywhere].map { try Self.plan(method, facts: $0).blindSpots }
            let says = plans.map { $0.contains(BPFPrograms.skippedProgramBlindSpot) }
            #expect(says == [false, method == .fexit, method == .fexit || method == .kprobe])
            // The one program of a function that `tracepoint` has.
            let splices = plans.map { $0.contains { $0.hasPrefix("\(BPFPrograms.splicedBlindSpot), in calls") } }
            #expect(splices == [false, method == .tracepoint, false])
        }
    }

    @Test("where a kernel shows nothing of itself, the form is used that is right on every kernel")
    func nothingShown() {
        let facts = KernelFacts(nil)
        #expect(!facts.storageWalkIsSafe && !facts.hashesAllocateAsNeeded)
        #expect(facts.preemptsTracepoints && facts.preemptsFunctions)
    }

    /// The table of docs/how-it-counts.md.
    static func table() -> [String] {
        var preempting = Self.facts
        preempting.preemptsTracepoints = true
        var order: [BPFPrograms.Hook] = []
        var users: [BPFPrograms.Hook: [CaptureMethod]] = [:]
        for method in self.methods {
            let hooks = BPFPrograms.of(method, preempting, isKnown: { _ in true })
            for hook in hooks + (method == .fexit ? BPFPrograms.framesByExit : []) {
                if users[hook] == nil { order.append(hook) }
                users[hook, default: []].append(method)
            }
        }
        var rows: [(programs: [String], methods: String, without: String)] = []
        for hook in order {
            let methods = users[hook]?.map { "`\($0.rawValue)`" } ?? []
            let used = methods.count == self.methods.count ? "all" : methods.joined(separator: ", ")
            let without =
                switch hook.without {
                case .otherMethod: "the next method is tried"
                case .blind(let spot): "not seen: \(spot)"
                case .substitute(let others, let spot):
                    others.sorted().map { "`\($0)`" }.joined(separator: ", ") + " does its work"
                        + (spot.map { "; not seen: \($0)" } ?? "")
                }
            if let index = rows.firstIndex(where: { $0.methods == used && $0.without == without }) {
                rows[index].programs.append(hook.program)
            } else {
                rows.append(([hook.program], used, without))
            }
        }
        return ["| programs | methods | if the kernel refuses one |", "|---|---|---|"]
            + rows.map { row in
                "| \(row.programs.map { "`\($0)`" }.joined(separator: ", ")) | \(row.methods) | \(row.without) |"
            }
    }

    @Test("docs/how-it-counts.md has the table of programs as it is in the code")
    func documents() throws {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let text = try String(contentsOf: root.appending(path: "docs/how-it-counts.md"), encoding: .utf8)
        let table = Self.table().joined(separator: "\n")
        #expect(text.contains(table), "put this table there:\n\(table)")
    }
}
