public import TrafficModel

extension Snapshot {
    /// - Parameter limit: At most so many.
    public func withProcesses(sortedBy order: RowOrder, limit: Int? = nil) -> Snapshot {
        guard let processes = self.processes else { return self }
        var result = self
        let rows = processes.enumerated().map { UsageRow($1, at: $0) }.sorted(by: order.precedes)
        result.processes = rows.prefix(limit ?? .max).flatMap(\.members).map { processes[$0] }
        return result
    }

    /// - Parameter limit: At most so many.
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
        return Table(
            columns: [
                Column("PID", "pid"), Column("USER", "user", cutTo: 6), Column("PROCESS", "name", cutTo: 8),
                Column("UNIT", "unit", cutTo: 6, rank: 5), Column("STATE", "state", rank: 4),
                Column("SOCK", "sockets_open"),
                Column("SENT/s", "payload_sent_bytes_per_second", rank: 2),
                Column("RECV/s", "payload_received_bytes_per_second", rank: 3),
                Column("SENT", "sent_bytes"), Column("RECV", "received_bytes"),
            ],
            rows: rows.map { row in
                [
                    .count(Int(row.pid ?? 0)), .text(row.user ?? ""), .text(row.name), row.unit.map(Cell.text) ?? .none,
                    .text(row.isRunning ? "running" : "exited"), .count(row.sockets),
                    .rate(row.rates.sent), .rate(row.rates.received),
                    .bytes(row.bytes.payloadSoFar.sent), .bytes(row.bytes.payloadSoFar.received),
                ]
            }
        )
    }

    /// A row per socket, in the snapshot's order, with the process that moved most of its bytes.
    public static func sockets(_ snapshot: Snapshot) -> Table {
        let names = Dictionary(
            (snapshot.processes ?? []).map { ($0.identity, $0.details.name) },
            uniquingKeysWith: { first, _ in first }
        )
        let hasClasses = snapshot.totals.byClass != nil
        let classColumn = Column("CLASS", "class", cutTo: 6, rank: 1)
        return Table(
            columns: [
                Column("PROTO", "protocol"), Column("STATE", "state", rank: 7), Column("LOCAL", "local", cutTo: 15),
                Column("REMOTE", "remote", cutTo: 15), Column("SCOPE", "scope", rank: 0),
            ] + (hasClasses ? [classColumn] : []) + [
                Column("PID", "pid"), Column("PROCESS", "name", cutTo: 8),
                Column("RTT", "smoothed_rtt_us", rank: 3), Column("RETX", "retransmitted_segments", rank: 2),
                Column("SENT/s", "payload_sent_bytes_per_second", rank: 5),
                Column("RECV/s", "payload_received_bytes_per_second", rank: 6),
                Column("SENT", "sent_bytes"), Column("RECV", "received_bytes"), Column("COOKIE", "cookie", rank: 4),
            ],
            rows: (snapshot.sockets ?? []).map { socket in
                let owner = socket.owners.max { $0.payload.total < $1.payload.total }?.identity
                let name = owner.flatMap { names[$0] }
                let addressClass = hasClasses ? [socket.addressClass.map(Cell.text) ?? .none] : []
                return [
                    .text(socket.transport.rawValue), .text(socket.state.shortName), .text(socket.local.description),
                    .text(socket.remote.description), (socket.scope?.rawValue).map(Cell.text) ?? .none,
                ] + addressClass + [
                    owner.map { .count(Int($0.pid)) } ?? .none, name.map(Cell.text) ?? .none,
                    socket.smoothedRoundTripMicroseconds.map(Cell.microseconds) ?? .none,
                    socket.retransmittedSegments.map { .count(Int(clamping: $0)) } ?? .none,
                    .rate(socket.rates.sent), .rate(socket.rates.received),
                    .bytes(socket.bytes.payloadSoFar.sent), .bytes(socket.bytes.payloadSoFar.received),
                    .count(Int(clamping: socket.cookie.rawValue)),
                ]
            }
        )
    }
}
