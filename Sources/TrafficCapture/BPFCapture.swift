import CLibbpf
import CTrafficABI
import Glibc
public import TrafficModel

/// The rungs with BPF programs: counters in the kernel's socket storage or, on `kprobe`, in a hash, swept once per tick, and a ring buffer with the
/// final totals of closed sockets.
public final class BPFCapture: CaptureSource {
    public private(set) var status: CaptureStatus

    private let rung: LoadedRung
    private let sweepLink: BPFLink
    private let adoptLink: BPFLink
    private let ring: RingReader
    private let ringDescriptor: Int32
    /// Of the ring, in records.
    private let ringLimit: Int
    private var rows: RowReader
    private var owners: OwnerReader
    private let deferred: BPFMap
    private let executed: BPFMap
    private var interfaces: InterfaceReader
    private let loss: BPFMap
    private let told: BPFMap
    /// What the programs were told last.
    private var telling: traffic_told
    /// A kernel may leave programs out and not count it, as one does that we have met (see ``TrafficCapture``).
    private static let sweepsBetweenCensuses = 300
    /// For a test: as if the kernel missed calls all the time.
    private let leavesProgramsOut: Bool
    private var missedAtLastCensus: UInt64 = 0
    private var censusesDue = 0
    private var sweepsUntilCensus = BPFCapture.sweepsBetweenCensuses
    private var malformed: UInt64 = 0
    private var lastLoss = CaptureLoss()
    private var goneLost: UInt64 = 0
    /// Sockets that programs were just closing when the kernel's counters were read.
    private var closing: UInt64 = 0
    private var namesUntold: UInt64 = 0
    private var sawUnowned = false
    private var frameSockets = FrameSockets()
    private let reads = ReadFailures()
    /// A walk through all open files takes as long as users have files open; who has many shall not keep the daemon at it.
    private var adoptRestsUntil: UInt64 = 0
    private static let adoptRestFactor: UInt64 = 19

    /// Loads, attaches, and gives every existing socket its baseline.
    ///
    /// - Parameters:
    ///   - reason: Why no better rung is in use.
    ///   - wire: Whether to see every packet or to estimate.
    /// - Throws: ``CaptureError/unsupported(feature:reason:)`` where this kernel refuses a program of the rung.
    public convenience init(
        rung: CaptureRung,
        reason: String? = nil,
        wire: Quality = .exact
    ) throws(CaptureError) {
        try self.init(rung: rung, reason: reason, wire: wire, faults: LoadedRung.Faults())
    }

    package convenience init(
        rung: CaptureRung,
        ringBytes: UInt32? = nil,
        mapElements: UInt32? = nil,
        interfaceElements: UInt32? = nil,
        rowElements: UInt32? = nil,
        leavingOut leftOut: Set<String> = [],
        refusing refused: Set<String> = [],
        sweepingHeldSockets sweepsHeldSockets: Bool = false
    ) throws(CaptureError) {
        let faults = LoadedRung.Faults(
            leftOut: leftOut,
            refused: refused,
            sweepsHeldSockets: sweepsHeldSockets,
            ringBytes: ringBytes,
            mapElements: mapElements,
            interfaceElements: interfaceElements,
            rowElements: rowElements
        )
        try self.init(rung: rung, reason: nil, wire: .exact, faults: faults)
    }

