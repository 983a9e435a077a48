/// How the daemon counts bytes at present, and what this way of counting can't see.
public struct CaptureStatus: Sendable, Decodable, Hashable {
    public var method: CaptureMethod
    /// Why the daemon uses this capture method and not a better method. `nil` if the best method is in use, or if the
    /// user asked for this method.
    public var reason: String?
    /// Programs attached, as `type/function`.
    public var hooks: [String]
    /// One sentence each.
    public var blindSpots: [String]
    public var loss: CaptureLoss
    public var reports: ReportCounters
    /// Bytes that sockets left in rows (``FoldedRows``) come with a later sweep: the rows are not complete yet, or they can't
    /// be read before a checkpoint lets the rows before them go.
    /// Or records come later, because a program was just writing one.
    package var awaitsRows = false
    /// The blind spot of that time.
    package static let lateRows = "late at present: some bytes of sockets that closed in a flood"

    public init(
        method: CaptureMethod,
        reason: String? = nil,
        hooks: [String],
        blindSpots: [String],
        loss: CaptureLoss = CaptureLoss(),
        reports: ReportCounters = ReportCounters()
    ) {
        self.method = method
        self.reason = reason
        self.hooks = hooks
        self.blindSpots = blindSpots
        self.loss = loss
        self.reports = reports
    }

    package enum CodingKeys: String, CodingKey {
        case method, reason, hooks
        case blindSpots = "blind_spots"
        case loss, reports
    }
}

/// The capture methods, best first.
public enum CaptureMethod: String, Sendable, Codable, CaseIterable {
    /// BPF on function exits; needs BPF trampolines.
    case fexit
    /// BPF on tracepoints only; Linux 6.3 and later.
    case tracepoint
    /// BPF on function entries and exits by kprobes, for kernels that offer neither of the above.
    case kprobe
    /// `sock_diag` and `/proc`, no BPF.
    case poll
    /// BPF only at the beginning and end of TCP connections, and in the sweep. Only on request, because it sees nothing
    /// but TCP.
    case lifecycle
}

/// What was not counted or came late, since the daemon started. All zero is the normal case.
public struct CaptureLoss: Sendable, Hashable {
    /// Records of closed sockets for which the ring, or the user's part of the ring, had no room. The records waited in
    /// a map instead: late, not lost.
    public var ringFull: UInt64
    /// Closed sockets for whose record there was no room. Their processes or their users have their bytes
    /// (``FoldedRows``). No byte is lost, but the totals, scopes and classes of these sockets are.
    public var socketsFolded: UInt64
    /// Calls on sockets that could get no counters, or no counters for one more process. The same holds for their
    /// bytes.
    public var callsFolded: UInt64
    /// Reads of sockets without counters, and packets, all of which found no room anywhere.
    public var mapFull: UInt64
    /// Records from the kernel that could not be decoded.
    public var recordsMalformed: UInt64
    public var reportsDropped: UInt64
    public var reportsRejected: UInt64
    /// How often a counter of the kernel was lower than before. A defect. The shown numbers never fall.
    public var countersBackwards: UInt64
    /// For how many calls, at most, the kernel skipped a program and its twin because they were at work on that
    /// processor (a task preempted in them, `bpf_prog_info.recursion_misses`). With the capture method `kprobe`, also
    /// calls whose return was not seen. How many bytes those calls moved is not known.
    public var missedRuns: UInt64
    /// How often a part of the kernel's account could not be read. The daemon asked for it again: late, not lost.
    public var readsFailed: UInt64
    /// The time of which nothing is counted, until other counting programs took over. How many bytes were moved then is
    /// not known.
    public var uncountedNanoseconds: UInt64

