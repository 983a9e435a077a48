import CTrafficABI
import TrafficEvents
import TrafficModel

/// The walks over open sockets: the sweep, which reports those that changed; the census, which finds out which are gone; and,
/// if the sweep lists only sockets that processes hold, the walk through the network namespaces.
extension BPFCapture {
    /// Finds the process of an accepted, idle connection: the process that holds the socket.
    func adoptHeldSockets() {
        // With `lifecycle` no call tells whether a further process uses a socket.
        guard self.sawUnowned || self.status.method == .lifecycle, MonotonicClock.nanoseconds() >= self.adoptRestsUntil
        else { return }
        let begin = MonotonicClock.threadNanoseconds()
        let isDone = self.reads.attempt(BPFPrograms.adoptionOfHeldSockets) { () throws(CaptureError) in
            // A kernel may refuse it: a blind spot says so.
            try self.kernel.iterators[BPFPrograms.adoptionOfHeldSockets]?.run()
        }
        let cost = MonotonicClock.threadNanoseconds() - begin
        self.adoptRestsUntil = MonotonicClock.nanoseconds() + cost * Self.adoptRestFactor
        self.sawUnowned = !isDone
    }

    /// A walk through all open files takes longer the more files users have open. After a walk the daemon rests so many times
    /// as long, so that a user with many files cannot keep the daemon busy.
    private static let adoptRestFactor: UInt64 = 19

    struct Census {
        var serials: Set<UInt64> = []
        /// The last walk was not disturbed: no living socket is missing.
        var isWhole = false
    }

    /// - Returns: The serials of all sockets if a census is due, otherwise `nil`. A census is due at regular intervals,
    ///   and if the kernel has missed calls since the last census: a missed call may have been the end of a socket.
    func sweepSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Census? {
        let missed = self.losses.loss.missedRuns
        self.censuses.sweepBegins(missed: missed)
        // No census of a hash: a walk through a hash may skip an element while neighbouring elements come and go. A sweep of
        // held sockets is half of a census: the other half is a walk through the network namespaces.
        let isPossible =
            self.status.method != .kprobe
            && (self.kernel.sweepsAllSockets
                || self.kernel.listsAllOfNamespaces && self.walk?.nextScope == .all)
        let isCensus = isPossible && (self.leavesProgramsOut || self.censuses.isDue)
        self.liveSettings.report_all = isCensus || self.isFirstSweepAfterStart ? 1 : 0
        try self.writeLiveSettings()
        var census = Census()
        let sweep = Result { () throws(CaptureError) in
            for _ in 1...Self.mostWalks {
                let ended = try self.losses.endedSockets()
                let bytes = try self.runSweep { event in
                    if case .socket(let socket) = event {
                        if isCensus { census.serials.insert(socket.serial) }
                        if self.watchesFrameSockets { self.frameSockets.sweep(socket) }
                    }
                    emit(event)
                }
                let isQuiet = try self.losses.endedSockets() == ended
                // The list of held sockets goes on by process and descriptor, not by position.
                census.isWhole = isQuiet || bytes < Self.wholeWalk || !self.kernel.sweepsAllSockets
                if census.isWhole { return }
            }
        }
        if self.liveSettings.report_all != 0 {
            self.liveSettings.report_all = 0
            try self.writeLiveSettings()
        }
        // If a walk broke off, a socket that is missing in its output may still be alive.
        try sweep.get()
        if census.isWhole { self.isFirstSweepAfterStart = false }
        guard isCensus else { return nil }
        self.censuses.wasTaken(missed: missed)
        return census
    }

    /// After each piece of output the kernel resumes the walk by position. If a socket ends meanwhile, the walk misses
    /// another socket. So a walk of more than one piece is repeated if sockets ended during the walk. After this many
    /// walks the daemon stops, and the next sweep finds the missing sockets.
    private static let mostWalks = 4
    /// Bytes. A piece is 32 KiB in the kernel (`BPF_ITER`'s seq_file), minus the size of the record that did not fit
    /// any more.
    private static let wholeWalk = 16 << 10

    /// - Returns: Bytes of output.
    private func runSweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Int {
        var bytes = 0
        var records = RecordSplitter()
        try self.kernel.iterator(self.sweepName).run { piece throws(CaptureError) in
            bytes += piece.byteCount
            records.split(piece) { record in self.decode(record, emit) }
        }
        return bytes
    }

    // MARK: The walk through the network namespaces

    var sweepName: String {
        self.kernel.sweepsAllSockets ? BPFPrograms.sweep : BPFPrograms.sweepOfHeldSockets
    }

    /// - Returns: A census, if the walk was to take one and has ended.
    func takeWalk() -> SocketCensus? {
        var ended: (scope: NamespaceWalk.Scope, findings: NamespaceWalk.Findings)?
        self.reads.attempt("walk") { () throws(CaptureError) in ended = try self.walk?.take() }
        guard let ended else { return nil }
        let findings = ended.findings
        for (program, errno) in findings.failures {
            let part = program.isEmpty ? "network namespaces" : program
            self.reads.note(part, .system(call: program.isEmpty ? "setns" : "read", object: part, errno: errno))
        }
        guard ended.scope == .all else { return nil }
        if findings.failures.isEmpty { self.liveSettings.report_unacknowledged = 0 }
        defer { self.heldAtCensus = nil }
        return self.heldAtCensus.map { SocketCensus($0.union(findings.serials), namespaces: findings.namespaces) }
    }

    /// - Parameter census: The sockets that processes hold, if a census is due.
    func beginWalk(after census: Census?) throws(CaptureError) {
        guard let walk, let scope = walk.nextScope else { return }
        self.heldAtCensus = scope == .all ? census.flatMap { $0.isWhole ? $0.serials : nil } : nil
        try walk.begin(scope, BPFPrograms.sweepSubstitutes)
    }
}

/// When a sweep is to be a census: at regular intervals, and when the end of a socket may have been missed.
struct CensusSchedule {
    /// A kernel may skip programs without counting that, and at least one kernel does (see ``TrafficCapture``). So a census
    /// is due at least once in so many sweeps. Tests set fewer.
    var sweepsBetween = 300
    private var due = 0
    private var sweepsSinceLast = 0
    private var missedAtLast: UInt64 = 0

    var isDue: Bool { self.due > 0 }

    mutating func request() { self.due = CaptureEvent.censusesUntilClosed }

    /// - Parameter missed: How many calls of programs the kernel has missed so far.
    mutating func sweepBegins(missed: UInt64) {
        self.sweepsSinceLast += 1
        guard missed > self.missedAtLast || self.sweepsSinceLast >= self.sweepsBetween else { return }
        self.request()
        self.sweepsSinceLast = 0
    }

    /// - Parameter missed: As it was when the sweep began.
    mutating func wasTaken(missed: UInt64) {
        self.due = max(0, self.due - 1)
        self.missedAtLast = missed
    }
}