    private init(
        rung wanted: CaptureRung,
        reason: String?,
        wire: Quality,
        faults: LoadedRung.Faults
    ) throws(CaptureError) {
        LibbpfLog.install()
        guard HostProbe.btf().isGood else {
            throw .unsupported(feature: "rung \(wanted.rawValue)", reason: HostProbe.btf().finding)
        }
        let rung = try LoadedRung(wanted, wire: wire, faults: faults)
        let told = try rung.object.map(".data.told")
        var telling = traffic_told()
        telling.estimates_wire = rung.seesPackets ? 0 : 1
        try told.setGlobals(telling)
        let sweep = try rung.object.program(rung.sweep.rawValue)
        let sweepLink = try sweep.attachIterator(over: rung.sweep == .all ? try rung.object.map("sockets") : nil)
        let adoptLink = try rung.object.program("adopt_held_sockets").attachIterator()
        try adoptLink.iterate("adopt_held_sockets") { _ in }
        let adoptTCP = try rung.object.program("adopt_tcp_sockets").attachIterator()
        try NetworkNamespaces.forEach { () throws(CaptureError) in
            try adoptTCP.iterate("adopt_tcp_sockets") { _ in }
        }
        let closed = try rung.object.map("closed")
        self.ring = try RingReader(map: closed)
        self.ringDescriptor = closed.descriptor
        self.ringLimit = Int(closed.capacity) / TrafficRecord.size
        self.rows = try RowReader(object: rung.object)
        self.owners = try OwnerReader(object: rung.object)
        self.deferred = try rung.object.map("deferred")
        self.executed = try rung.object.map("executed")
        self.interfaces = try InterfaceReader(
            packets: rung.seesPackets ? rung.object.map("interfaces") : nil,
            strangers: rung.seesPackets ? rung.object.map("stranger_interfaces") : nil
        )
        self.loss = try rung.object.map("loss")
        self.told = told
        self.telling = telling
        self.leavesProgramsOut = !faults.leftOut.isEmpty
        self.status = CaptureStatus(
            rung: wanted,
            reason: reason,
            hooks: rung.links.hooks,
            blindSpots: rung.blindSpots
        )
        self.sweepLink = sweepLink
        self.adoptLink = adoptLink
        self.rung = rung
        self.telling.baseline_done = 1
        try self.tell()
    }

    public var wakeDescriptor: Int32? { self.ringDescriptor }

    public var readFailures: [ReadFailure] { self.reads.current }

