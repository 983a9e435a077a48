import CLibbpf
import Glibc
import Synchronization
public import TrafficDocuments
import TrafficModel

/// Measures what the capture's programs cost in the kernel.
///
/// The meter has its own descriptors, so it does not disturb the thread that counts. Any thread may use the meter, and
/// several may do so at once.
public final class ProgramMeter: Sendable {
    private struct Program: ~Copyable, Sendable {
        let name: String
        let hook: String
        let descriptor: OwnedDescriptor
    }

    /// Arrays hold no noncopyable values yet.
    private final class Box: Sendable {
        let program: Program
        init(_ program: consuming Program) { self.program = program }
    }

    /// The kernel's BPF statistics, switched on as long as this value lives. Dropping the value switches them off,
    /// unless another process has them on.
    fileprivate struct Statistics: ~Copyable {
        /// `nil` if somebody else has them on, and this process may not switch them on.
        let descriptor: OwnedDescriptor?
        let findings: Findings
    }

    /// Findings that are possible only when the statistics are switched on.
    fileprivate struct Findings: Sendable {
        var wereOn = false
        /// This process may not switch them on: others must leave them on.
        var areOfOthers = false
        var emptyProgramNanoseconds: Double?
        var addedNanoseconds: Double?
    }

    /// Concurrent measurements share the statistics. The lock is held while statistics go on and off, so that a
    /// measurement does not take the statistics of another measurement for those of another process.
    private struct Use: ~Copyable {
        var measurements = 0
        var statistics: Statistics?
    }

    private let programs: [Box]
    private let use = Mutex<Use>(Use())

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if no descriptor is left.
    init(programs: [LoadedProgram]) throws(CaptureError) {
        var boxes: [Box] = []
        for program in programs {
            let descriptor = try check("fcntl", program.name) { fcntl(program.descriptor, F_DUPFD_CLOEXEC, 0) }
            boxes.append(
                Box(Program(name: program.name, hook: program.section, descriptor: OwnedDescriptor(owning: descriptor)))
            )
        }
        self.programs = boxes
    }

    /// Switches the kernel's BPF statistics on, if nobody else has, and notes the present counters. Blocks for some
    /// milliseconds.
    ///
    /// - Throws: ``CaptureError/permission(needs:)`` if the process lacks the right,
    ///   ``CaptureError/system(call:object:errno:)`` otherwise, also if the kernel is older than `BPF_ENABLE_STATS`
    ///   (Linux 5.8).
    public func start() throws(CaptureError) -> ProgramMeasurement {
        try self.use.withLock { use throws(CaptureError) in
            // Where somebody else had them on, they may be off now.
            let areSure = use.measurements > 0 && use.statistics?.findings.areOfOthers == false
            if !areSure { use.statistics = try Statistics() }
            defer { if use.measurements == 0 { use.statistics = nil } }
            let findings = use.statistics?.findings ?? Findings()
            let before = try self.counters()
            use.measurements += 1
            return ProgramMeasurement(meter: self, findings: findings, before: before)
        }
    }

    fileprivate func ended() {
        self.use.withLock { use in
            use.measurements -= 1
            if use.measurements == 0 { use.statistics = nil }
        }
    }

    fileprivate func counters() throws(CaptureError) -> [ProgramCounters] {
        var counters: [ProgramCounters] = []
        for box in self.programs {
            counters.append(
                try ProgramCounters(ofProgram: box.program.descriptor.descriptor, named: box.program.name)
            )
        }
        return counters
    }

    fileprivate func programs(grownBy growth: [ProgramCounters], in seconds: Double) -> [CaptureCost.Program] {
        zip(self.programs, growth).map { box, growth in
            CaptureCost.Program(name: box.program.name, hook: box.program.hook, growth: growth, seconds: seconds)
        }
    }
}

