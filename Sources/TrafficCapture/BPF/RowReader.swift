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
    private let commonRows: BPFMap
    private let unrecordedEnds: BPFMap
    /// A row does not say whether its wire bytes are derived or estimated. So they count as estimated, unless packets are
    /// counted.
    private let seesPackets: Bool
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
    /// The value of `folded` at the last call of ``prepare(by:folded:isClosing:raise:)``.
    private var foldedNow: UInt64 = 0
    /// Whether no program can still be adding to the rows of the previous generation.
    private var isComplete = false
    /// Number of readings so far. The generation wraps around; this number does not.
    private var readings: UInt64 = 0
    /// The generation that was read last.
    private var lastRead: UInt32?
    /// Rows that were read and are still in the maps.
    private var taken: Taken?

    private struct Taken {
        var generation: UInt32
        var keys: [traffic_row_key]
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
        self.commonRows = try kernel.map("common_rows")
        self.unrecordedEnds = try kernel.map("unrecorded_ends")
        self.seesPackets = kernel.description.wire != .derived
        self.generation = generation
        guard let position else { return }
        (self.readings, self.lastRead, self.presentEnds) = (position.readings, position.lastRead, position.ends)
        if position.lastRead == generation &- 1 {
            // That reader may have been killed before it removed these rows.
            let keys = try self.rows.keys(as: traffic_row_key.self).filter { $0.generation == generation &- 1 }
            self.taken = Taken(generation: generation &- 1, keys: keys)
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
    var awaitsRows: Bool { self.isUnread || self.foldedNow > self.foldedBefore }

    /// Removes the rows that were read.
    mutating func release() throws(CaptureError) {
        guard let taken else { return }
        try self.commonRows.set(taken.generation & 1, to: traffic_row())
        for key in taken.keys { self.rows.remove(key) }
        self.taken = nil
    }

    /// If programs have added to rows, makes them add to new ones, and waits until none can still be adding to the old ones.
    /// Records that sockets made before they closed must be read between this call and ``take(hasAllRecords:_:)``.
    ///
    /// - Parameters:
    ///   - deadline: How long to wait for programs, in nanoseconds of ``MonotonicClock``. A later call waits on.
    ///   - folded: How many sockets and calls have been added to rows so far.
    ///   - isClosing: A program may be about to add to a row, or to leave a record.
    ///   - raise: Makes the programs add to this generation from now on.
    mutating func prepare(
        by deadline: UInt64,
        folded: UInt64,
        isClosing: Bool,
        raise: (UInt32) throws(CaptureError) -> Void
    ) throws(CaptureError) {
        // A program adds to rows before it puts the serial in the queue. So the rows of these sockets are of this generation
        // or of an earlier one.
        self.presentEnds += self.unrecordedEnds.popAll(as: UInt64.self)
        self.foldedNow = folded
        // The next generation needs the place of the rows that were read.
        if !self.isUnread, self.taken == nil, folded > self.foldedBefore || isClosing || !self.presentEnds.isEmpty {
            try raise(self.generation &+ 1)
            self.generation &+= 1
            self.foldedBefore = folded
            self.isUnread = true
            swap(&self.previousEnds, &self.presentEnds)
        }
        guard self.isUnread, !self.isComplete else { return }
        self.isComplete = try self.gracePeriod.hasPassed(by: deadline)
    }

    /// Reads the rows of the previous generation, if they are complete. They stay in the maps until ``release()``.
    ///
    /// - Parameter hasAllRecords: All records that sockets made before they closed have been read since
    ///   ``prepare(by:folded:isClosing:raise:)``. Otherwise rows wait with which sockets leave the list.
    mutating func take(hasAllRecords: Bool, _ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        guard self.isComplete, hasAllRecords || self.previousEnds.isEmpty else { return }
        let past = self.generation &- 1
        let common = self.row(try self.commonRows.value(at: past & 1, as: traffic_row.self))
        var folded = FoldedRows(generation: self.readings + 1)
        folded.common = common.isEmpty ? nil : common
        var keys: [traffic_row_key] = []
        try self.rows.forEach(
            keySize: MemoryLayout<traffic_row_key>.size,
            valueSize: MemoryLayout<traffic_row>.size
        ) { key, value in
            let key = key.unsafeLoadUnaligned(as: traffic_row_key.self)
            guard key.generation == past else { return }
            keys.append(key)
            let row = self.row(value.unsafeLoadUnaligned(as: traffic_row.self))
            if key.start_boottime_ns != 0 {
                folded.processes.append(row)
            } else if !row.isEmpty {
                folded.users.append(row)
            }
        }
        // Nothing below can fail, so every removed row is reported.
        (self.isUnread, self.isComplete) = (false, false)
        self.lastRead = past
        self.readings += 1
        self.taken = Taken(generation: past, keys: keys)
        emit(.rows(folded))
        guard !self.previousEnds.isEmpty else { return }
        // This event comes after the rows: so a reader of the events never sees a closed socket whose bytes are
        // missing.
        emit(.closedWithoutRecord(self.previousEnds))
        self.previousEnds.removeAll()
    }

    private func row(_ row: traffic_row) -> FoldedRows.Row {
        let (sent, received) = (row.wire.sent_bytes, row.wire.received_bytes)
        return FoldedRows.Row(
            owner: OwnerObservation(row.owner),
            wire: WireTotals(sent: sent, received: received, estimated: self.seesPackets ? 0 : sent +| received),
            retransmitted: row.retransmitted_bytes,
            sockets: row.sockets
        )
    }
}

extension FoldedRows.Row {
    /// Whether the row has no amounts: a program makes a user's row before any byte is added to the row.
    fileprivate var isEmpty: Bool {
        self.owner.payload == PayloadBytes() && self.wire.isZero && self.retransmitted == 0 && self.sockets == 0
    }
}