    public func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        self.reads.attempt("closed") { () throws(CaptureError) in
            try self.ring.drain(limit: self.ringLimit) { record in self.decode(record, emit) }
            // From now on every user may fill his part of the ring again.
            self.telling.drains &+= 1
            try self.tell()
        }
    }

    public func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        self.reads.beginSweep()
        self.adoptHeldSockets()
        self.telling.sweeps &+= 1
        self.frameSockets.beginSweep()
        var census: Census?
        let isSwept = self.reads.attempt(self.rung.sweep.rawValue) { () throws(CaptureError) in
            census = try self.sweepSockets(emit)
        }
        // After the sweep: a socket that closed in between has its larger, final totals here.
        try self.drain(emit)
        self.reads.attempt("deferred") { () throws(CaptureError) in try self.takeDeferred(emit) }
        if let census { emit(.census(census.serials)) }
        // A probe sees the end on `kprobe`, whose sweep passes over what has not changed.
        let absent = self.status.rung == .kprobe || !isSwept ? [] : self.frameSockets.endSweep()
        for socket in absent where socket.isShared { self.owners.close(socket.serial) }
        if !absent.isEmpty { emit(.absent(absent.map(\.serial))) }
        self.malformed += self.owners.read(census: census.flatMap { $0.isWhole ? $0.serials : nil }, emit)
        self.takeNames(emit)
        let deadline = MonotonicClock.nanoseconds() + GracePeriod.patience
        self.reads.attempt("interfaces") { () throws(CaptureError) in
            if try self.interfaces.read(by: deadline, emit) { try self.tell() }
        }
        self.reads.attempt("loss") { () throws(CaptureError) in try self.takeLoss(emit) }
        self.reads.attempt("rows") { () throws(CaptureError) in try self.takeRows(by: deadline, emit) }
        self.status.awaitsRows = self.rows.isUnread
        self.status.blindSpots = self.rung.blindSpots + self.reads.blindSpots
        if self.rows.isUnread {
            self.status.blindSpots.append(
                "late at present: some bytes of sockets that closed in a flood (the machine is too busy)"
            )
        }
        try self.reads.endSweep()
    }

    /// A connection that was accepted and is idle: its process shows by holding it.
    private func adoptHeldSockets() {
        guard self.sawUnowned, MonotonicClock.nanoseconds() >= self.adoptRestsUntil else { return }
        let begin = MonotonicClock.threadNanoseconds()
        let isDone = self.reads.attempt("adopt_held_sockets") { () throws(CaptureError) in
            try self.adoptLink.iterate("adopt_held_sockets") { _ in }
        }
        let cost = MonotonicClock.threadNanoseconds() - begin
        self.adoptRestsUntil = MonotonicClock.nanoseconds() + cost * Self.adoptRestFactor
        self.sawUnowned = !isDone
    }

    private func takeRows(by deadline: UInt64, _ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let isClosing = self.closing > 0
        try self.rows.take(
            by: deadline,
            folded: self.lastLoss.socketsFolded +| self.lastLoss.callsFolded,
            isClosing: isClosing,
            raise: { generation throws(CaptureError) in
                self.telling.generation = generation
                try self.tell()
            },
            drain: { () throws(CaptureError) in try self.drain(emit) }
        ) { event in
            // Their further owners go with the next reading.
            if case .gone(let serials) = event { for serial in serials { self.owners.close(serial) } }
            emit(event)
        }
        guard isClosing else { return }
        // The sweep has passed over them already; by now they have left their records, unless the wait for programs is still under way.
        try self.drain(emit)
        try self.takeDeferred(emit)
    }

    private struct Census {
        var serials: Set<UInt64> = []
        /// No walk was disturbed to the last: no socket that lives is missing.
        var isWhole = false
    }

    /// - Returns: The serials of all sockets, now and then, and where the kernel has missed calls since they were last asked for: one of them
    ///   may have been the end of a socket.
    private func sweepSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Census? {
        let missed = self.lastLoss.missedRuns
        // Not of a hash: a walk through it may pass over an element while its neighbours come and go.
        self.sweepsUntilCensus -= 1
        if missed > self.missedAtLastCensus || self.sweepsUntilCensus <= 0 {
            self.censusesDue = CaptureEvent.censusesUntilGone
            self.sweepsUntilCensus = Self.sweepsBetweenCensuses
        }
        // Nor of held sockets: one that nobody holds, of io_uring's for example, may live on.
        let sweepsAll = self.status.rung != .kprobe && self.rung.sweep == .all
        let isCensus = sweepsAll && (self.leavesProgramsOut || self.censusesDue > 0)
        self.telling.report_all = isCensus ? 1 : 0
        try self.tell()
        var census = Census()
        let sweep = Result { () throws(CaptureError) in
            for _ in 1...Self.mostWalks {
                let ended = try self.endedSockets()
                let bytes = try self.walkSockets { event in
                    if case .socket(let socket) = event {
                        if isCensus { census.serials.insert(socket.serial) }
                        self.frameSockets.sweep(socket)
                    }
                    emit(event)
                }
                let isQuiet = try self.endedSockets() == ended
                census.isWhole = isQuiet || bytes < Self.wholeWalk
                if census.isWhole { return }
            }
        }
        if isCensus {
            self.telling.report_all = 0
            try self.tell()
        }
        // Of a walk that broke off nobody's absence says anything.
        try sweep.get()
        guard isCensus else { return nil }
        self.censusesDue -= 1
        self.missedAtLastCensus = missed
        return census
    }

    /// After each piece of output the kernel resumes the walk by position, so a socket that ends meanwhile makes the walk miss another. So a
    /// walk of more than one piece is repeated if sockets ended during it. After this many walks the next sweep finds what is missing.
    private static let mostWalks = 4
    /// Bytes. A piece is 32 KiB in the kernel (`BPF_ITER`'s seq_file), less what the next record would have taken.
    private static let wholeWalk = 16 << 10

    /// - Returns: Bytes of output.
    private func walkSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Int {
        var bytes = 0
        var records = RecordSplitter()
        try self.sweepLink.iterate(self.rung.sweep.rawValue) { piece throws(CaptureError) in
            bytes += piece.byteCount
            records.split(piece) { record in self.decode(record, emit) }
        }
        return bytes
    }

    private func kernelLoss() throws(CaptureError) -> [traffic_loss] {
        try self.loss.perCPUValues(as: traffic_loss.self)
    }

    private func endedSockets() throws(CaptureError) -> UInt64 {
        try self.kernelLoss().reduce(0) { $0 &+ $1.closed_sockets }
    }

    private func tell() throws(CaptureError) {
        // Not before a call was missed: a stream that is ahead of its calls for another reason must not be made up for.
        let callsMissed = self.leavesProgramsOut || self.lastLoss.missedRuns > 0 || self.status.rung == .kprobe
        self.telling.calls_missed = callsMissed ? 1 : 0
        self.interfaces.tell(&self.telling)
        // Its processors' free lists may forget a little early.
        self.telling.early_trust = try self.rung.object.map("early").capacity / 2
        try self.told.setGlobals(self.telling)
    }

    private func decode(_ record: RawSpan, _ emit: (CaptureEvent) -> Void) {
        do {
            let observation = try TrafficRecord.decode(record, seesPackets: self.rung.seesPackets)
            if observation.owners.isEmpty && observation.isUsed { self.sawUnowned = true }
            self.frameSockets.observe(observation)
            if observation.closedBoottimeNanoseconds != nil && observation.isShared {
                self.owners.close(observation.serial)
            }
            emit(.socket(observation))
        } catch {
            self.malformed += 1
        }
    }

    /// Closed sockets that found the ring full. Nobody updates them any more, so reading and then removing loses nothing.
    private func takeDeferred(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var serials: [UInt64] = []
        var events: [CaptureEvent] = []
        self.deferred.forEach(keySize: 8, valueSize: TrafficRecord.size) { key, value in
            serials.append(key.unsafeLoadUnaligned(as: UInt64.self))
            self.decode(value) { events.append($0) }
        }
        // Records made while these sockets were open must come before their last word: a socket that nobody lists any more would be a new one.
        if !events.isEmpty { try self.drain(emit) }
        for event in events { emit(event) }
        for serial in serials { self.deferred.remove(serial) }
    }

    private func takeNames(_ emit: (CaptureEvent) -> Void) {
        var taken: [traffic_owner_key] = []
        self.executed.forEach(
            keySize: MemoryLayout<traffic_owner_key>.size,
            valueSize: Int(TRAFFIC_NAME_LENGTH.rawValue)
        ) { key, value in
            let process = key.unsafeLoadUnaligned(as: traffic_owner_key.self)
            taken.append(process)
            emit(
                .executed(
                    ProcessIdentity(
                        pid: Int32(bitPattern: process.tgid),
                        startBoottimeNanoseconds: process.start_boottime_ns
                    ),
                    name: value.withUnsafeBytes { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
                )
            )
        }
        for process in taken { self.executed.remove(process) }
    }

    public func programMeter() throws(CaptureError) -> ProgramMeter? {
        // Without the one that only the start runs.
        let iterated = [
            try self.rung.object.program(self.rung.sweep.rawValue), try self.rung.object.program("adopt_held_sockets"),
        ]
        return try ProgramMeter(programs: self.rung.links.programs + iterated)
    }

    private func takeLoss(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var loss = CaptureLoss(
            recordsMalformed: self.malformed,
            missedRuns: try self.rung.links.missedRuns(),
            readsFailed: self.reads.count
        )
        var goneLost: UInt64 = 0
        var (begun, ended): (UInt64, UInt64) = (0, 0)
        var namesUntold: UInt64 = 0
        for cpu in try self.kernelLoss() {
            namesUntold +|= cpu.names_untold
            loss.missedRuns +|= cpu.returns_missed
            loss.ringFull +|= cpu.closed_deferred
            loss.socketsFolded +|= cpu.closed_folded
            loss.callsFolded +|= cpu.calls_folded
            loss.mapFull +|= cpu.shared_lost +| cpu.sockets_lost +| cpu.interfaces_lost
            goneLost &+= cpu.gone_lost
            begun &+= cpu.closed_sockets
            ended &+= cpu.closed_submitted &+ cpu.closed_deferred &+ cpu.closed_folded &+ cpu.closed_empty
        }
        self.closing = begun &- ended
        // Of these nobody says that they closed: they are missing in a census.
        if goneLost > self.goneLost { self.censusesDue = CaptureEvent.censusesUntilGone }
        self.goneLost = goneLost
        if namesUntold != self.namesUntold {
            self.namesUntold = namesUntold
            emit(.executedUntold)
        }
        if loss != self.lastLoss {
            self.lastLoss = loss
            try self.tell()
            self.status.loss = loss
            emit(.loss(loss))
        }
    }
}

extension SocketObservation {
    /// Somebody may hold it who has not moved a byte: a connection that was accepted and is idle, a socket that packets came for.
    fileprivate var isUsed: Bool {
        self.state == .established || self.state == .unconnected && self.wire?.total.isZero == false
    }
}
