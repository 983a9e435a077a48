public import TrafficModel

extension Table {
    /// A row per process. The name is last among what describes, where cutting it hurts least.
    public static func processes(_ snapshot: Snapshot, order: RowOrder) -> Table {
        let processes = snapshot.processes ?? []
        let rows = processes.enumerated().map { UsageRow($1, at: $0) }.sorted(by: order.precedes)
        return Table(
            columns: [
                Column("PID", "pid"), Column("USER", "user", cutTo: 6), Column("PROCESS", "name", cutTo: 8),
                Column("UNIT", "unit", cutTo: 6), Column("STATE", "state"), Column("SOCK", "sockets_open"),
                Column("SENT/s", "payload_sent_bytes_per_second"),
                Column("RECV/s", "payload_received_bytes_per_second"),
                Column("SENT", "payload_sent_bytes"), Column("RECV", "payload_received_bytes"),
            ],
            rows: rows.map { row in
                [
                    .count(Int(row.pid ?? 0)), .text(row.user ?? ""), .text(row.name), row.unit.map(Cell.text) ?? .none,
                    .text(row.isRunning ? "running" : "exited"), .count(row.sockets),
                    .rate(row.rates.sent), .rate(row.rates.received),
                    .bytes(row.bytes.payload.sent), .bytes(row.bytes.payload.received),
                ]
            }
        )
    }

    /// A row per socket, with the process that moved most of its bytes.
    public static func sockets(_ snapshot: Snapshot, order: RowOrder) -> Table {
        let names = Dictionary(
            (snapshot.processes ?? []).map { ($0.identity, $0.details.name) },
            uniquingKeysWith: { first, _ in first }
        )
        let sockets = (snapshot.sockets ?? []).sorted(by: order.precedes)
        return Table(
            columns: [
                Column("PROTO", "protocol"), Column("STATE", "state"), Column("LOCAL", "local", cutTo: 15),
                Column("REMOTE", "remote", cutTo: 15), Column("PID", "pid"), Column("PROCESS", "name", cutTo: 8),
                Column("RTT", "smoothed_rtt_us"), Column("RETX", "retransmitted_segments"),
                Column("SENT/s", "payload_sent_bytes_per_second"),
                Column("RECV/s", "payload_received_bytes_per_second"),
                Column("SENT", "payload_sent_bytes"), Column("RECV", "payload_received_bytes"),
            ],
            rows: sockets.map { socket in
                let owner = socket.owners.max { $0.payload.total < $1.payload.total }?.identity
                let name = owner.flatMap { names[$0] }
                return [
                    .text(socket.transport.rawValue), .text(socket.state.shortName), .text(socket.local.description),
                    .text(socket.remote.description), owner.map { .count(Int($0.pid)) } ?? .none,
                    name.map(Cell.text) ?? .none,
                    socket.smoothedRoundTripMicroseconds.map(Cell.microseconds) ?? .none,
                    socket.retransmittedSegments.map { .count(Int(clamping: $0)) } ?? .none,
                    .rate(socket.rates.sent), .rate(socket.rates.received),
                    .bytes(socket.bytes.payload.sent), .bytes(socket.bytes.payload.received),
                ]
            }
        )
    }
}
