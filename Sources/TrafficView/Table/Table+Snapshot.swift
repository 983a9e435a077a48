public import TrafficModel

extension Snapshot {
    /// - Parameter limit: The most processes to keep.
    public func withProcesses(sortedBy order: RowOrder, limit: Int? = nil) -> Snapshot {
        guard let processes = self.processes else { return self }
        var result = self
        let rows = processes.enumerated().map { UsageRow($1, at: $0) }.sorted(by: order.precedes)
        result.processes = rows.prefix(limit ?? .max).flatMap(\.members).map { processes[$0] }
        return result
    }

    /// - Parameter limit: The most sockets to keep.
    public func withSockets(sortedBy order: RowOrder, limit: Int? = nil) -> Snapshot {
        var result = self
        result.sockets = self.sockets.map { Array($0.sorted(by: order.precedes).prefix(limit ?? .max)) }
        return result
    }
}

extension Table {
    /// A row per process, in the snapshot's order.
    public static func processes(_ snapshot: Snapshot) -> Table {
        let rows = (snapshot.processes ?? []).enumerated().map { UsageRow($1, at: $0) }
        let pending = Self.pending(rows.map(\.bytes))
        return Table(
            columns: [
                Column("PID"), Column("USER", cutTo: 6), Column("PROCESS", cutTo: 8),
                Column("UNIT", cutTo: 6, rank: 5), Column("STATE", rank: 4),
                Column("SOCK"),
                Column("SENT/s", rank: 2),
                Column("RECV/s", rank: 3),
                Column("SENT"), Column("RECV"),
            ] + pending.columns,
            rows: rows.map { row in
                [
                    .count(Int(row.pid ?? 0)), .text(row.user ?? ""), .text(row.name), row.unit.map(Cell.text) ?? .none,
                    .text(row.isRunning ? "running" : "exited"), .count(row.sockets),
                    .rate(row.rates.sent), .rate(row.rates.received),
                    .bytes(row.bytes.payload.sent), .bytes(row.bytes.payload.received),
                ] + pending.cells(row.bytes)
            }
        )
    }

    /// A column for the bytes of calls that have not returned yet (`pending_sent_bytes` of JSON), where there are any.
    /// So SENT and `payload_sent_bytes` are the same number.
    private static func pending(_ rows: [ByteCounts]) -> (columns: [Column], cells: (ByteCounts) -> [Cell]) {
        guard rows.contains(where: { $0.pendingSent > 0 }) else { return ([], { _ in [] }) }
        return ([Column("PENDING", rank: 1)], { [.bytes($0.pendingSent)] })
    }

    /// A row per socket, in the snapshot's order, with the process that moved most of its bytes.
    public static func sockets(_ snapshot: Snapshot) -> Table {
        let names = Dictionary(
            (snapshot.processes ?? []).map { ($0.identity, $0.details.name) },
            uniquingKeysWith: { first, _ in first }
        )
        let hasClasses = snapshot.totals.byClass != nil
        let pending = Self.pending((snapshot.sockets ?? []).map(\.bytes))
        let classColumn = Column("CLASS", cutTo: 6, rank: 1)
        return Table(
            columns: [
                Column("PROTO"), Column("STATE", rank: 7), Column("LOCAL", cutTo: 15),
                Column("REMOTE", cutTo: 15), Column("SCOPE", rank: 0),
            ] + (hasClasses ? [classColumn] : []) + [
                Column("PID"), Column("PROCESS", cutTo: 8),
                Column("RTT", rank: 3), Column("RETX", rank: 2),
                Column("SENT/s", rank: 5),
                Column("RECV/s", rank: 6),
                Column("SENT"), Column("RECV"),
            ] + pending.columns + [Column("COOKIE", rank: 4)],
            rows: (snapshot.sockets ?? []).map { socket in
                let owner = socket.mainOwner?.identity
                let name = owner.flatMap { names[$0] }
                let addressClass = hasClasses ? [socket.addressClass.map(Cell.text) ?? .none] : []
                return [
                    .text(socket.transport.rawValue), .text(socket.state.rawValue), .text(socket.local.description),
                    .text(socket.remote.description), (socket.scope?.rawValue).map(Cell.text) ?? .none,
                ] + addressClass + [
                    owner.map { .count(Int($0.pid)) } ?? .none, name.map(Cell.text) ?? .none,
                    socket.smoothedRoundTripMicroseconds.map(Cell.microseconds) ?? .none,
                    socket.retransmittedSegments.map { .count(Int(clamping: $0)) } ?? .none,
                    .rate(socket.rates.sent), .rate(socket.rates.received),
                    .bytes(socket.bytes.payload.sent), .bytes(socket.bytes.payload.received),
                ] + pending.cells(socket.bytes) + [.count(Int(clamping: socket.cookie.rawValue))]
            }
        )
    }
}
