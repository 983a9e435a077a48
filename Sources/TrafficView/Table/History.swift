public import TrafficModel

extension Table {
    /// A row per name, or per time and name, with a bar that shows its part of the longest row.
    ///
    /// - Parameters:
    ///   - time: Writes the beginning of a minute, hour, day or month.
    ///   - user: The name of a user; `nil` if it has none.
    public static func history(
        _ report: HistoryReport,
        time: (Timestamp) -> String,
        user: (UInt32) -> String?
    ) -> Table {
        let hasTime = report.rows.contains { $0.time != nil }
        let hasWire = report.rows.contains { $0.bytes.wireSent != nil }
        let most = report.rows.map(\.bytes.payload.total).max() ?? 0
        func row(_ name: [Cell], _ row: HistoryRow, hasBar: Bool = true) -> [Cell] {
            let total = row.bytes.payload.total
            let wire = [row.bytes.wireSent, row.bytes.wireReceived].compactMap { $0 }
            return (hasTime ? [row.time.map { .text(time($0)) } ?? .none] : []) + name
                + [.bytes(row.bytes.payload.sent), .bytes(row.bytes.payload.received), .bytes(total)]
                + (hasWire ? [wire.isEmpty ? .none : .bytes(wire.reduce(0, +|))] : [])
                + [hasBar && most > 0 ? .share(Double(total) / Double(most)) : .none]
        }
        let names = report.by.filter { $0 != .total }
        var rows = report.rows.map { item in row(names.map { $0.cell(of: item.name, user) }, item) }
        if let others = report.others, let count = report.othersCount, !names.isEmpty {
            let label = Cell.text("\(count) more")
            rows.append(row([label] + names.dropFirst().map { _ in .none }, others, hasBar: false))
        }
        return Table(
            columns: (hasTime ? [Column("TIME")] : []) + names.map(\.tableColumn)
                + [Column("SENT"), Column("RECV"), Column("TOTAL")] + (hasWire ? [Column("WIRE", rank: 1)] : [])
                + [Column("", rank: 0)],
            rows: rows
        )
    }
}

extension HistoryDimension {
    fileprivate var tableColumn: Table.Column {
        switch self {
        case .process: Table.Column("PROCESS", cutTo: 8)
        case .user: Table.Column("USER", cutTo: 6)
        case .unit: Table.Column("UNIT", cutTo: 8)
        case .container: Table.Column("CONTAINER", cutTo: 12)
        case .scope: Table.Column("SCOPE")
        case .class: Table.Column("CLASS", cutTo: 8)
        case .total: Table.Column("")
        }
    }

    fileprivate func cell(of name: HistoryName, _ user: (UInt32) -> String?) -> Table.Cell {
        let text: String? =
            switch self {
            case .process: name.process
            case .user: name.uid.map { user($0) ?? String($0) }
            case .unit: name.systemdUnit
            case .container: name.containerID
            case .scope: name.scope
            case .class: name.addressClass
            case .total: nil
            }
        return text.map(Table.Cell.text) ?? .none
    }
}