extension ProgramMeter.Statistics {
    init() throws(CaptureError) {
        let empty = try EmptyProgram()
        let without = try empty.run()
        var number: Int32?
        do {
            number = try check("bpf_enable_stats") { bpf_enable_stats(BPF_STATS_RUN_TIME) }
        } catch .system(_, _, EPERM) where without.shownNanoseconds != nil {
            // Somebody else has them on.
        } catch .system(_, _, EPERM) {
            throw .permission(
                needs: """
                    measuring needs CAP_SYS_ADMIN, which this daemon does not have. Switch the kernel's BPF statistics on \
                    for the measurement (sudo sysctl kernel.bpf_stats_enabled=1, afterwards =0), or start trafficd with \
                    --keep-sys-admin
                    """
            )
        }
        let descriptor = number.map { OwnedDescriptor(owning: $0) }
        let with = try empty.run()
        let added = with.takenNanoseconds - without.takenNanoseconds
        self.descriptor = descriptor
        self.findings = ProgramMeter.Findings(
            wereOn: without.shownNanoseconds != nil,
            areOfOthers: number == nil,
            emptyProgramNanoseconds: with.shownNanoseconds,
            addedNanoseconds: without.shownNanoseconds == nil && added > 0 ? added : nil
        )
    }
}

/// A measurement by a ``ProgramMeter``, from its start on. Dropping the measurement switches the kernel's BPF
/// statistics off, unless another measurement or another process has them on.
public final class ProgramMeasurement: Sendable {
    private let meter: ProgramMeter
    private let findings: ProgramMeter.Findings
    private let before: [ProgramCounters]
    private let startedAt = MonotonicClock.nanoseconds()

    fileprivate init(meter: ProgramMeter, findings: ProgramMeter.Findings, before: [ProgramCounters]) {
        self.meter = meter
        self.findings = findings
        self.before = before
    }

    deinit {
        self.meter.ended()
    }

    /// What the programs have cost since the start.
    ///
    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the kernel does not report the counters,
    ///   ``CaptureError/permission(needs:)`` if the statistics were somebody else's, and are off now.
    public func cost() throws(CaptureError) -> CaptureCost {
        let after = try self.meter.counters()
        let seconds = Double(MonotonicClock.nanoseconds() - self.startedAt) / 1e9
        if self.findings.areOfOthers, try EmptyProgram().run().shownNanoseconds == nil {
            throw .permission(
                needs:
                    "somebody switched the kernel's BPF statistics off during the measurement: leave them on until its end"
            )
        }
        return CaptureCost(
            seconds: seconds,
            programs: self.meter.programs(
                grownBy: zip(after, self.before).map { $0.growth(since: $1) },
                in: seconds
            ),
            statisticsWereOn: self.findings.wereOn,
            emptyProgramNanoseconds: self.findings.emptyProgramNanoseconds,
            statisticsNanoseconds: self.findings.addedNanoseconds
        )
    }
}

/// A program that does nothing. It shows the cost of the statistics themselves on this machine.
private struct EmptyProgram: ~Copyable {
    struct Run {
        /// Nanoseconds of one call by the statistics; `nil` if they were off.
        var shownNanoseconds: Double?
        /// Nanoseconds of one call, by the clock around many calls.
        var takenNanoseconds: Double
    }

    /// The quickest of a few rounds counts, because the other rounds may have been interrupted.
    private static let rounds = 8
    private static let callsInRound: Int32 = 2500
    private let descriptor: OwnedDescriptor

    init() throws(CaptureError) {
        self.descriptor = OwnedDescriptor(owning: try check("bpf_prog_load", "empty") { shim_load_empty_program() })
    }

    borrowing func run() throws(CaptureError) -> Run {
        let descriptor = self.descriptor.descriptor
        var shown: Double?
        var taken = Double.infinity
        var before = try ProgramCounters(ofProgram: descriptor, named: "empty")
        for _ in 0..<Self.rounds {
            let mean = try check("bpf_prog_test_run", "empty") { shim_run_program(descriptor, Self.callsInRound) }
            let after = try ProgramCounters(ofProgram: descriptor, named: "empty")
            if let mean = after.growth(since: before).nanosecondsPerRun { shown = min(shown ?? mean, mean) }
            taken = min(taken, Double(mean))
            before = after
        }
        return Run(shownNanoseconds: shown, takenNanoseconds: taken)
    }
}

extension ProgramCounters {
    /// - Throws: ``CaptureError/system(call:object:errno:)`` from `bpf_obj_get_info_by_fd`.
    init(ofProgram descriptor: Int32, named name: String) throws(CaptureError) {
        var info = bpf_prog_info()
        var length = UInt32(MemoryLayout<bpf_prog_info>.size)
        try check("bpf_obj_get_info_by_fd", name) { bpf_obj_get_info_by_fd(descriptor, &info, &length) }
        self.init(runs: info.run_cnt, nanoseconds: info.run_time_ns, missed: info.recursion_misses)
    }
}
