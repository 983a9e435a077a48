import CTrafficABI
import TrafficEvents
import TrafficModel

/// Reads and then removes the rows in which the kernel counts bytes that no record of a socket reports (`rows.bpf.h`).
///
/// Programs add to the rows of one generation. To read these rows, the daemon raises the generation. ``GracePeriod``
/// then waits until no program can still be adding to the previous one. If that takes long, a later sweep reads the
/// rows, so a user who floods the machine cannot block the daemon. No row is removed before it is read, and where the
/// capture outlives the daemon, none before what it said is safe.
struct RowReader {
    private let rows: BPFMap
    private let userRows: BPFMap
    private let commonRows: BPFMap
    private let unrecordedEnds: BPFMap
    private(set) var generation: UInt32 = 0
    private let gracePeriod: GracePeriod
    /// Whether the rows of the previous generation have not been read yet.
    private var isUnread = false
    /// Closed sockets whose bytes are in those rows.
    private var previousEnds: [UInt64] = []
    /// Closed sockets whose bytes may be in rows of the present generation. Every sweep takes them from the queue,
    /// because all users share the room of the queue.
    private var presentEnds: [UInt64] = []
    /// The value of `folded` when the generation was last raised.
    private var foldedBefore: UInt64 = 0
    /// The value of `folded` at the last call of ``take(by:folded:isClosing:keepsRows:raise:drain:_:)``.
    private var foldedAtLastTake: UInt64 = 0
    /// Number of readings so far. The generation wraps around; this number does not.
    private var readings: UInt64 = 0
    /// The generation that was read last.
    private var lastRead: UInt32?
    /// Rows that were read and are still in the maps.
    private var taken: Taken?

    private struct Taken {
        var generation: UInt32
        var processes: [traffic_row_key]
        var users: [traffic_row_key]
    }

    /// How far a reader has come.
    struct Position: Codable, Hashable, Sendable {
        var readings: UInt64
        var lastRead: UInt32?
        /// Closed sockets, by serial, whose end the ledger does not know yet.
        var ends: [UInt64]
    }

    /// - Parameters:
    ///   - position: Where an earlier reader ended. The rows that it read leave the maps at once.
    ///   - generation: The generation to which programs add at present.
    init(_ kernel: KernelSide, from position: Position?, generation: UInt32) throws(CaptureError) {
        self.gracePeriod = try GracePeriod()
        self.rows = try kernel.map("rows")
        self.userRows = try kernel.map("user_rows")
        self.commonRows = try kernel.map("common_rows")
        self.unrecordedEnds = try kernel.map("unrecorded_ends")
        self.generation = generation
        guard let position else { return }
        (self.readings, self.lastRead, self.presentEnds) = (position.readings, position.lastRead, position.ends)
        if position.lastRead == generation &- 1 {
            // That reader may have been killed before it removed these rows.
            self.taken = Taken(
                generation: generation &- 1,
                processes: try Self.keys(in: self.rows, of: generation &- 1),
                users: try Self.keys(in: self.userRows, of: generation &- 1)
            )
            try self.release()
        } else {
            self.isUnread = generation != 0
        }
    }

    var position: Position {
        Position(readings: self.readings, lastRead: self.lastRead, ends: self.previousEnds + self.presentEnds)
    }

    /// Whether rows have bytes that the ledger has not: the rows are not complete yet, or they can't be read before a
    /// checkpoint lets the rows before them go.
    var awaitsRows: Bool { self.isUnread || self.foldedAtLastTake > self.foldedBefore }

    /// Removes the rows that were read.
    mutating func release() throws(CaptureError) {
        guard let taken else { return }
        try self.commonRows.set(taken.generation & 1, to: traffic_row())
        for key in taken.processes { self.rows.remove(key) }
        for key in taken.users { self.userRows.remove(key) }
        self.taken = nil
    }

