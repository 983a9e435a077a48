package import SQLiteDatabase
package import TrafficDocuments
import TrafficLimits
import TrafficModel

/// The database of history. One thread uses it.
///
/// Each level has tables with a row for each time and series: one for sums of bytes, one for endpoints, one for
/// interfaces. For each series, a minute adds to one row of each level that has this series, so there is no later work that
/// could be forgotten or done twice. Times are minutes since 1970.
///
/// Each sum keeps its beginning, its end, and how far the host's clock was from UTC: a host that gets another time zone
/// begins other days and months, and those of before stay what they were.
package final class HistoryStore {
    let file: SQLiteFile
    var retention: HistoryRetention
    /// Seconds that a question may take. A test must not fail because the machine is slow, so tests take more.
    var patience = 2
    private var identifiers: [HistorySeries: Int64] = [:]
    /// Of series with sums in the month that began at `month`.
    private var places: [HistorySeries.Kind: GroupPlaces] = [:]
    private var month: Int64 = .min
    private var tidied: Int64 = .min
    /// Of known contacts; `nil`: not counted yet.
    var contactPlaces: GroupPlaces?
    /// What is old is removed at most so many times as fast as time passes: a clock that is wrong for an hour must not
    /// remove the sums of years. The time by which it is old is in the file, so a restart does not believe the clock.
    private static let fastestForgetting: Int64 = 24

    /// - Parameter machine: Names the machine; `nil` if nothing does.
    /// - Throws: ``SQLiteError``; ``HistoryFileError`` for a file that this daemon must not write to.
    package init(path: String, retention: HistoryRetention, machine: String?) throws {
        self.file = try SQLiteFile(path: path)
        self.retention = retention
        let application = try self.file.number("PRAGMA application_id")
        let version = try self.file.number("PRAGMA user_version")
        let isNew = try self.file.number("SELECT count(*) FROM sqlite_schema") == 0
        guard isNew || application == Self.application else { throw HistoryFileError.foreign }
        guard version <= Self.version else { throw HistoryFileError.later(version) }
        // A crash of the daemon loses nothing that was written; a power cut may lose the last minutes, and no more.
        try self.file.run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA secure_delete = OFF")
        if isNew { try self.create(machine) }
        var owner: String?
        try self.file.run("SELECT id FROM machine", []) { row in owner = row.text(0) }
        if let owner, let machine, owner != machine { throw HistoryFileError.ofOtherMachine }
        // So that damage shows now, when it can be set aside.
        for level in HistoryLevel.allCases {
            for table in level.tables { _ = try self.file.number("SELECT max(time) FROM \(table)") }
        }
        _ = try self.file.number("SELECT max(day) FROM contact")
        _ = try self.mark()
    }

    // MARK: Writing

    /// Up to where the file has the last count; `nil`: there is none yet.
    ///
    /// - Throws: ``SQLiteError``.
    func mark() throws(SQLiteError) -> HistoryMark? {
        var mark: HistoryMark?
        try self.file.run("SELECT counting_since, boottime FROM mark", []) { row in
            guard let since = row.number(0), let boottime = row.number(1) else { return }
            mark = HistoryMark(
                countingSince: Timestamp(nanosecondsSinceEpoch: since),
                boottimeNanoseconds: UInt64(clamping: boottime)
            )
        }
        return mark
    }

    private func set(_ mark: HistoryMark) throws(SQLiteError) {
        try self.file.run("DELETE FROM mark")
        try self.file.run(
            "INSERT INTO mark VALUES (?, ?)",
            [.number(mark.countingSince.nanosecondsSinceEpoch), .number(Int64(clamping: mark.boottimeNanoseconds))]
        )
    }

    /// Adds minutes. If this throws, nothing of them was added.
    ///
    /// - Throws: ``SQLiteError``.
    package func add(_ minutes: HistoryMinute...) throws(SQLiteError) { try self.add(minutes) }

    func add(_ minutes: [HistoryMinute]) throws(SQLiteError) {
        do throws(SQLiteError) {
            try self.file.transaction { () throws(SQLiteError) in
                for minute in minutes { try self.addInTransaction(minute) }
                if let mark = minutes.last?.mark { try self.set(mark) }
            }
        } catch {
            // They may name rows that were not written.
            (self.identifiers, self.month) = ([:], .min)
            throw error
        }
    }

    private func addInTransaction(_ minute: HistoryMinute) throws(SQLiteError) {
        try self.begin(month: HistoryLevel.month.start(of: minute.time))
        var sums: [HistorySeries.Key: HistoryAmounts] = [:]
        for (series, amounts) in minute.sums {
            let key = HistorySeries.Key(id: try self.admitted(series), kind: series.kind)
            sums[key, default: amounts.zero] += amounts
        }
        // In the order of the table: SQLite fills its pages then.
        let ordered = sums.sorted { $0.key.id < $1.key.id }
        for level in HistoryLevel.allCases {
            let start = level.start(of: minute.time)
            let (time, end) = (start / 60, level.end(of: start))
            try self.file.run(
                """
                INSERT INTO counted VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT DO UPDATE SET seconds = seconds + excluded.seconds
                """,
                [.text(level.rawValue), .number(time), .number(Int64(clamping: minute.countedSeconds))]
                    + [.number(HostTime.offset(at: start)), .number(end / 60), .number(HostTime.offset(at: end))]
            )
            // Once for all series: to make the text takes longer than to run it.
            let additions = HistorySeries.Kind.allCases.reduce(into: [:]) { $0[$1] = $1.addition(level) }
            for (series, amounts) in ordered {
                guard let addition = additions[series.kind] else { continue }
                try self.file.run(addition, [.number(time), .number(series.id)] + amounts.values)
            }
        }
        try self.forget(after: minute)
    }

    /// Counts the series that have sums in this month already.
    private func begin(month: Int64) throws(SQLiteError) {
        guard month != self.month else { return }
        (self.identifiers, self.places) = ([:], [:])
        var known: [(HistorySeries, Int64)] = []
        for table in HistoryLevel.month.tables {
            try self.file.run(
                "SELECT id, \(HistorySeries.columns) FROM series WHERE id IN (SELECT series FROM \(table) WHERE time = ?)",
                [.number(month / 60)]
            ) { row in
                if let series = HistorySeries(row, from: 1), let id = row.number(0) { known.append((series, id)) }
            }
        }
        for (series, id) in known { self.admit(series, id) }
        self.month = month
    }

    private func admit(_ series: HistorySeries, _ id: Int64) {
        self.identifiers[series] = id
        guard let limit = series.kind.limits?.month, series.other != series else { return }
        self.places[series.kind, default: GroupPlaces(limit)].take(for: series.uid)
    }

    /// - Returns: The id of the series, or of `_other` where the user has too many in this month.
    private func admitted(_ series: HistorySeries) throws(SQLiteError) -> Int64 {
        if let id = self.identifiers[series] { return id }
        if let other = series.other, other != series, self.places[series.kind]?.hasRoom(for: series.uid) == false {
            return try self.admitted(other)
        }
        let known = try self.identifier(of: series)
        let id = if let known { known } else { try self.insert(series) }
        self.admit(series, id)
        return id
    }

    /// - Returns: `nil` if the file does not have the series.
    func identifier(of series: HistorySeries) throws(SQLiteError) -> Int64? {
        let id = try self.file.number(
            """
            SELECT id FROM series WHERE kind = ? AND name = ? AND executable IS ? AND uid IS ? AND unit IS ?
            AND container IS ? AND role IS ? AND host IS ? AND route IS ?
            """,
            series.values
        )
        return id == 0 ? nil : id
    }

    func insert(_ series: HistorySeries) throws(SQLiteError) -> Int64 {
        try self.file.run(
            "INSERT INTO series (\(HistorySeries.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            series.values
        )
        return self.file.lastRowID
    }

    /// Removes what is too old.
    private func forget(after minute: HistoryMinute) throws(SQLiteError) {
        let before = try self.file.number("SELECT ifnull(forgotten, ?) FROM machine", [.number(minute.time)])
        let time = min(minute.time, before +| Self.fastestForgetting *| Int64(clamping: minute.countedSeconds))
        try self.file.run("UPDATE machine SET forgotten = ?", [.number(time)])
        for level in HistoryLevel.allCases {
            guard let limit = self.retention.limit(of: level, at: time) else { continue }
            let before = level.start(of: limit) / 60
            for table in level.tables { try self.file.run("DELETE FROM \(table) WHERE time < ?", [.number(before)]) }
            try self.file.run(
                "DELETE FROM counted WHERE level = ? AND time < ?",
                [.text(level.rawValue), .number(before)]
            )
            try self.file.run(
                "INSERT INTO removed VALUES (?, ?) ON CONFLICT DO UPDATE SET before = max(before, excluded.before)",
                [.text(level.rawValue), .number(before)]
            )
        }
        let day = HistoryLevel.day.start(of: time)
        guard day != self.tidied else { return }
        self.tidied = day
        try self.forgetContacts(at: time)
        let used = (HistoryLevel.allCases.flatMap(\.tables) + ["contact"]).map { "SELECT series FROM \($0)" }
            .joined(separator: " UNION ")
        try self.file.run("DELETE FROM series WHERE id NOT IN (\(used))")
        (self.identifiers, self.month) = ([:], .min)
        try self.begin(month: HistoryLevel.month.start(of: time))
    }
}

/// A file that this program must not write to.
enum HistoryFileError: Error, CustomStringConvertible {
    case foreign
    case later(Int64)
    /// The directory was copied, or is an image's.
    case ofOtherMachine

    /// A new file may be begun beside this one.
    var isMendable: Bool {
        switch self {
        case .foreign, .later: false
        case .ofOtherMachine: true
        }
    }

    var description: String {
        switch self {
        case .foreign: "it is a database of another program, or of an early build of trafficd"
        case .later(let version): "it is of a later trafficd (version \(version) of the file)"
        case .ofOtherMachine: "it is of another machine"
        }
    }
}

extension HistorySeries {
    /// A row of the table `series`.
    fileprivate struct Key: Hashable {
        var id: Int64
        var kind: Kind
    }
}

extension Timestamp {
    init(seconds: Int64) { self.init(nanosecondsSinceEpoch: seconds *| 1_000_000_000) }

    var seconds: Int64 { self.nanosecondsSinceEpoch / 1_000_000_000 }
}
