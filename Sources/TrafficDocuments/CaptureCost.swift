import TrafficModel

/// What the programs in the kernel cost while the daemon measured them.
///
/// Decoded from the JSON of the control API, as part of ``DoctorReport``.
public struct CaptureCost: Sendable, Decodable, Hashable {
    /// What one program did during the measurement.
    public struct Program: Sendable, Decodable, Hashable {
        public var name: String
        /// `type/function`, as in ``CaptureStatus/hooks``. For a program that user space runs: `iter/` and what the
        /// program walks.
        public var hook: String
        /// For an iterator: one call for each object that the iterator visited.
        public var calls: UInt64
        public var callsPerSecond: Double
        /// Includes ``CaptureCost/emptyProgramNanoseconds``. `nil` for a program that was not called.
        public var nanosecondsPerCall: Double?
        /// In percent of one processor. Programs at work on several processors may add up to more than 100.
        public var cpuPercent: Double
        /// Calls for which the kernel skipped the program (``CaptureLoss/missedRuns``).
        public var missed: UInt64

        /// - Parameters:
        ///   - growth: By how much the program's counters grew.
        ///   - seconds: The time in which the counters grew.
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

    /// How long the measurement took, by the clock. 0 if there was nothing to measure.
    public var seconds: Double
    /// Empty for the capture method `poll`, which has no programs.
    public var programs: [Program]
    /// Whether another user of the kernel's statistics, such as `sysctl kernel.bpf_stats_enabled` or bpftop, had
    /// already switched them on. `nil` if nothing was measured.
    public var statisticsWereOn: Bool?
    /// The time that the statistics showed for a call of a program that does nothing. This time is part of every
    /// ``Program/nanosecondsPerCall``. `nil` if nothing was measured.
    public var emptyProgramNanoseconds: Double?
    /// How much longer a call of that program took while the statistics were on. Measuring adds this time to every call
    /// of every BPF program of the machine. `nil` if this can't be known, because the statistics were on before.
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

    /// The sum over all programs, in percent of one processor.
    public var cpuPercent: Double { self.programs.reduce(0) { $0 + $1.cpuPercent } }

    package enum CodingKeys: String, CodingKey {
        case seconds, programs
        case statisticsWereOn = "statistics_were_on"
        case emptyProgramNanoseconds = "empty_program_ns_per_call"
        case statisticsNanoseconds = "statistics_ns_per_call"
    }
}

/// What the kernel has counted of a BPF program since the program was loaded (`struct bpf_prog_info`). The kernel
/// counts the first two only while its statistics are on.
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

    /// What was added since `earlier`. If a counter went backwards, all three counters began anew in between. Then the
    /// growth is what they have reached since, and never a huge number.
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

    /// `nil` if nothing ran.
    public var nanosecondsPerRun: Double? {
        self.runs > 0 ? Double(self.nanoseconds) / Double(self.runs) : nil
    }
}
