import TrafficModel

/// Turns a snapshot into the rows of the list: groups, orders and expands. The builder does not know the screen's size
/// and formats no text, so a process with 10,000 sockets costs one sort.
struct ListBuilder {
    /// How many sockets or endpoints stand below a row. One more line says how many are hidden.
    static let socketsShown = 50

    var order = RowOrder(.rate)
    var grouping = Grouping.process
    var expanded: Set<RowID> = []
    /// Rows whose sockets are all shown.
    var unlimited: Set<RowID> = []
    /// Whether open processes show their endpoints and not their sockets.
    var showsEndpoints = false
    /// The row that stands first in any order.
    var pinned: RowID?

    func rows(of snapshot: Snapshot) -> [ListRow] {
        let processes = snapshot.processes ?? []
        let sockets = SocketIndex(
            self.socketDemand == .none ? nil : snapshot.sockets,
            byRemote: self.grouping == .remote
        )
        let top = self.ordered(self.topLevel(of: snapshot, processes: processes, sockets: sockets))
        var rows: [ListRow] = []
        rows.reserveCapacity(top.count)
        for row in top {
            rows.append(ListRow(id: row.id, content: .usage(row)))
            guard self.expanded.contains(row.id) else { continue }
            switch row.id {
            case .process:
                self.appendInside(of: row, depth: 1, in: sockets, snapshot, to: &rows)
            case .group where self.grouping == .remote:
                self.appendSockets(of: row.id, owner: nil, depth: 1, in: sockets, snapshot, to: &rows)
            case .group:
                let members = row.members.map { UsageRow(processes[$0], at: $0) }.sorted(by: self.order.precedes)
                for (position, member) in members.enumerated() {
                    let isLast = position == members.count - 1
                    rows.append(ListRow(id: member.id, depth: 1, isLast: isLast, content: .usage(member)))
                    guard self.expanded.contains(member.id) else { continue }
                    self.appendInside(of: member, depth: 2, in: sockets, snapshot, to: &rows)
                }
            default:
                break
            }
        }
        return rows
    }

    func ordered(_ rows: [UsageRow]) -> [UsageRow] {
        var rows = rows.sorted(by: self.order.precedes)
        if let pinned, let index = rows.firstIndex(where: { $0.id == pinned }) {
            rows.insert(rows.remove(at: index), at: 0)
        }
        return rows
    }

    /// The sockets that these rows need.
    var socketDemand: SocketDemand {
        if self.grouping == .remote { return .all }
        let pids = self.expanded.compactMap { if case .process(let process) = $0 { process.pid } else { nil } }
        return pids.isEmpty ? .none : .of(Set(pids))
    }

    private func topLevel(of snapshot: Snapshot, processes: [ProcessUsage], sockets: SocketIndex) -> [UsageRow] {
        switch self.grouping {
        case .process:
            return processes.enumerated().map { UsageRow($1, at: $0) } + self.exitedRow(of: snapshot)
        case .unit:
            let key = { (group: ProcessGroup) in
                let name = group.unitName ?? "(no unit)"
                return (name, name)
            }
            return self.groups(of: processes) { key(ProcessGroup($0)) }.adding(snapshot.exited) { key($0.group) }
        case .user:
            let groups = self.groups(of: processes) { ($0.userName, $0.userName) }
            return groups.adding(snapshot.exited) { ($0.userName, $0.userName) }
        case .executable:
            let groups = self.groups(of: processes) { ($0.executable ?? $0.name, $0.executableName ?? $0.name) }
            return groups.adding(snapshot.exited) { ($0.group.executable ?? $0.group.name, $0.group.name) }
        case .remote:
            return sockets.remotes(of: snapshot.sockets ?? [])
        }
    }

    private func groups(
        of processes: [ProcessUsage],
        by key: (ProcessDetails) -> (key: String, name: String)
    ) -> [UsageRow] {
        var groups: [UsageRow] = []
        var indexes: [String: Int] = [:]
        for (index, process) in processes.enumerated() {
            let (key, name) = key(process.details)
            if indexes[key] == nil {
                indexes[key] = groups.count
                groups.append(UsageRow(group: key, name: name))
            }
            guard let group = indexes[key] else { continue }
            groups[group].add(process, at: index)
        }
        return groups
    }

    /// One row for all exited processes, so that the rows add up to the totals.
    private func exitedRow(of snapshot: Snapshot) -> [UsageRow] {
        guard let exited = snapshot.exited, !exited.isEmpty else { return [] }
        let processes = exited.reduce(0) { $0 + $1.processes }
        var row = UsageRow(id: .exited, name: "\(processes) gone", processes: processes, isRunning: false)
        for usage in exited { row.bytes += usage.bytes }
        return [row]
    }

