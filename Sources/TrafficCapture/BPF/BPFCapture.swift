import CLibbpf
import CTrafficABI
import Glibc
public import TrafficEvents
public import TrafficModel

/// The methods with BPF programs. The counters are in the kernel's socket storage, or in a hash on `kprobe`, and are
/// swept once per tick. A ring buffer has the final totals of closed sockets.
public final class BPFCapture: CaptureSource {
    public private(set) var status: CaptureStatus

    let kernel: KernelSide
    private let ring: RingReader
    private let ringDescriptor: Int32
    /// Capacity of the ring, in records.
    private let ringLimit: Int
    private var rows: RowReader
    /// `nil` where a sweep lists all sockets, or the kernel refuses what else would find the ones that nobody holds.
    private let walk: NamespaceWalk?
    /// While a walk takes a census: the sockets that processes held when it began.
    private var heldAtCensus: Set<UInt64>?
    /// Of the maps with final records, and of those with copies. For `kprobe`, where sockets leave no copies, of no map.
    private let deferred: [DeferredReader]
    private let released: [DeferredReader]
    private let names: NameReader
    private var interfaces: InterfaceReader
    private var losses: LossReader
    private let settingsMap: BPFMap
    /// What the next ``writeLiveSettings()`` writes.
    private var liveSettings: traffic_live_settings
    /// A kernel may skip programs without counting that, and at least one kernel does (see ``TrafficCapture``). So a
    /// census is due at least once per this many sweeps. Tests make them fewer.
    var sweepsBetweenCensuses = 300
    /// For a test: the capture acts as if the kernel missed calls all the time.
    private let leavesProgramsOut: Bool
    /// What was read stays in the kernel until ``acknowledge()``.
    private let keepsRecords: Bool
    /// An earlier daemon's sweep may have reported a socket, and that daemon was killed before it acknowledged that
    /// sweep.
    private var isFirstSweepAfterStart = false
    private var missedAtLastCensus: UInt64 = 0
    private var censusesDue = 0
    private var sweepsSinceCensus = 0
    private var malformed: UInt64
    private var sawUnowned = false
    private var frameSockets = FrameSockets()
    private let reads: ReadFailures
    /// A walk through all open files takes longer the more files users have open. After a walk the daemon rests, so
    /// that a user with many files cannot keep the daemon busy.
    private var adoptRestsUntil: UInt64 = 0
    private static let adoptRestFactor: UInt64 = 19

