import SQLiteDatabase
package import TrafficDocuments
import TrafficFeed
import TrafficModel
package import TrafficQuery

extension HistoryStore {
    /// - Parameters:
    ///   - now: Seconds since 1970.
    ///   - userName: The name of a user, for the filter; `nil` if it has none.
    /// - Throws: ``SQLiteError``; ``HistoryRefusal``.
    package func report(
        _ question: HistoryQuestion,
        host: String,
        now: Int64,
        userName: (UInt32) -> String? = { _ in nil }
    ) throws -> HistoryReport {
        let asked = question.since.seconds
        let level = try question.bucket ?? self.shortestLevel(since: asked, by: question.divisions)
        let until = question.until.map { $0.seconds } ?? now + 1
        // What is older was removed, and would look like a time without traffic.
        let since = max(try self.firstStart(of: level, at: asked), try self.removedBefore(level))
        var report = HistoryReport(
            host: host,
            since: Timestamp(seconds: since),
            // The last sum counts whole. If the question is about the future, the time is empty.
            until: Timestamp(seconds: max(since, min(level.end(of: level.start(of: until -| 1)), now))),
            level: level,
            by: question.by
        )
        let range: [SQLiteFile.Value] = [.number(since / 60), .number((until + 59) / 60)]
        report.countedSeconds = UInt64(
            clamping: try self.file.number(
                "SELECT sum(seconds) FROM counted WHERE level = ? AND time >= ? AND time < ?",
                [.text(level.rawValue)] + range
            )
        )
        report.keptSince = try self.first(level).map { Timestamp(seconds: $0) }
        try self.file.limited(seconds: self.patience) {
            try self.answer(question, level, range, passing: try self.passing(question, userName), &report)
        }
        try self.addLocalTimes(to: &report, range)
        return report
    }

    /// The beginning of the first sum that has a part of the minute, hour, day or month in which `time` lies. It may be
    /// earlier than that, if the host had another time zone then.
    private func firstStart(of level: HistoryLevel, at time: Int64) throws(SQLiteError) -> Int64 {
        let start = level.start(of: time)
        let first = try self.file.number(
            "SELECT min(time) FROM counted WHERE level = ? AND time > ? AND time < ?",
            [.text(level.rawValue), .number((start - level.leastSeconds) / 60), .number(start / 60)]
        )
        // 0: no sum began in another time zone.
        return first == 0 ? start : first * 60
    }

    private func addLocalTimes(to report: inout HistoryReport, _ range: [SQLiteFile.Value]) throws(SQLiteError) {
        var offsets: [Int64: Int64] = [:]
        try self.file.run(
            "SELECT time, offset FROM counted WHERE level = ? AND time >= ? AND time < ?",
            [.text(report.level.rawValue)] + range
        ) { row in
            if let time = row.number(0) { offsets[time * 60] = row.number(1) }
        }
        func local(_ time: Timestamp) -> HostTime {
            HostTime(time, offset: offsets[time.seconds] ?? HostTime.offset(at: time.seconds))
        }
        for index in report.rows.indices { report.rows[index].localTime = report.rows[index].time.map(local) }
        (report.localSince, report.localUntil) = (local(report.since), HostTime(of: report.until.seconds))
        report.timeZone = HostTime.zoneName
    }

