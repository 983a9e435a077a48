public import TrafficDocuments
import TrafficModel

extension Table {
    /// A row per name, or per time and name, with a bar that shows its part of the longest row.
    public static func history(_ report: HistoryReport) -> Table {
        let times = report.times
        let hasTime = report.rows.contains { $0.time != nil }
        let hasWire = report.rows.contains { $0.bytes.wireSent != nil }
        let most = report.rows.map(\.amounts.sum.total).max() ?? 0
        func row(_ name: [Cell], _ row: HistoryRow, hasBar: Bool = true) -> [Cell] {
            let total = row.amounts.sum.total
            return (hasTime ? [row.time.flatMap { times[$0] }.map(Cell.text) ?? .none] : []) + name
                + row.amounts.cells(hasWire: hasWire)
                + [hasBar && most > 0 ? .share(Double(total) / Double(most)) : .none]
        }
        let names = report.by.filter { $0 != .total }
        var rows = report.rows.map { item in row(names.map { $0.cell(of: item) } + item.roleCell, item) }
        if let others = report.others, let count = report.othersCount, !names.isEmpty {
            let label = Cell.text("\(count) more")
            let rest = names.dropFirst().map { _ in Cell.none } + others.roleCell
            rows.append(row([label] + rest, others, hasBar: false))
        }
        return Table(
            columns: (hasTime ? [Column("TIME")] : []) + names.map(\.tableColumn)
                + report.sums.columns(hasWire: hasWire) + [Column("", rank: 0)],
            rows: rows
        )
    }
}

extension HistoryReport {
    /// The beginnings of its sums as the host's clock showed them, and only as much of them as differs between two sums.
    /// Two sums have the same time when the clock was put back, or the host got another time zone: those say their offset
    /// from UTC.
    fileprivate var times: [Timestamp: String] {
        let local = self.rows.reduce(into: [Timestamp: HostTime]()) { times, row in
            if let time = row.time, let local = row.localTime { times[time] = local }
        }
        let texts = local.mapValues { $0.text(self.level) }
        let counts = texts.values.reduce(into: [:]) { $0[$1, default: 0] += 1 }
        return texts.reduce(into: [:]) { result, entry in
            let isClear = counts[entry.value] == 1
            result[entry.key] = isClear ? entry.value : entry.value + " " + (local[entry.key]?.offset ?? "")
        }
    }
}

extension HostTime {
    fileprivate func text(_ level: HistoryLevel) -> String {
        switch level {
        case .minute, .fiveMinutes, .hour: self.minute
        case .day: self.day
        case .month: self.month
        }
    }
}

extension HistoryRow {
    /// The name of the user, or the number without one.
    var userName: String? { self.user ?? self.name.uid.map { String($0) } }

    /// None for bytes of sockets and interfaces.
    fileprivate var roleCell: [Table.Cell] {
        guard case .messages = self.amounts else { return [] }
        return [self.name.role.map(Table.Cell.text) ?? .none]
    }
}

extension HistoryAmounts {
    /// With the column of the role.
    fileprivate func columns(hasWire: Bool) -> [Table.Column] {
        let bytes = [Table.Column("SENT"), Table.Column("RECV"), Table.Column("TOTAL", rank: 4)]
        return switch self {
        case .bytes:
            [Table.Column("SENT"), Table.Column("RECV"), Table.Column("TOTAL")]
                + (hasWire ? [Table.Column("WIRE", rank: 1)] : [])
        case .messages:
            [
                Table.Column("ROLE", rank: 3), Table.Column("REQ"), Table.Column("FAIL", rank: 5),
                Table.Column("HEADERS", rank: 1), Table.Column("BODIES", rank: 2),
            ] + bytes
        case .packets: bytes + [Table.Column("PACKETS", rank: 1)]
        }
    }

    /// Without the role.
    fileprivate func cells(hasWire: Bool) -> [Table.Cell] {
        let bytes = [self.sum.sent, self.sum.received, self.sum.total].map { Table.Cell.bytes($0) }
        switch self {
        case .bytes(let counts):
            let wire = [counts.wireSent, counts.wireReceived].compactMap { $0 }
            return bytes + (hasWire ? [wire.isEmpty ? .none : .bytes(wire.reduce(0, +|))] : [])
        case .messages(let counts):
            let numbers = [counts.requests, counts.failures].map { Table.Cell.count(Int(clamping: $0)) }
            let headers = counts.sent.header +| counts.received.header
            return numbers + [.bytes(headers), .bytes(counts.sent.body +| counts.received.body)] + bytes
        case .packets(let counts):
            return bytes + [.count(Int(clamping: counts.sentPackets +| counts.receivedPackets))]
        }
    }
}

extension HistoryDimension {
    fileprivate var tableColumn: Table.Column {
        switch self {
        case .process: Table.Column("PROCESS", cutTo: 8)
        case .user: Table.Column("USER", cutTo: 6)
        case .unit: Table.Column("UNIT", cutTo: 8)
        case .container: Table.Column("CONTAINER", cutTo: 12)
        case .host: Table.Column("HOST", cutTo: 10)
        case .route: Table.Column("ROUTE", cutTo: 12)
        case .scope: Table.Column("SCOPE")
        case .interface: Table.Column("INTERFACE", cutTo: 8)
        case .class: Table.Column("CLASS", cutTo: 8)
        case .total: Table.Column("")
        }
    }

    fileprivate func cell(of row: HistoryRow) -> Table.Cell {
        let name = row.name
        let text: String? =
            switch self {
            case .process: name.process
            case .user: row.userName
            case .unit: name.systemdUnit
            case .container: name.containerID
            case .host: name.host
            case .route: name.route
            case .scope: name.scope
            case .interface: name.interface
            case .class: name.addressClass
            case .total: nil
            }
        return text.map(Table.Cell.text) ?? .none
    }
}
