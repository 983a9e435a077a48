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
    private let owners: BPFMap
    private let deferred: BPFMap
    private let executed: BPFMap
    private let packets: BPFMap
    private let interfaces: NetworkInterfaces
    private let loss: BPFMap
    private let told: BPFMap
    /// For a test: as if the kernel missed calls all the time.
    private let leavesProgramsOut: Bool
    private var missedAtLastCensus: UInt64 = 0
    private var malformed: UInt64 = 0
    private var lastLoss = CaptureLoss()
    private var sawUnowned = false
    /// AF_PACKET sockets by their serials, and those of the sweep that goes on.
    private var packetSockets: [UInt64: SocketObservation] = [:]
    private var sweptPacketSockets: Set<UInt64> = []
    /// Sockets whose last word came while the `owners` map still had something of them.
    private var closedSockets: Set<UInt64> = []

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
        leavingOut leftOut: Set<String> = [],
        refusing refused: Set<String> = []
    ) throws(CaptureError) {
        let faults = LoadedRung.Faults(
            leftOut: leftOut,
            refused: refused,
            ringBytes: ringBytes,
            mapElements: mapElements
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
        let sweepLink = try rung.object.program("sweep_sockets")
            .attachIterator(over: try rung.object.map("sockets"))
        let adoptLink = try rung.object.program("adopt_held_sockets").attachIterator()
        try adoptLink.iterate("adopt_held_sockets") { _ in }
        let adoptTCP = try rung.object.program("adopt_tcp_sockets").attachIterator()
        try NetworkNamespaces.forEach { () throws(CaptureError) in
            try adoptTCP.iterate("adopt_tcp_sockets") { _ in }
        }
        let closed = try rung.object.map("closed")
        self.ring = try RingReader(map: closed)
        self.ringDescriptor = closed.descriptor
        self.owners = try rung.object.map("owners")
        self.deferred = try rung.object.map("deferred")
        self.executed = try rung.object.map("executed")
        self.packets = try rung.object.map("interfaces")
        self.interfaces = try NetworkInterfaces()
        self.loss = try rung.object.map("loss")
        self.told = try rung.object.map(".data.told")
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
        try self.tell()
    }

    public var wakeDescriptor: Int32? { self.ringDescriptor }

    public func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        try self.ring.drain { record in self.decode(record, emit) }
    }

    public func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        if self.sawUnowned {
            // A connection that was accepted and is idle: its process shows by holding it.
            self.sawUnowned = false
            try self.adoptLink.iterate("adopt_held_sockets") { _ in }
        }
        let packetSockets = self.packetSockets
        let census = try self.sweepSockets(emit)
        // After the sweep: a socket that closed in between has its larger, final totals here.
        try self.drain(emit)
        try self.takeDeferred(emit)
        if let census { emit(.census(census)) }
        self.closePacketSockets(of: packetSockets, emit)
        try self.takeOwners(emit)
        try self.takeNames(emit)
        try self.takePackets(emit)
        try self.takeLoss(emit)
    }

    /// - Returns: The serials of all sockets, where the kernel has missed calls since they were last asked for: one of them may have
    ///   been the end of a socket.
    private func sweepSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) -> Set<UInt64>? {
        let missed = self.lastLoss.missedRuns
        // Not of a hash: a walk through it may pass over an element while its neighbours come and go.
        let isCensus =
            self.status.rung != .kprobe && (self.leavesProgramsOut || missed > self.missedAtLastCensus)
        if isCensus {
            self.missedAtLastCensus = missed
            try self.tell(reportAll: true)
        }
        var serials: Set<UInt64> = []
        self.sweptPacketSockets = []
        // A record may be split over two reads of the iterator.
        var partial: [UInt8] = []
        try self.sweepLink.iterate("sweep_sockets") { piece throws(CaptureError) in
            self.split(piece, &partial) { record in
                self.decode(record) { event in
                    if case .socket(let socket) = event {
                        if isCensus { serials.insert(socket.serial) }
                        if socket.transport == .packet { self.sweptPacketSockets.insert(socket.serial) }
                    }
                    emit(event)
                }
            }
        }
        guard isCensus else { return nil }
        try self.tell()
        return serials
    }

    private func tell(reportAll: Bool = false) throws(CaptureError) {
        // Not before a call was missed: a stream that is ahead of its calls for another reason must not be made up for.
        let callsMissed = self.leavesProgramsOut || self.lastLoss.missedRuns > 0 || self.status.rung == .kprobe
        try self.told.setGlobals(
            traffic_told(
                baseline_done: 1,
                calls_missed: callsMissed ? 1 : 0,
                report_all: reportAll ? 1 : 0,
                pad: 0
            )
        )
    }

    private func decode(_ record: RawSpan, _ emit: (CaptureEvent) -> Void) {
        do {
            let observation = try TrafficRecord.decode(record, seesPackets: self.rung.seesPackets)
            if observation.owners.isEmpty && observation.isUsed { self.sawUnowned = true }
            if observation.transport == .packet { self.packetSockets[observation.serial] = observation }
            if observation.closedBoottimeNanoseconds != nil && observation.isShared {
                self.closedSockets.insert(observation.serial)
            }
            emit(.socket(observation))
        } catch {
            self.malformed += 1
        }
    }

    /// Cuts a stretch of the iterator's output into records.
    private func split(_ piece: RawSpan, _ partial: inout [UInt8], _ body: (RawSpan) -> Void) {
        var offset = 0
        if !partial.isEmpty {
            offset = min(TrafficRecord.size - partial.count, piece.byteCount)
            piece.extracting(0..<offset).withUnsafeBytes { partial.append(contentsOf: $0) }
            guard partial.count == TrafficRecord.size else { return }
            body(partial.span.bytes)
            partial.removeAll()
        }
        while piece.byteCount - offset >= TrafficRecord.size {
            body(piece.extracting(offset..<offset + TrafficRecord.size))
            offset += TrafficRecord.size
        }
        piece.extracting(offset..<piece.byteCount).withUnsafeBytes { partial.append(contentsOf: $0) }
    }

    /// Closed sockets that found the ring full. Nobody updates them any more, so reading and then removing loses nothing.
    private func takeDeferred(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var serials: [UInt64] = []
        try self.deferred.forEach(keySize: 8, valueSize: TrafficRecord.size) { key, value in
            serials.append(key.unsafeLoadUnaligned(as: UInt64.self))
            self.decode(value, emit)
        }
        for serial in serials { self.deferred.remove(serial) }
    }

    /// Owners beyond those in a socket's own record. They go when the socket has closed: until then the kernel may add to them.
    private func takeOwners(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var finished: [traffic_owner_key] = []
        try self.owners.forEach(
            keySize: MemoryLayout<traffic_owner_key>.size,
            valueSize: MemoryLayout<traffic_owner>.size
        ) { key, value in
            do {
                let (serial, owner) = try TrafficRecord.decodeOwner(key: key, value: value)
                emit(.owner(socket: serial, owner))
                if self.closedSockets.contains(serial) {
                    finished.append(key.unsafeLoadUnaligned(as: traffic_owner_key.self))
                }
            } catch {
                self.malformed += 1
            }
        }
        for key in finished { self.owners.remove(key) }
        self.closedSockets.removeAll()
    }

    /// No program sees the end of an AF_PACKET socket: it is missing in the sweep, in which all of them are reported.
    ///
    /// - Parameter known: Those from before the sweep; one that was made since may not be in it.
    private func closePacketSockets(of known: [UInt64: SocketObservation], _ emit: (CaptureEvent) -> Void) {
        for (serial, before) in known where !self.sweptPacketSockets.contains(serial) {
            // The ring may have had a later word since.
            var closed = self.packetSockets[serial] ?? before
            closed.state = .closed
            closed.closedBoottimeNanoseconds = MonotonicClock.boottimeNanoseconds()
            self.packetSockets[serial] = nil
            emit(.socket(closed))
        }
    }

    private func takeNames(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var taken: [traffic_owner_key] = []
        try self.executed.forEach(
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

    private func takePackets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        guard self.rung.seesPackets else { return emit(.interfaces(try self.interfaces.read())) }
        // Of one moment, so that they can be compared: no packet passes between the two looks at ours. Under load that may not be had.
        var packets = try self.readPackets()
        for attempt in 1...20 {
            let interfaces = try self.interfaces.read()
            let before = packets
            packets = try self.readPackets()
            guard packets == before || attempt == 20 else { continue }
            emit(.packets(packets))
            return emit(.interfaces(interfaces))
        }
    }

    private func readPackets() throws(CaptureError) -> [InterfacePackets] {
        var packets: [InterfacePackets] = []
        for key in self.packets.keys(as: traffic_interface_key.self) {
            packets.append(InterfacePackets(key, try self.packets.perCPUValues(of: key, as: traffic_interface.self)))
        }
        return packets
    }

    public func programMeter() throws(CaptureError) -> ProgramMeter? {
        // Without the one that only the start runs.
        let iterated = [
            try self.rung.object.program("sweep_sockets"), try self.rung.object.program("adopt_held_sockets"),
        ]
        return try ProgramMeter(programs: self.rung.links.programs + iterated)
    }

    private func takeLoss(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        var loss = CaptureLoss(recordsMalformed: self.malformed, missedRuns: try self.rung.links.missedRuns())
        for cpu in try self.loss.perCPUValues(as: traffic_loss.self) {
            loss.missedRuns += cpu.returns_missed
            loss.ringFull += cpu.closed_deferred + cpu.closed_lost
            loss.mapFull += cpu.closed_lost + cpu.owners_lost + cpu.sockets_lost + cpu.interfaces_lost
            loss.lostSentBytes += cpu.lost_sent_bytes
            loss.lostReceivedBytes += cpu.lost_received_bytes
            loss.lostWire += WireTotals(sent: cpu.lost_wire_sent_bytes, received: cpu.lost_wire_received_bytes)
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