    /// The names of the whole time come first, and then the times of those that get rows, as many as an answer has room
    /// for: a user who makes up names must not make the answer too long. Amounts are those of rows, so a filter on them
    /// needs all rows at once.
    private func answer(
        _ question: HistoryQuestion,
        _ level: HistoryLevel,
        _ range: [SQLiteFile.Value],
        passing: String?,
        _ report: inout HistoryReport
    ) throws {
        let choosesFirst = question.bucket != nil && !question.filter.hasAmounts
        var first = question
        if choosesFirst { first.bucket = nil }
        var rows = try self.rows(first, level, range, passing: passing)
        rows.removeAll { !question.filter.admits($0.amounts.sum) }
        // Of a filter, the sums are those of what passes, as for the other lists.
        let isWhole = question.uid == nil && question.by != [.total] && question.filter.isEmpty
        if isWhole, question.kind != .endpoint, question.kind != .interface {
            let totals = HistoryQuestion(since: question.since, by: [.total])
            report.sums = Self.sum(of: try self.rows(totals, level, range, passing: nil), .total)
        } else {
            report.sums = Self.sum(of: rows, question.kind)
        }
        guard choosesFirst else {
            _ = report.keepTop(question.top, of: rows)
            return
        }
        // Each name may have a row in each bucket.
        let buckets = try self.file.number(
            "SELECT count(*) FROM counted WHERE level = ? AND time >= ? AND time < ?",
            [.text(level.rawValue)] + range
        )
        let most = max(1, Self.mostRows / max(1, Int(clamping: buckets)))
        let isCut = report.keepTop(min(question.top, most), of: rows)
        let kept = isCut ? try self.series(question, of: Set(report.rows.map(\.name)), passing: passing) : passing
        report.rows = try self.rows(question, level, range, passing: kept)
    }

    private static func sum(of rows: [HistoryRow], _ kind: HistorySeries.Kind) -> HistoryAmounts {
        rows.reduce(into: kind.zero) { $0 += $1.amounts }
    }

    /// The shortest sums of which none were removed since then; the longest if some of each were.
    private func shortestLevel(since: Int64, by words: [HistoryDimension]) throws(SQLiteError) -> HistoryLevel {
        for level in HistoryLevel.allCases where words.allSatisfy(level.divides) {
            if try self.removedBefore(level) <= level.start(of: since) { return level }
        }
        return .month
    }

    /// - Returns: When the first sum began: seconds since 1970. `nil` if there is none.
    func first(_ level: HistoryLevel) throws(SQLiteError) -> Int64? {
        var first: Int64?
        try self.file.run("SELECT min(time) FROM counted WHERE level = ?", [.text(level.rawValue)]) { row in
            first = row.number(0).map { $0 * 60 }
        }
        return first
    }

    /// - Returns: Seconds since 1970. Sums that began earlier were removed.
    func removedBefore(_ level: HistoryLevel) throws(SQLiteError) -> Int64 {
        try self.file.number("SELECT before FROM removed WHERE level = ?", [.text(level.rawValue)]) * 60
    }

    /// The groups or endpoints that pass the filter, judged by one language for all lists, which SQL does not know.
    ///
    /// - Returns: Their ids as a list in JSON; `nil` if no term is about processes.
    private func passing(
        _ question: HistoryQuestion,
        _ userName: (UInt32) -> String?
    ) throws(SQLiteError) -> String? {
        guard question.filter.hasNames else { return nil }
        var ids: [String] = []
        try self.file.run(
            """
            SELECT id, \(HistorySeries.columns) FROM series
            WHERE kind = ? \(question.uid == nil ? "" : "AND uid = ?")
            """,
            [.number(question.kind.rawValue)] + (question.uid.map { [.number(Int64($0))] } ?? [])
        ) { row in
            guard let id = row.number(0), let series = HistorySeries(row, from: 1) else { return }
            let passes =
                switch series {
                case .group(let group): question.filter.admits(group, userName: userName)
                case .endpoint(let endpoint):
                    question.filter.admits(endpoint.process, (endpoint.host, endpoint.route), userName: userName)
                case .total, .scope, .class, .interface: false
                }
            if passes { ids.append("\(id)") }
        }
        return "[\(ids.joined(separator: ","))]"
    }

    /// - Parameter passing: As in ``rows(_:_:_:passing:)``.
    /// - Returns: The ids of the series with these names, as a list in JSON.
    private func series(
        _ question: HistoryQuestion,
        of names: Set<HistoryName>,
        passing: String?
    ) throws(SQLiteError) -> String {
        var ids: [String] = []
        let columns = Self.columns(question)
        try self.file.run(
            """
            SELECT \(columns.joined(separator: ", ")), id FROM series WHERE kind = ?
            \(passing == nil ? "" : "AND id IN (SELECT value FROM json_each(?))")
            """,
            [.number(question.kind.rawValue)] + (passing.map { [.text($0)] } ?? [])
        ) { row in
            guard names.contains(Self.name(question, row)), let id = row.number(Int32(columns.count)) else { return }
            ids.append("\(id)")
        }
        return "[\(ids.joined(separator: ","))]"
    }

