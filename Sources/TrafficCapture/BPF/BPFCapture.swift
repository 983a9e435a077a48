import CLibbpf
import CTrafficABI
import Glibc
public import TrafficEvents
public import TrafficModel

/// The methods with BPF programs. The counters are in the kernel's socket storage, or in a hash on `kprobe`, and are
/// swept once per tick. A ring buffer has the final totals of closed sockets.
public final class BPFCapture: CaptureSource {
    public internal(set) var status: CaptureStatus

    let kernel: KernelSide
    private let ring: RingReader
    private let ringDescriptor: Int32
    /// Capacity of the ring, in records.
    private let ringLimit: Int
    private var rows: RowReader
    /// `nil` where a sweep lists all sockets, or the kernel refuses what else would find the ones that nobody holds.
    let walk: NamespaceWalk?
    /// While a walk takes a census: the sockets that processes held when it began.
    var heldAtCensus: Set<UInt64>?
    var censuses = CensusSchedule()
    /// Whether a socket without an owner was seen that a process may hold.
    var sawUnowned = false
    /// Nanoseconds of ``MonotonicClock``: no walk through all open files begins before.
    var adoptRestsUntil: UInt64 = 0
    private let deferred: DeferredReader
    /// Whether the last sweep left records behind that sockets had made before.
    private var awaitsRecords = false
    private let names: NameReader
    /// `nil` if the kernel refuses it.
    private let holders: HolderList?
    private var interfaces: InterfaceReader
    private(set) var losses: LossReader
    private let settingsMap: BPFMap
    /// What the next ``writeLiveSettings()`` writes.
    var liveSettings: traffic_live_settings
    /// For a test: the capture acts as if the kernel missed calls all the time.
    let leavesProgramsOut: Bool
    /// What was read stays in the kernel until ``acknowledge()``.
    private let keepsRecords: Bool
    /// An earlier daemon's sweep may have reported a socket, and that daemon was killed before it acknowledged that
    /// sweep.
    var isFirstSweepAfterStart = false
    private var malformed: UInt64
    var frameSockets = FrameSockets()
    let reads: ReadFailures

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
        self.deferred = DeferredReader(
            try kernel.map("deferred"),
            shared: try kernel.map("deferred_shared"),
            taken: position?.deferred ?? []
        )
        self.names = NameReader(map: try kernel.map("executed"))
        self.holders = kernel.iterators[BPFPrograms.holders].map(HolderList.init)
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
            self.censuses.request()
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
        self.reads.attempt("loss") { () throws(CaptureError) in try self.takeLoss(emit) }
        let deadline = MonotonicClock.nanoseconds() + GracePeriod.patience
        self.reads.attempt("rows") { () throws(CaptureError) in try self.prepareRows(by: deadline) }
        // This comes after the sweep: if a socket closed in between, its larger, final totals are in the ring. What the
        // walk has put there may be older than the sweep's record, but has its number.
        self.takeClosed(emit)
        if let census, self.kernel.sweepsAllSockets { emit(.census(SocketCensus(census.serials))) }
        if let walkedCensus { emit(.census(walkedCensus)) }
        self.reads.attempt("walk") { () throws(CaptureError) in try self.beginWalk(after: census) }
        let missing = self.watchesFrameSockets && isSwept ? self.frameSockets.endSweep() : []
        if !missing.isEmpty { emit(.missing(missing)) }
        self.reads.attempt(BPFPrograms.holders) { () throws(CaptureError) in try self.listHolders(emit) }
        self.reads.attempt("executed") { () throws(CaptureError) in try self.names.take(emit) }
        self.reads.attempt("interfaces") { () throws(CaptureError) in
            if try self.interfaces.read(by: deadline, emit) { try self.writeLiveSettings() }
        }
        self.status.awaitsRows = self.rows.awaitsRows || self.awaitsRecords
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

    private func listHolders(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let list = try self.holders?.take { () throws(CaptureError) in
            self.liveSettings.holder_lists &+= 1
            try self.writeLiveSettings()
        }
        if let list { emit(.holders(list)) }
    }

    public var position: CapturePosition? {
        guard self.keepsRecords else { return nil }
        return CapturePosition(
            kernel: self.kernel.description,
            sweeps: self.liveSettings.sweeps,
            ring: self.ring.position,
            deferred: self.deferred.taken.sorted(),
            rows: self.rows.position,
            loss: self.ownLoss
        )
    }

    public func acknowledge() throws(CaptureError) {
        guard self.keepsRecords else { return }
        self.ring.release()
        self.deferred.release()
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
    var watchesFrameSockets: Bool { self.status.method != .kprobe }

    private func prepareRows(by deadline: UInt64) throws(CaptureError) {
        let loss = self.losses.loss
        // The sweep skipped the sockets that were just closing. After the wait their records are in the ring, in the map or
        // in rows, unless the wait takes too long.
        try self.rows.prepare(
            by: deadline,
            folded: loss.socketsFolded +| loss.callsFolded,
            isClosing: self.losses.closing > 0
        ) { generation throws(CaptureError) in
            self.liveSettings.generation = generation
            try self.writeLiveSettings()
        }
    }

    /// Reads what closed sockets have left: the map, the ring, the rows. If a record of an open socket came after the final
    /// record of that socket, it would look like a new socket. Such records are the copies in the map, and some records in
    /// the ring, where a socket puts them before its final record is in the map. So this reads the map first: then the
    /// ring has what came before. The final records wait until the ring was read.
    private func takeClosed(_ emit: (CaptureEvent) -> Void) {
        var finals: [CaptureEvent] = []
        let isRead = self.reads.attempt("deferred") { () throws(CaptureError) in
            try self.deferred.read { record, isCopy in
                self.decode(record) { event in if isCopy { emit(event) } else { finals.append(event) } }
            }
        }
        // If a program is still writing a record, a later sweep reads the finals again.
        let isDrained = self.drainRing(emit)
        if isDrained {
            for event in finals { emit(event) }
            self.deferred.confirm()
        }
        self.awaitsRecords = !isRead || !isDrained
        self.reads.attempt("rows") { () throws(CaptureError) in
            try self.rows.take(hasAllRecords: !self.awaitsRecords, emit)
        }
        guard !self.keepsRecords else { return }
        self.deferred.release()
        self.reads.attempt("rows") { () throws(CaptureError) in try self.rows.release() }
    }

    func writeLiveSettings() throws(CaptureError) {
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

    func decode(_ record: RawSpan, _ emit: (CaptureEvent) -> Void) {
        do {
            let observation = try TrafficRecord.decode(record, seesPackets: self.kernel.description.wire != .derived)
            if observation.owners.isEmpty && observation.isUsed { self.sawUnowned = true }
            if self.watchesFrameSockets { self.frameSockets.observe(observation) }
            if TrafficRecord.replacesCopy(record) {
                self.deferred.passOverCopies(of: record, serial: observation.serial)
            }
            emit(.socket(observation))
        } catch {
            self.malformed += 1
        }
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
        if news.hasLostEnds { self.censuses.request() }
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