    /// Appends what stands below an open process: its endpoints or its sockets.
    private func appendInside(
        of process: UsageRow,
        depth: Int,
        in index: SocketIndex,
        _ snapshot: Snapshot,
        to rows: inout [ListRow]
    ) {
        guard case .process(let identity) = process.id else { return }
        if self.showsEndpoints {
            self.appendEndpoints(of: process, depth: depth, snapshot, to: &rows)
        } else {
            self.appendSockets(of: process.id, owner: identity, depth: depth, in: index, snapshot, to: &rows)
        }
    }

    /// Appends rows for the first of `indexes`, or for all, and a row that says how many are hidden.
    func append(
        _ indexes: [Int],
        _ kind: ListRow.RestKind,
        of parent: RowID,
        depth: Int,
        to rows: inout [ListRow],
        _ row: (Int) -> (RowID, ListRow.Content)
    ) {
        if indexes.isEmpty {
            rows.append(ListRow(id: .note(of: parent), depth: depth, isLast: true, content: .none(kind)))
        }
        let shown = self.unlimited.contains(parent) ? indexes.count : min(indexes.count, Self.socketsShown)
        for (position, index) in indexes.prefix(shown).enumerated() {
            let (id, content) = row(index)
            rows.append(ListRow(id: id, depth: depth, isLast: position == indexes.count - 1, content: content))
        }
        if shown < indexes.count {
            let hidden = ListRow.Content.rest(hidden: indexes.count - shown, kind: kind)
            rows.append(ListRow(id: .rest(of: parent), depth: depth, isLast: true, content: hidden))
        }
    }

    private func appendSockets(
        of parent: RowID,
        owner: ProcessIdentity?,
        depth: Int,
        in index: SocketIndex,
        _ snapshot: Snapshot,
        to rows: inout [ListRow]
    ) {
        let demand = owner.map { SocketDemand.of([$0.pid]) } ?? .all
        guard let sockets = snapshot.sockets, snapshot.covers(demand) else {
            rows.append(ListRow(id: .note(of: parent), depth: depth, isLast: true, content: .pending(.sockets)))
            return
        }
        let ordered = index.sockets(below: parent).sorted { self.order.precedes(sockets[$0], sockets[$1]) }
        self.append(ordered, .sockets, of: parent, depth: depth, to: &rows) { socket in
            (.socket(serial: sockets[socket].serial, of: owner), .socket(socket, of: owner))
        }
    }
}

/// Finds the sockets below a row.
private struct SocketIndex {
    private var indexes: [RowID: [Int]] = [:]

    init(_ sockets: [SocketUsage]?, byRemote: Bool) {
        for (index, socket) in (sockets ?? []).enumerated() {
            if byRemote {
                self.indexes[.group(Self.remoteName(socket)), default: []].append(index)
            } else {
                for owner in socket.owners { self.indexes[.process(owner.identity), default: []].append(index) }
            }
        }
    }

    func sockets(below row: RowID) -> [Int] { self.indexes[row] ?? [] }

    /// One row per remote address.
    func remotes(of sockets: [SocketUsage]) -> [UsageRow] {
        self.indexes.compactMap { id, indexes in
            guard case .group(let name) = id else { return nil }
            var row = UsageRow(group: name, name: name)
            var owners: Set<ProcessIdentity> = []
            for socket in indexes.lazy.map({ sockets[$0] }) {
                owners.formUnion(socket.owners.lazy.map(\.identity))
                row.sockets += socket.closedAt == nil ? 1 : 0
                row.bytes += socket.bytes
                row.rates.sent += socket.rates.sent
                row.rates.received += socket.rates.received
            }
            row.processes = owners.count
            row.isRunning = row.sockets > 0
            return row
        }
    }

    private static func remoteName(_ socket: SocketUsage) -> String {
        socket.remote.address.isUnspecified ? "(no remote)" : socket.remote.address.description
    }
}

extension [UsageRow] {
    /// With what processes moved that are no longer listed, each in the row of its group.
    fileprivate func adding(
        _ exited: [ExitedUsage]?,
        by key: (ExitedUsage) -> (key: String, name: String)
    ) -> [UsageRow] {
        var rows = self
        var indexes = Dictionary(uniqueKeysWithValues: rows.indices.map { (rows[$0].id, $0) })
        for usage in exited ?? [] {
            let (key, name) = key(usage)
            let index = indexes[.group(key)] ?? rows.count
            if index == rows.count {
                rows.append(UsageRow(group: key, name: name))
                indexes[.group(key)] = index
            }
            rows[index].processes += usage.processes
            rows[index].bytes += usage.bytes
        }
        return rows
    }
}
