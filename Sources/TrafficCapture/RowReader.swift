import CLinux
import CTrafficABI
import TrafficModel

/// Reads the rows in which the kernel counts what no record of a socket tells (`rows.bpf.h`), and empties them.
///
/// Programs add to the rows of one generation. To read them, the generation is raised, and membarrier(2) waits until no program can
/// still be adding to the one before. So rows never run out for longer than one sweep, and none is removed before it is read.
struct RowReader {
    private let rows: BPFMap
    private let userRows: BPFMap
    private let rest: BPFMap
    private let gone: BPFMap
    private(set) var generation: UInt32 = 0
    /// Rows of the generation before this one wait to be read: this kernel can't wait for its programs.
    private var isWaiting = false
    /// What had been folded when the generation was raised last.
    private var foldedBefore: UInt64 = 0
    /// Readings so far: generations wrap, this does not.
    private var readings: UInt64 = 0

    init(object: borrowing BPFObject) throws(CaptureError) {
        self.rows = try object.map("rows")
        self.userRows = try object.map("user_rows")
        self.rest = try object.map("rest")
        self.gone = try object.map("gone")
    }

    /// - Parameters:
    ///   - folded: How many sockets and calls have been added to rows so far.
    ///   - isClosing: A program may be about to add to a row.
    ///   - raise: Tells the programs the new generation.
    ///   - drain: Empties the ring. Records made while a socket was open must reach the ledger before ``CaptureEvent/gone(_:)`` says that it
    ///     closed.
    mutating func take(
        folded: UInt64,
        isClosing: Bool,
        raise: (UInt32) throws(CaptureError) -> Void,
        drain: () throws(CaptureError) -> Void,
        _ emit: (CaptureEvent) -> Void
    ) throws(CaptureError) {
        let serials = self.gone.popAll(as: UInt64.self)
        if !serials.isEmpty { try drain() }
        if self.isWaiting { try self.read(emit) }
        if folded > self.foldedBefore || isClosing {
            self.foldedBefore = folded
            self.generation &+= 1
            try raise(self.generation)
            // Refused where processors are kept free of the tick (nohz_full): then the next sweep reads, an interval later.
            if linux_membarrier_global() == 0 { try self.read(emit) } else { self.isWaiting = true }
        }
        // After the rows: a reader of the events then never sees a closed socket whose bytes are nowhere.
        if !serials.isEmpty { emit(.gone(serials)) }
    }

    private mutating func read(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        self.isWaiting = false
        self.readings += 1
        let past = self.generation &- 1
        var folded = FoldedRows(generation: self.readings)
        folded.processes = try Self.take(from: self.rows, of: past)
        folded.users = try Self.take(from: self.userRows, of: past).filter { !$0.isEmpty }
        let rest = try self.rest.value(at: past & 1, as: traffic_row.self)
        try self.rest.set(past & 1, to: traffic_row())
        folded.rest = FoldedRows.Row(rest).isEmpty ? nil : FoldedRows.Row(rest)
        emit(.rows(folded))
    }

    private static func take(from map: BPFMap, of generation: UInt32) throws(CaptureError) -> [FoldedRows.Row] {
        var taken: [(key: traffic_row_key, row: FoldedRows.Row)] = []
        try map.forEach(
            keySize: MemoryLayout<traffic_row_key>.size,
            valueSize: MemoryLayout<traffic_row>.size
        ) { key, value in
            let key = key.unsafeLoadUnaligned(as: traffic_row_key.self)
            guard key.generation == generation else { return }
            taken.append((key, FoldedRows.Row(value.unsafeLoadUnaligned(as: traffic_row.self))))
        }
        for (key, _) in taken { map.remove(key) }
        return taken.map(\.row)
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

    /// A user's row is made before any byte comes to it.
    fileprivate var isEmpty: Bool {
        self.owner.payload == PayloadBytes() && self.wire.isZero && self.retransmitted == 0 && self.sockets == 0
    }
}
