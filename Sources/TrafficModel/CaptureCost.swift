/// What the programs in the kernel cost while they were measured.
///
/// Decoded from the JSON of the control API, as part of ``DoctorReport``.
public struct CaptureCost: Sendable, Decodable, Hashable {
    /// What one program did meanwhile.
    public struct Program: Sendable, Decodable, Hashable {
        public var name: String
        /// `type/function`, as in ``CaptureStatus/hooks``. Of a program that user space runs, `iter/` and what it walks.
        public var hook: String
        /// Of an iterator, one for each thing that it came by.
        public var calls: UInt64
        public var callsPerSecond: Double
        /// Includes ``CaptureCost/emptyProgramNanoseconds``. `nil` for a program that was not called.
        public var nanosecondsPerCall: Double?
        /// Of one processor: programs at work on several at once may add up to more than 100.
        public var cpuPercent: Double
        /// Calls that the kernel left it out of (``CaptureLoss/missedRuns``).
        public var missed: UInt64

        /// - Parameters:
        ///   - growth: What the program's counters grew by.
        ///   - seconds: In what time.
        public init(name: String, hook: String, growth: ProgramCounters, seconds: Double) {
            self.name = name
            self.hook = hook
            self.calls = growth.runs
            self.callsPerSecond = seconds > 0 ? Double(growth.runs) / seconds : 0
            self.nanosecondsPerCall = growth.nanosecondsPerRun
            self.cpuPercent = seconds > 0 ? Double(growth.nanoseconds) / seconds / 1e7 : 0
            self.missed = growth.missed
        }

        package enum CodingKeys: String, CodingKey {
            case name, hook, calls
            case callsPerSecond = "calls_per_second"
            case nanosecondsPerCall = "ns_per_call"
            case cpuPercent = "cpu_percent"
            case missed
        }
    }

    /// For how long, as the clock had it. 0 where there was nothing to measure.
    public var seconds: Double
    /// Empty on the rung `poll`, which has none.
    public var programs: [Program]
    /// Whether somebody else, such as `sysctl kernel.bpf_stats_enabled` or bpftop, had the kernel's statistics on already. `nil`
    /// where nothing was measured.
    public var statisticsWereOn: Bool?
    /// What the statistics showed for a call of a program that does nothing: it is in every
    /// ``Program/nanosecondsPerCall``. `nil` where nothing was measured.
    public var emptyProgramNanoseconds: Double?
    /// What a call of that program took longer while statistics were on: what measuring adds to every call of every BPF program
    /// of the machine. `nil` where that can't be told, because they were on before.
    public var statisticsNanoseconds: Double?

    public init(
        seconds: Double,
        programs: [Program],
        statisticsWereOn: Bool? = nil,
        emptyProgramNanoseconds: Double? = nil,
        statisticsNanoseconds: Double? = nil
    ) {
        self.seconds = seconds
        self.programs = programs
        self.statisticsWereOn = statisticsWereOn
        self.emptyProgramNanoseconds = emptyProgramNanoseconds
        self.statisticsNanoseconds = statisticsNanoseconds
    }

    /// Of all programs, in percent of one processor.
    public var cpuPercent: Double { self.programs.reduce(0) { $0 + $1.cpuPercent } }

    package enum CodingKeys: String, CodingKey {
        case seconds, programs
        case statisticsWereOn = "statistics_were_on"
        case emptyProgramNanoseconds = "empty_program_ns_per_call"
        case statisticsNanoseconds = "statistics_ns_per_call"
    }
}

/// What the kernel has counted of a BPF program since it was loaded (`struct bpf_prog_info`); the first two only while its
/// statistics are on.
public struct ProgramCounters: Sendable, Hashable {
    /// `run_cnt`.
    public var runs: UInt64
    /// `run_time_ns`.
    public var nanoseconds: UInt64
    /// `recursion_misses`.
    public var missed: UInt64

    public init(runs: UInt64 = 0, nanoseconds: UInt64 = 0, missed: UInt64 = 0) {
        self.runs = runs
        self.nanoseconds = nanoseconds
        self.missed = missed
    }

    /// What was added since `earlier`. Counters that went backwards began anew in between, all three: then it is what they have
    /// reached since, and never a huge number.
    public func growth(since earlier: ProgramCounters) -> ProgramCounters {
        let isSameCount =
            self.runs >= earlier.runs && self.nanoseconds >= earlier.nanoseconds && self.missed >= earlier.missed
        guard isSameCount else { return self }
        return ProgramCounters(
            runs: self.runs - earlier.runs,
            nanoseconds: self.nanoseconds - earlier.nanoseconds,
            missed: self.missed - earlier.missed
        )
    }

    /// `nil` where nothing ran.
    public var nanosecondsPerRun: Double? {
        self.runs > 0 ? Double(self.nanoseconds) / Double(self.runs) : nil
    }
}