    /// - Parameters:
    ///   - deadline: How long to wait for programs, in nanoseconds of ``MonotonicClock``. A later call reads rows that
    ///     are not complete by then.
    ///   - folded: How many sockets and calls have been added to rows so far.
    ///   - isClosing: A program may be about to add to a row.
    ///   - keepsRows: The rows stay in the maps until ``release()``.
    ///   - raise: Makes the programs add to this generation from now on.
    ///   - drain: Reads the ring, and the copies in `released`. Records made while a socket was open must reach the ledger
    ///     before ``CaptureEvent/closedWithoutRecord(_:)`` says that the socket closed. Returns whether all of them
    ///     did; if not, a later call goes on.
    mutating func take(
        by deadline: UInt64,
        folded: UInt64,
        isClosing: Bool,
        keepsRows: Bool,
        raise: (UInt32) throws(CaptureError) -> Void,
        drain: () throws(CaptureError) -> Bool,
        _ emit: (CaptureEvent) -> Void
    ) throws(CaptureError) {
        self.presentEnds += self.unrecordedEnds.popAll(as: UInt64.self)
        self.foldedAtLastTake = folded
        if self.isUnread { try self.readWhenComplete(by: deadline, emit) }
        if !keepsRows { try self.release() }
        // The next generation needs the place of the rows that were read.
        guard self.taken == nil else { return }
        // A socket may have closed after `folded` was read. Then only `unrecordedEnds` contains the socket.
        guard !self.isUnread, folded > self.foldedBefore || isClosing || !self.presentEnds.isEmpty else { return }
        if !self.presentEnds.isEmpty { guard try drain() else { return } }
        try raise(self.generation &+ 1)
        self.generation &+= 1
        self.foldedBefore = folded
        self.isUnread = true
        swap(&self.previousEnds, &self.presentEnds)
        try self.readWhenComplete(by: deadline, emit)
        if !keepsRows { try self.release() }
    }

    private mutating func readWhenComplete(
        by deadline: UInt64,
        _ emit: (CaptureEvent) -> Void
    ) throws(CaptureError) {
        guard try self.gracePeriod.hasPassed(by: deadline) else { return }
        try self.read(emit)
        guard !self.previousEnds.isEmpty else { return }
        // This event comes after the rows: so a reader of the events never sees a closed socket whose bytes are
        // missing.
        emit(.closedWithoutRecord(self.previousEnds))
        self.previousEnds.removeAll()
    }

    private mutating func read(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let past = self.generation &- 1
        let common = FoldedRows.Row(try self.commonRows.value(at: past & 1, as: traffic_row.self))
        let processes = try Self.read(self.rows, of: past)
        let users = try Self.read(self.userRows, of: past)
        // Nothing below can fail, so every removed row is reported.
        self.isUnread = false
        self.lastRead = past
        self.readings += 1
        self.taken = Taken(generation: past, processes: processes.map(\.key), users: users.map(\.key))
        var folded = FoldedRows(generation: self.readings)
        folded.processes = processes.map(\.row)
        folded.users = users.map(\.row).filter { !$0.isEmpty }
        folded.common = common.isEmpty ? nil : common
        emit(.rows(folded))
    }

    private static func keys(in map: BPFMap, of generation: UInt32) throws(CaptureError) -> [traffic_row_key] {
        try map.keys(as: traffic_row_key.self).filter { $0.generation == generation }
    }

    private static func read(
        _ map: BPFMap,
        of generation: UInt32
    ) throws(CaptureError) -> [(key: traffic_row_key, row: FoldedRows.Row)] {
        var taken: [(key: traffic_row_key, row: FoldedRows.Row)] = []
        try map.forEach(
            keySize: MemoryLayout<traffic_row_key>.size,
            valueSize: MemoryLayout<traffic_row>.size
        ) { key, value in
            let key = key.unsafeLoadUnaligned(as: traffic_row_key.self)
            guard key.generation == generation else { return }
            taken.append((key, FoldedRows.Row(value.unsafeLoadUnaligned(as: traffic_row.self))))
        }
        return taken
    }
}

extension FoldedRows.Row {
    fileprivate init(_ row: traffic_row) {
        self.init(
            owner: OwnerObservation(row.owner),
            wire: WireTotals(sent: row.wire.sent_bytes, received: row.wire.received_bytes),
            retransmitted: row.retransmitted_bytes,
            sockets: row.sockets
        )
    }

    /// Whether the row has no amounts: a program makes a user's row before any byte is added to the row.
    fileprivate var isEmpty: Bool {
        self.owner.payload == PayloadBytes() && self.wire.isZero && self.retransmitted == 0 && self.sockets == 0
    }
}