    public init(
        ringFull: UInt64 = 0,
        socketsFolded: UInt64 = 0,
        callsFolded: UInt64 = 0,
        mapFull: UInt64 = 0,
        recordsMalformed: UInt64 = 0,
        reportsDropped: UInt64 = 0,
        reportsRejected: UInt64 = 0,
        countersBackwards: UInt64 = 0,
        missedRuns: UInt64 = 0,
        readsFailed: UInt64 = 0,
        uncountedNanoseconds: UInt64 = 0
    ) {
        self.ringFull = ringFull
        self.socketsFolded = socketsFolded
        self.callsFolded = callsFolded
        self.mapFull = mapFull
        self.recordsMalformed = recordsMalformed
        self.reportsDropped = reportsDropped
        self.reportsRejected = reportsRejected
        self.countersBackwards = countersBackwards
        self.missedRuns = missedRuns
        self.readsFailed = readsFailed
        self.uncountedNanoseconds = uncountedNanoseconds
    }

    package static func + (left: CaptureLoss, right: CaptureLoss) -> CaptureLoss {
        CaptureLoss(
            ringFull: left.ringFull +| right.ringFull,
            socketsFolded: left.socketsFolded +| right.socketsFolded,
            callsFolded: left.callsFolded +| right.callsFolded,
            mapFull: left.mapFull +| right.mapFull,
            recordsMalformed: left.recordsMalformed +| right.recordsMalformed,
            reportsDropped: left.reportsDropped +| right.reportsDropped,
            reportsRejected: left.reportsRejected +| right.reportsRejected,
            countersBackwards: left.countersBackwards +| right.countersBackwards,
            missedRuns: left.missedRuns +| right.missedRuns,
            readsFailed: left.readsFailed +| right.readsFailed,
            uncountedNanoseconds: left.uncountedNanoseconds +| right.uncountedNanoseconds
        )
    }

    /// Whether any byte is missing from the totals, though programs counted. A full ring alone loses no byte, and rows
    /// lose no byte.
    public var isLossy: Bool {
        [self.mapFull, self.recordsMalformed, self.missedRuns, self.countersBackwards].contains { $0 > 0 }
    }

    package enum CodingKeys: String, CodingKey {
        case ringFull = "ring_full"
        case socketsFolded = "sockets_folded"
        case callsFolded = "calls_folded"
        case mapFull = "map_full"
        case recordsMalformed = "records_malformed"
        case reportsDropped = "reports_dropped"
        case reportsRejected = "reports_rejected"
        case countersBackwards = "counters_backwards"
        case missedRuns = "missed_runs"
        case readsFailed = "reads_failed"
        case uncountedNanoseconds = "uncounted_ns"
    }
}

extension CaptureLoss: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            ringFull: try container.decode(UInt64.self, forKey: .ringFull),
            socketsFolded: try container.decodeIfPresent(UInt64.self, forKey: .socketsFolded) ?? 0,
            callsFolded: try container.decodeIfPresent(UInt64.self, forKey: .callsFolded) ?? 0,
            mapFull: try container.decode(UInt64.self, forKey: .mapFull),
            recordsMalformed: try container.decode(UInt64.self, forKey: .recordsMalformed),
            reportsDropped: try container.decode(UInt64.self, forKey: .reportsDropped),
            reportsRejected: try container.decode(UInt64.self, forKey: .reportsRejected),
            countersBackwards: try container.decode(UInt64.self, forKey: .countersBackwards),
            missedRuns: try container.decode(UInt64.self, forKey: .missedRuns),
            // Newer than the others: older recordings and daemons do not have these fields.
            readsFailed: try container.decodeIfPresent(UInt64.self, forKey: .readsFailed) ?? 0,
            uncountedNanoseconds: try container.decodeIfPresent(UInt64.self, forKey: .uncountedNanoseconds) ?? 0
        )
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(self.ringFull, forKey: .ringFull)
        try container.encode(self.socketsFolded, forKey: .socketsFolded)
        try container.encode(self.callsFolded, forKey: .callsFolded)
        try container.encode(self.mapFull, forKey: .mapFull)
        try container.encode(self.recordsMalformed, forKey: .recordsMalformed)
        try container.encode(self.reportsDropped, forKey: .reportsDropped)
        try container.encode(self.reportsRejected, forKey: .reportsRejected)
        try container.encode(self.countersBackwards, forKey: .countersBackwards)
        try container.encode(self.missedRuns, forKey: .missedRuns)
        try container.encode(self.readsFailed, forKey: .readsFailed)
        try container.encode(self.uncountedNanoseconds, forKey: .uncountedNanoseconds)
    }
}