    /// Of the table `series`: what makes a name.
    private static func columns(_ question: HistoryQuestion) -> [String] {
        // A message that a client and a server of this machine both report is in two sums.
        question.by.map(\.column) + (question.kind == .endpoint ? ["role"] : [])
    }

    /// - Parameter row: Begins with ``columns(_:)``.
    private static func name(_ question: HistoryQuestion, _ row: SQLiteFile.Row) -> HistoryName {
        var name = HistoryName()
        for (index, dimension) in question.by.enumerated() { name.set(dimension, row, Int32(index)) }
        if question.kind == .endpoint { name.role = row.text(Int32(question.by.count)) }
        return name
    }

    /// In the order of time, then the most payload first.
    ///
    /// - Parameter passing: The ids of the series, as a list in JSON; `nil` for all.
    private func rows(
        _ question: HistoryQuestion,
        _ level: HistoryLevel,
        _ range: [SQLiteFile.Value],
        passing: String?
    ) throws -> [HistoryRow] {
        let kind = question.kind
        guard let table = kind.table(level) else { return [] }
        var columns = Self.columns(question)
        let hasTime = question.bucket != nil
        if hasTime { columns.append("time") }
        let groups = columns.filter { $0 != "''" }.joined(separator: ", ")
        let totals = kind.columns.map(\.total).joined(separator: ", ")
        let times = "time >= ? AND time < ?" + (passing == nil ? "" : " AND series IN (SELECT value FROM json_each(?))")
        // To sort rows by texts takes several times as long as by numbers. So the rows of each series become one first.
        let sums = kind.columns.map { "\($0.total) AS \($0.name)" }.joined(separator: ", ")
        let source =
            hasTime
            ? "\(table) JOIN series ON series = id WHERE \(times)"
            : "(SELECT series, \(sums) FROM \(table) WHERE \(times) GROUP BY series) JOIN series ON series = id WHERE true"
        let sql = """
            SELECT \(columns.joined(separator: ", ")), \(totals)
            FROM \(source) AND kind = ? \(question.uid == nil ? "" : "AND uid = ?")
            \(groups.isEmpty ? "" : "GROUP BY \(groups)")
            ORDER BY \(hasTime ? "time, " : "") \(kind.order) DESC, \(columns.joined(separator: ", "))
            LIMIT \(Self.mostRows + 1)
            """
        var rows: [HistoryRow] = []
        let uid = question.uid.map { [SQLiteFile.Value.number(Int64($0))] } ?? []
        let series = passing.map { [SQLiteFile.Value.text($0)] } ?? []
        try self.file.run(sql, range + series + [.number(kind.rawValue)] + uid) { row in
            // A sum over nothing is one row without numbers.
            guard let amounts = kind.amounts(row, from: Int32(columns.count)) else { return }
            let time = hasTime ? row.number(Int32(columns.count) - 1).map { Timestamp(seconds: $0 * 60) } : nil
            rows.append(HistoryRow(time: time, name: Self.name(question, row), amounts: amounts))
        }
        guard rows.count <= Self.mostRows else {
            throw HistoryRefusal.tooLong(
                "More than \(Self.mostRows) rows: take a longer bucket, a shorter time, or fewer words to divide by."
            )
        }
        return rows
    }

    /// For the benchmark: bytes of the file.
    package func size() throws -> Int64 {
        try self.file.number("PRAGMA page_count") * self.file.number("PRAGMA page_size")
    }

    /// For the benchmark.
    package func rowCount(_ level: HistoryLevel) throws -> Int64 {
        try level.tables.reduce(0) { $0 + (try self.file.number("SELECT count(*) FROM \($1)")) }
    }

    /// Of one answer. About 200 bytes each.
    static let mostRows = 100_000
}