    /// Loads and attaches the programs, and gives every existing socket its baseline.
    ///
    /// - Parameters:
    ///   - reason: Why no better method is in use.
    ///   - wire: Which packets to count.
    ///   - outlivesDaemon: Whether the capture is to be pinned (``pin(in:)``), if it can be.
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` if this kernel refuses a program that the method needs.
    public convenience init(
        method: CaptureMethod,
        reason: String? = nil,
        wire: WireCounting = .exact,
        outlivesDaemon: Bool = false
    ) throws(CaptureError) {
        let faults = LoadedPrograms.Faults()
        try self.init(method: method, reason: reason, wire: wire, outlivesDaemon: outlivesDaemon, faults: faults)
    }

    convenience init(
        method: CaptureMethod,
        reason: String?,
        wire: WireCounting,
        outlivesDaemon: Bool,
        faults: LoadedPrograms.Faults
    ) throws(CaptureError) {
        LibbpfLog.install()
        guard HostProbe.btf().isGood else {
            throw .unsupported(feature: "method \(method.rawValue)", reason: HostProbe.btf().finding)
        }
        let (kernel, liveSettings) = try KernelSide.load(method, reason: reason, wire: wire, faults: faults)
        try self.init(
            kernel,
            liveSettings,
            from: nil,
            keepsRecords: outlivesDaemon && kernel.canOutliveDaemon,
            leavesProgramsOut: !faults.leftOut.isEmpty
        )
    }

    /// - Parameters:
    ///   - position: Where an earlier daemon ended.
    ///   - keepsRecords: What was read stays in the kernel until ``acknowledge()``.
    init(
        _ kernel: KernelSide,
        _ liveSettings: traffic_live_settings,
        from position: CapturePosition?,
        keepsRecords: Bool,
        leavesProgramsOut: Bool = false
    ) throws(CaptureError) {
        let closed = try kernel.map("closed")
        self.ring = try RingReader(map: closed, keepsRecords: keepsRecords, from: position?.ring ?? 0)
        self.ringDescriptor = closed.descriptor
        self.ringLimit = Int(closed.capacity) / TrafficRecord.size
        self.rows = try RowReader(kernel, from: position?.rows, generation: liveSettings.generation)
        let lists = kernel.sweepsAllSockets ? [] : kernel.listsOfNamespaces
        self.walk = lists.isEmpty ? nil : try NamespaceWalk(lists)
        var (deferred, released): ([DeferredReader], [DeferredReader]) = ([], [])
        for place in TrafficRecord.Place.allCases where kernel.description.method != .kprobe || !place.hasCopies {
            let reader = DeferredReader(map: try kernel.map(place.map), of: place, taken: position?.deferred ?? [])
            if place.hasCopies { released.append(reader) } else { deferred.append(reader) }
        }
        (self.deferred, self.released) = (deferred, released)
        self.names = NameReader(map: try kernel.map("executed"))
        let isAudited = kernel.description.wire == .audited
        self.interfaces = try InterfaceReader(
            packets: isAudited ? kernel.map("interfaces") : nil,
            strangers: isAudited ? kernel.map("stranger_interfaces") : nil
        )
        self.losses = LossReader(map: try kernel.map("loss"))
        self.reads = ReadFailures(count: position?.loss.readsFailed ?? 0)
        self.malformed = position?.loss.recordsMalformed ?? 0
        self.settingsMap = try kernel.map(".data.live")
        self.liveSettings = liveSettings
        self.keepsRecords = keepsRecords
        self.leavesProgramsOut = leavesProgramsOut
        self.status = CaptureStatus(
            method: kernel.description.method,
            reason: kernel.description.reason,
            hooks: kernel.description.attached.map(\.section),
            blindSpots: kernel.description.blindSpots
        )
        self.kernel = kernel
        self.liveSettings.walker = self.walk.map { UInt32($0.process) } ?? 0
        if let position {
            self.liveSettings.acknowledged_sweep = position.sweeps
            self.isFirstSweepAfterStart = true
            self.liveSettings.report_unacknowledged = 1
            // A socket may have ended without a record, and the daemon that read its serial may have been killed.
            self.censusesDue = CaptureEvent.censusesUntilClosed
            self.sawUnowned = true
        }
        try self.writeLiveSettings()
    }

    public var wakeDescriptor: Int32? { self.ringDescriptor }

    public var readFailures: [ReadFailure] { self.reads.current }

    public func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError) { self.drainRing(emit) }

    /// - Returns: As ``RingReader/drain(limit:_:)``.
    @discardableResult
    private func drainRing(_ emit: (CaptureEvent) -> Void) -> Bool {
        let isWhole = self.ring.drain(limit: self.ringLimit) { record in self.decode(record, emit) }
        if !self.keepsRecords {
            self.reads.attempt("closed") { () throws(CaptureError) in try self.allowRecords() }
        }
        return isWhole
    }

    public func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        self.reads.beginSweep()
        self.adoptHeldSockets()
        let walkedCensus = self.takeWalk()
        self.liveSettings.sweeps &+= 1
        if !self.keepsRecords { self.liveSettings.acknowledged_sweep = self.liveSettings.sweeps }
        if self.watchesFrameSockets { self.frameSockets.beginSweep() }
        var census: Census?
        let isSwept = self.reads.attempt(self.sweepName) { () throws(CaptureError) in
            census = try self.sweepSockets(emit)
        }
        // This comes after the sweep: if a socket closed in between, its larger, final totals are in the ring. What the
        // walk has put there may be older than the sweep's record, but has its number.
        try self.drain(emit)
        self.reads.attempt("deferred") { () throws(CaptureError) in try self.takeDeferred(emit) }
        if let census, self.kernel.sweepsAllSockets { emit(.census(SocketCensus(census.serials))) }
        if let walkedCensus { emit(.census(walkedCensus)) }
        self.reads.attempt("walk") { () throws(CaptureError) in try self.beginWalk(after: census) }
        let missing = self.watchesFrameSockets && isSwept ? self.frameSockets.endSweep() : []
        if !missing.isEmpty { emit(.missing(missing)) }
        self.reads.attempt("executed") { () throws(CaptureError) in try self.names.take(emit) }
        let deadline = MonotonicClock.nanoseconds() + GracePeriod.patience
        self.reads.attempt("interfaces") { () throws(CaptureError) in
            if try self.interfaces.read(by: deadline, emit) { try self.writeLiveSettings() }
        }
        self.reads.attempt("loss") { () throws(CaptureError) in try self.takeLoss(emit) }
        self.reads.attempt("rows") { () throws(CaptureError) in try self.takeRows(by: deadline, emit) }
        self.status.awaitsRows = self.rows.awaitsRows
        self.status.blindSpots = self.kernel.description.blindSpots + self.reads.blindSpots
        if self.walk?.hasEnded == true {
            self.status.blindSpots.append(
                "open sockets that no process holds: the process trafficd-walk has ended; start trafficd anew"
            )
        }
        if let seconds = self.walk?.secondsHanging {
            self.status.blindSpots.append(
                "open sockets that no process holds, for \(seconds) s: a program keeps the lock of a socket, and the walk waits for it"
            )
        }
        if self.status.awaitsRows {
            self.status.blindSpots.append(CaptureStatus.lateRows)
        }
        try self.reads.endSweep()
    }

    public var position: CapturePosition? {
        guard self.keepsRecords else { return nil }
        return CapturePosition(
            kernel: self.kernel.description,
            sweeps: self.liveSettings.sweeps,
            ring: self.ring.position,
            deferred: (self.deferred + self.released).flatMap(\.taken),
            rows: self.rows.position,
            loss: self.ownLoss
        )
    }

    public func acknowledge() throws(CaptureError) {
        guard self.keepsRecords else { return }
        self.ring.release()
        for reader in self.deferred + self.released { reader.release() }
        try self.rows.release()
        self.liveSettings.acknowledged_sweep = self.liveSettings.sweeps
        try self.allowRecords()
    }

    /// From now on every user may fill its part of the ring again.
    private func allowRecords() throws(CaptureError) {
        self.liveSettings.drains &+= 1
        try self.writeLiveSettings()
    }

    /// On `kprobe` a probe sees the end of an AF_PACKET socket, and the sweep omits unchanged sockets.
    private var watchesFrameSockets: Bool { self.status.method != .kprobe }

    /// Finds the process of an accepted, idle connection: the process that holds the socket.
    private func adoptHeldSockets() {
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

    private func takeRows(by deadline: UInt64, _ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let isClosing = self.losses.closing > 0
        try self.rows.take(
            by: deadline,
            folded: self.losses.loss.socketsFolded +| self.losses.loss.callsFolded,
            isClosing: isClosing,
            keepsRows: self.keepsRecords,
            raise: { generation throws(CaptureError) in
                self.liveSettings.generation = generation
                try self.writeLiveSettings()
            },
            drain: { () throws(CaptureError) in
                try self.takeDeferred(emit)
                return self.drainRing(emit)
            },
            emit
        )
        guard isClosing else { return }
        // The sweep skipped the sockets that were just closing. By now they have left their records, unless the wait
        // for programs is still in progress.
        try self.drain(emit)
        try self.takeDeferred(emit)
    }

    private struct Census {
        var serials: Set<UInt64> = []
        /// The last walk was not disturbed: no living socket is missing.
        var isWhole = false
    }

    /// - Returns: The serials of all sockets if a census is due, otherwise `nil`. A census is due at regular intervals,
    ///   and if the kernel has missed calls since the last census: a missed call may have been the end of a socket.
    private func sweepSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Census? {
        let missed = self.losses.loss.missedRuns
        // No census of a hash: a walk through a hash may skip an element while neighbouring elements come and go.
        self.sweepsSinceCensus += 1
        if missed > self.missedAtLastCensus || self.sweepsSinceCensus >= self.sweepsBetweenCensuses {
            self.censusesDue = CaptureEvent.censusesUntilClosed
            self.sweepsSinceCensus = 0
        }
        // A sweep of held sockets is half of a census: the other half is a walk through the network namespaces.
        let isPossible =
            self.status.method != .kprobe
            && (self.kernel.sweepsAllSockets
                || self.kernel.listsAllOfNamespaces && self.walk?.nextScope == .all)
        let isCensus = isPossible && (self.leavesProgramsOut || self.censusesDue > 0)
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
        self.censusesDue -= 1
        self.missedAtLastCensus = missed
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

    private func writeLiveSettings() throws(CaptureError) {
        // Not before a call was missed: if a stream is ahead of its calls for another reason, the difference must not
        // be added.
        if self.leavesProgramsOut || self.losses.loss.missedRuns > 0 || self.status.method == .kprobe {
            self.liveSettings.calls_missed = 1
        }
        self.interfaces.fillIn(&self.liveSettings)
        // Half of the capacity: an LRU map may drop elements a little early, because of the free lists of the
        // processors.
        self.liveSettings.early_trust = try self.kernel.map("early").capacity / 2
        try self.settingsMap.setGlobals(self.liveSettings)
    }

    private func decode(_ record: RawSpan, _ emit: (CaptureEvent) -> Void) {
        do {
            let observation = try TrafficRecord.decode(record, seesPackets: self.kernel.description.wire != .estimated)
            if observation.owners.isEmpty && observation.isUsed { self.sawUnowned = true }
            if self.watchesFrameSockets { self.frameSockets.observe(observation) }
            for copy in TrafficRecord.replacedCopies(record) {
                self.released.first { $0.place == TrafficRecord.Place(ofKey: copy) }?.passOver(copy)
            }
            emit(.socket(observation))
        } catch {
            self.malformed += 1
        }
    }

    private func takeDeferred(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        // A record from the time when a socket was open must come before the socket's final record. Otherwise it would
        // look like a new socket. So the copies come first, then what is in the ring, then the final records.
        for reader in self.released { try reader.take { record in self.decode(record, emit) } }
        var events: [CaptureEvent] = []
        var readings: [Result<Void, CaptureError>] = []
        for reader in self.deferred {
            let reading = Result { () throws(CaptureError) in
                try reader.take { record in self.decode(record) { events.append($0) } }
            }
            readings.append(reading)
        }
        if events.isEmpty || self.drainRing(emit) {
            for event in events { emit(event) }
        } else {
            for reader in self.deferred { reader.putBack() }
        }
        if !self.keepsRecords {
            for reader in self.deferred + self.released { reader.release() }
        }
        for reading in readings { try reading.get() }
    }

    // MARK: The walk through the network namespaces

    private var sweepName: String {
        self.kernel.sweepsAllSockets ? BPFPrograms.sweep : BPFPrograms.sweepOfHeldSockets
    }

    /// - Returns: A census, if the walk was to take one and has ended.
    private func takeWalk() -> SocketCensus? {
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
    private func beginWalk(after census: Census?) throws(CaptureError) {
        guard let walk, let scope = walk.nextScope else { return }
        self.heldAtCensus = scope == .all ? census.flatMap { $0.isWhole ? $0.serials : nil } : nil
        try walk.begin(scope, BPFPrograms.sweepSubstitutes)
    }

    public func programMeter() throws(CaptureError) -> ProgramMeter? {
        // Without the program that only the start runs.
        try ProgramMeter(programs: self.kernel.attached + self.kernel.iterated)
    }

    /// What the kernel does not count.
    private var ownLoss: CaptureLoss {
        CaptureLoss(recordsMalformed: self.malformed, readsFailed: self.reads.count)
    }

    private func takeLoss(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let news = try self.losses.read(
            self.ownLoss + CaptureLoss(missedRuns: try self.kernel.missedRuns())
        )
        // No record says that these sockets closed. A census shows that they are missing.
        if news.hasLostEnds { self.censusesDue = CaptureEvent.censusesUntilClosed }
        if news.hasMissedExecutions { emit(.executionsMissed) }
        guard self.losses.loss != self.status.loss else { return }
        try self.writeLiveSettings()
        self.status.loss = self.losses.loss
        emit(.loss(self.losses.loss))
    }
}

extension SocketObservation {
    /// Whether a process may hold the socket without having moved a byte: an accepted, idle connection, or a socket
    /// that received packets.
    fileprivate var isUsed: Bool {
        self.state == .established || self.state == .unconnected && self.wire?.total.isZero == false
    }
}
