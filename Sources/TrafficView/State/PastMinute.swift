public import TrafficDocuments
public import TrafficModel
import TrafficQuery

/// What history says of one minute, for the list of `top`.
public struct PastMinute: Sendable {
    /// A minute in nanoseconds.
    static let length: Int64 = 60_000_000_000

    /// The minute that was asked for.
    public let start: Timestamp
    /// The same, for people.
    let time: String
    let host: String
    /// The first minute that history has, and the same for people. `nil` if it has none.
    public let first: (start: Timestamp, time: String)?
    let countedSeconds: UInt64
    let totals: PayloadBytes
    let groups: [(group: ProcessGroup, bytes: ByteCounts)]
    private let users: [UInt32: String]

    /// - Parameters:
    ///   - report: By process, user, unit and container, with minutes as buckets.
    ///   - start: The beginning of the minute that was asked for.
    ///   - time: Writes the beginning of a minute.
    public init(_ report: HistoryReport, start: Timestamp, time: (Timestamp) -> String) {
        self.start = start
        self.time = time(start)
        self.host = report.host
        self.first = report.keptSince.map { ($0, time($0)) }
        self.countedSeconds = report.countedSeconds
        self.totals = report.totals.payload
        self.groups = report.rows.map { row in
            let group = ProcessGroup(
                name: row.name.process ?? "",
                systemdUnit: row.name.systemdUnit,
                containerID: row.name.containerID,
                uid: row.name.uid
            )
            return (group, row.bytes)
        }
        self.users = report.rows.reduce(into: [:]) { if let uid = $1.name.uid { $0[uid] = $1.user } }
    }

    func userName(_ uid: UInt32) -> String? { self.users[uid] }

    /// The average of the minute; of a longer time if the bytes are of a longer time, after a sleep for example.
    func rates(_ bytes: PayloadBytes) -> PayloadRates {
        let seconds = Double(max(60, self.countedSeconds))
        return PayloadRates(sent: Double(bytes.sent) / seconds, received: Double(bytes.received) / seconds)
    }
}

extension ListBuilder {
    /// - Parameter filter: Of which rows pass.
    func rows(of minute: PastMinute, passing filter: HistoryFilter) -> [ListRow] {
        var rows: [UsageRow] = []
        var indexes: [String: Int] = [:]
        for (group, bytes) in minute.groups
        where filter.admits(group, userName: minute.userName) && filter.admits(bytes.payload) {
            let user = group.uid.map { minute.userName($0) ?? String($0) }
            let (key, name) = self.name(of: group, user: user)
            let index = indexes[key] ?? rows.count
            if index == rows.count {
                var row = UsageRow(group: key, name: name)
                row.isRunning = true
                (row.user, row.unit) = self.grouping == .process ? (user, group.unitName) : (nil, nil)
                rows.append(row)
                indexes[key] = index
            }
            rows[index].bytes += bytes
        }
        for index in rows.indices { rows[index].rates = minute.rates(rows[index].bytes.payload) }
        return self.ordered(rows).map { ListRow(id: $0.id, content: .usage($0)) }
    }

    private func name(of group: ProcessGroup, user: String?) -> (key: String, name: String) {
        switch self.grouping {
        case .unit:
            let name = group.unitName ?? "(no unit)"
            return (name, name)
        case .user:
            let name = user ?? "(several users)"
            return (name, name)
        case .process, .executable, .remote:
            let parts = [group.name, user ?? "", group.systemdUnit ?? "", group.containerID ?? ""]
            return (parts.joined(separator: "\0"), group.name)
        }
    }
}

extension Grouping {
    /// Whether history knows by what these rows are made.
    public var isInHistory: Bool { [.process, .unit, .user].contains(self) }
}

extension SortKey {
    /// Whether history has such a column.
    public var isInHistory: Bool { ![.pid, .sockets, .explained].contains(self) }
}