extension HistoryReport {
    /// - Parameter names: The names of users, as far as they are known.
    package mutating func name(_ names: ([UInt32]) -> [UInt32: String]) {
        let users = names(Set(self.rows.compactMap(\.name.uid)).sorted())
        for index in self.rows.indices { self.rows[index].user = self.rows[index].name.uid.flatMap { users[$0] } }
    }
}

extension SQLiteFile.Row {
    /// Six columns: sent, received, those of packets, what of these is estimated, retransmitted.
    ///
    /// - Returns: `nil` if there are no bytes.
    func bytes(from column: Int32) -> ByteCounts? {
        func bytes(_ index: Int32) -> UInt64? { self.number(column + index).map { UInt64(clamping: $0) } }
        guard let sent = bytes(0), let received = bytes(1) else { return nil }
        return ByteCounts(
            payload: PayloadBytes(sent: sent, received: received),
            wireSent: bytes(2),
            wireReceived: bytes(3),
            wireEstimated: bytes(4) ?? 0,
            retransmitted: bytes(5)
        )
    }
}

extension HistoryReport {
    /// Takes the rows of the names with the most payload over the whole time.
    ///
    /// - Returns: Whether there are further names.
    fileprivate mutating func keepTop(_ top: Int, of rows: [HistoryRow]) -> Bool {
        var payload: [HistoryName: UInt64] = [:]
        for row in rows { payload[row.name, default: 0] +|= row.amounts.sum.total }
        guard payload.count > top else {
            self.rows = rows
            return false
        }
        let order = payload.sorted { left, right in
            left.value == right.value ? left.key.text < right.key.text : left.value > right.value
        }
        let kept = Set(order.prefix(top).map(\.key))
        self.rows = rows.filter { kept.contains($0.name) }
        let others = rows.lazy.filter { !kept.contains($0.name) }.reduce(into: self.sums.zero) { $0 += $1.amounts }
        self.others = HistoryRow(name: HistoryName(), amounts: others)
        self.othersCount = payload.count - kept.count
        return true
    }
}

extension HistoryName {
    /// Decides between names with as many bytes.
    fileprivate var text: String {
        let ofProcess = [self.process, self.uid.map { String($0) }, self.systemdUnit, self.containerID]
        let others = [self.scope, self.addressClass, self.role, self.host, self.route, self.interface]
        return (ofProcess + others).map { $0 ?? "" }.joined(separator: "\0")
    }

    fileprivate mutating func set(_ dimension: HistoryDimension, _ row: SQLiteFile.Row, _ column: Int32) {
        switch dimension {
        case .process: self.process = row.text(column)
        case .user: self.uid = row.number(column).flatMap { UInt32(exactly: $0) }
        case .unit: self.systemdUnit = row.text(column)
        case .container: self.containerID = row.text(column)
        case .scope: self.scope = row.text(column)
        case .class: self.addressClass = row.text(column)
        case .host: self.host = row.text(column)
        case .route: self.route = row.text(column)
        case .interface: self.interface = row.text(column)
        case .total: break
        }
    }
}

extension HistoryDimension {
    fileprivate var column: String {
        switch self {
        case .process, .scope, .class, .interface: "name"
        case .host: "host"
        case .route: "route"
        case .user: "uid"
        case .unit: "unit"
        case .container: "container"
        case .total: "''"
        }
    }

    fileprivate var kind: HistorySeries.Kind {
        switch self {
        case .process, .user, .unit, .container: .group
        case .host, .route: .endpoint
        case .scope: .scope
        case .class: .class
        case .interface: .interface
        case .total: .total
        }
    }
}

extension HistoryQuestion {
    fileprivate var kind: HistorySeries.Kind { self.isOfEndpoints ? .endpoint : self.divisions[0].kind }
}

extension HistorySeries.Kind {
    /// By what rows are sorted: the bytes of both directions.
    fileprivate var order: String {
        self == .endpoint
            ? self.columns.filter { !["requests", "ended", "failures"].contains($0.name) }.map { "total(\($0.name))" }
                .joined(separator: " + ")
            : "sum(sent) + sum(received)"
    }
}
