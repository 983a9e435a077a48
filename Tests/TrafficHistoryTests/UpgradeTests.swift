import Foundation
import SQLiteDatabase
import TestSupport
import Testing
import TrafficFeed
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

@Suite("A file of an earlier trafficd")
struct UpgradeTests {
    private static var now: Int64 { HistoryStoreTests.now }

    /// Makes a file what version 1 wrote: it had no sums of 5 minutes, no mark, no endpoints and no interfaces.
    private static func downgrade(_ folder: Folder) async throws {
        let script = """
            import sqlite3, sys
            file = sqlite3.connect(sys.argv[1])
            for table, in file.execute("SELECT name FROM sqlite_schema WHERE name LIKE '%e_%s'").fetchall():
                if table.startswith(("endpoint_", "interface_")): file.execute("DROP TABLE " + table)
            file.executescript("DROP TABLE contact; DROP TABLE contact_group")
            file.executescript("BEGIN; DROP INDEX series_of_name; ALTER TABLE series DROP COLUMN role;"
                "ALTER TABLE series DROP COLUMN host; ALTER TABLE series DROP COLUMN route;"
                "CREATE INDEX series_of_name ON series (name); COMMIT")
            file.executescript("BEGIN; DROP TABLE five_minutes; DROP TABLE mark; DELETE FROM counted WHERE level = '5minute';"
                "DELETE FROM removed WHERE level = '5minute'; PRAGMA user_version = 1; COMMIT")
            """
        _ = try await Tool.run("python3", ["-c", script, folder.database])
    }

    private static func store(_ folder: Folder) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
    }

    /// A file of version 1 with a minute in each of `minutes`, counted from 2 minutes after a full 5.
    private static func file(minutes: Range<Int64>) async throws -> Folder {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        for minute in minutes {
            try store?.add(
                .made(at: Self.now + 120 + minute * 60, [HistoryStoreTests.web: .sent(UInt64(minute + 1), wire: 7)])
            )
        }
        store = nil
        try await Self.downgrade(folder)
        return folder
    }

    @Test("the first start with a file of version 1 adds the sums of 5 minutes that its minutes still know")
    func young() async throws {
        let folder = try await Self.file(minutes: 0..<10)
        var store: HistoryStore? = try Self.store(folder)
        try store?.add(.made(at: Self.now + 120 + 600, [HistoryStoreTests.web: .sent(100)]))
        store = nil
        let sql = """
            SELECT five_minutes.time * 60 - \(Self.now), sent, wire_sent, seconds FROM five_minutes
            JOIN series ON id = series JOIN counted ON counted.time = five_minutes.time AND level = '5minute'
            WHERE kind = 0 ORDER BY 1
            """
        #expect(try await sums(folder, sql) == "0 6 21 180\n300 30 35 300\n600 119 14 180\n")
        #expect(try await sums(folder, "SELECT count(*) FROM five_minutes JOIN series ON id = series") == "6\n")
        #expect(try await sums(folder, "PRAGMA user_version") == "4\n")
        #expect(try await sums(folder, "PRAGMA integrity_check") == "ok\n")
        let report = try Self.store(folder).report(
            HistoryQuestion(since: Timestamp(seconds: Self.now), bucket: .fiveMinutes, by: [.scope]),
            host: "h",
            now: Self.now + 900
        )
        #expect(report.rows.map(\.bytes.payload.sent) == [6, 30, 119])
    }

    @Test("sums of 5 minutes begin where no minute is removed, and the time before is no time without traffic")
    func old() async throws {
        // Two days and more: the first minutes are gone.
        let folder = try await Self.file(minutes: 0..<2_900)
        let first = try await sums(folder, "SELECT before FROM removed WHERE level = 'minute'")
        // The 5 minutes in which minutes are missing are left out.
        let begin = try #require(Int64(first.dropLast())).advanced(by: 4) / 5 * 300
        let store = try Self.store(folder)
        let now = Self.now + 120 + 2_900 * 60
        let question = HistoryQuestion(since: Timestamp(seconds: Self.now), bucket: .fiveMinutes, by: [.total])
        let report = try store.report(question, host: "h", now: now)
        #expect(report.since.seconds == begin && begin > Self.now)
        #expect(report.rows.first?.time?.seconds == begin)
        let minute = (begin - Self.now - 120) / 60
        #expect(report.rows.first?.bytes.payload.sent == UInt64((minute + 1...minute + 5).reduce(0, +)))
        #expect(report.countedSeconds == UInt64(now - begin))
        // Without a bucket, longer sums answer for that time.
        let whole = HistoryQuestion(since: Timestamp(seconds: Self.now), by: [.total])
        #expect(try store.report(whole, host: "h", now: now).level == .hour)
    }

    @Test("what ends in an upgrade leaves the file as it was")
    func transaction() async throws {
        let folder = try await Self.file(minutes: 0..<10)
        // The upgrade can't make its table.
        _ = try await sums(folder, "CREATE TABLE five_minutes (theirs)")
        #expect(throws: SQLiteError.self) { try Self.store(folder) }
        #expect(try await sums(folder, "PRAGMA user_version") == "1\n")
        #expect(try await sums(folder, "SELECT count(*) FROM counted WHERE level = '5minute'") == "0\n")
        _ = try await sums(folder, "DROP TABLE five_minutes")
        // Or fails at a later step.
        let full = "CREATE TRIGGER full BEFORE INSERT ON removed BEGIN SELECT RAISE(ABORT, 'full'); END"
        _ = try await sums(folder, full)
        #expect(throws: SQLiteError.self) { try Self.store(folder) }
        #expect(try await sums(folder, "PRAGMA user_version") == "1\n")
        #expect(try await sums(folder, "SELECT count(*) FROM sqlite_schema WHERE name = 'five_minutes'") == "0\n")
        _ = try await sums(folder, "DROP TRIGGER full")
        _ = try Self.store(folder)
        #expect(try await sums(folder, "PRAGMA user_version") == "4\n")
    }

    /// What trafficd wrote before it had endpoints and interfaces.
    private static let version2 = """
        PRAGMA application_id = 1953653094; PRAGMA user_version = 2; PRAGMA journal_mode = WAL;
        CREATE TABLE machine (id TEXT, forgotten INTEGER);
        CREATE TABLE removed (level TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE series (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL,
            executable TEXT, uid INTEGER, unit TEXT, container TEXT);
        CREATE INDEX series_of_name ON series (name);
        CREATE TABLE counted (level TEXT, time INTEGER, seconds INTEGER NOT NULL, PRIMARY KEY (level, time)) WITHOUT ROWID;
        CREATE TABLE mark (counting_since INTEGER NOT NULL, boottime INTEGER NOT NULL);
        INSERT INTO machine VALUES (NULL, NULL); INSERT INTO mark VALUES (5, 6);
        INSERT INTO series VALUES (1, 0, '', NULL, NULL, NULL, NULL), (2, 3, 'nginx', NULL, 33, 'nginx.service', NULL);
        """

    private static func version2(_ folder: Folder) async throws {
        var script = self.version2
        for (table, level) in [
            ("minutes", "minute"), ("five_minutes", "5minute"), ("hours", "hour"), ("days", "day"), ("months", "month"),
        ] {
            let name = level == "5minute" ? HistoryLevel.fiveMinutes : HistoryLevel(rawValue: level) ?? .minute
            let time = name.start(of: self.now) / 60
            script += """
                CREATE TABLE \(table) (time INTEGER, series INTEGER, sent INTEGER NOT NULL,
                    received INTEGER NOT NULL, wire_sent INTEGER, wire_received INTEGER, retransmitted INTEGER,
                    PRIMARY KEY (time, series)) WITHOUT ROWID;
                INSERT INTO \(table) VALUES (\(time), 1, 40, 2, 90, NULL, 0);
                INSERT INTO counted VALUES ('\(level)', \(time), 60);
                """
            if level != "5minute" { script += "INSERT INTO \(table) VALUES (\(time), 2, 40, 2, 90, NULL, 0);" }
        }
        let program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
        _ = try await Tool.run("python3", ["-c", program, folder.database, script])
    }

    @Test("a file of version 2 keeps its sums, ids and mark, and endpoints begin with the upgrade")
    func endpoints() async throws {
        let folder = try Folder()
        try await Self.version2(folder)
        var store: HistoryStore? = try Self.store(folder)
        #expect(try store?.mark()?.countingSince.nanosecondsSinceEpoch == 5)
        try store?.add(
            .requests(at: Self.now + 60, [.made("/a", uid: 33): 3], groups: [HistoryStoreTests.web: .sent(2)])
        )
        store = nil
        let group = "SELECT id, sent, wire_sent, role FROM months JOIN series ON id = series WHERE kind = 3"
        #expect(try await sums(folder, group) == "2 42 90 None\n")
        let endpoint = "SELECT requests, host, route FROM endpoint_months JOIN series ON id = series WHERE kind = 4"
        #expect(try await sums(folder, endpoint) == "3 api.example /a\n")
        #expect(try await sums(folder, "PRAGMA user_version") == "4\n")
        #expect(try await sums(folder, "PRAGMA integrity_check") == "ok\n")
        // Time without sums by endpoint is no time without requests.
        let opened = try Self.store(folder)
        var question = HistoryQuestion(since: Timestamp(seconds: Self.now - 600), bucket: .minute, by: [.host])
        let report = try opened.report(question, host: "h", now: Self.now + 120)
        #expect(report.since.seconds == Self.now + 60 && report.rows.count == 1)
        #expect(report.keptSince?.seconds == Self.now + 60 && report.countedSeconds == 60)
        question.by = [.process]
        #expect(try opened.report(question, host: "h", now: Self.now + 120).since.seconds == Self.now - 600)
        // The month of the upgrade has what came after it.
        question = HistoryQuestion(since: Timestamp(seconds: Self.now), bucket: .month, by: [.host])
        #expect(try opened.report(question, host: "h", now: Self.now + 120).rows.count == 1)
    }

    @Test("what ends in the upgrade of version 2 leaves the file as it was", arguments: ["table", "trigger"])
    func wholeOrNothing(_ obstacle: String) async throws {
        let folder = try Folder()
        try await Self.version2(folder)
        let (make, remove) =
            obstacle == "table"
            ? ("CREATE TABLE interface_months (theirs)", "DROP TABLE interface_months")
            : (
                "CREATE TRIGGER full BEFORE INSERT ON removed BEGIN SELECT RAISE(ABORT, 'full'); END",
                "DROP TRIGGER full"
            )
        _ = try await sums(folder, make)
        let before = try await sums(folder, "SELECT name, sql FROM sqlite_schema ORDER BY name")
        #expect(throws: SQLiteError.self) { try Self.store(folder) }
        #expect(try await sums(folder, "PRAGMA user_version") == "2\n")
        #expect(try await sums(folder, "SELECT name, sql FROM sqlite_schema ORDER BY name") == before)
        _ = try await sums(folder, remove)
        _ = try Self.store(folder)
        #expect(try await sums(folder, "PRAGMA user_version") == "4\n")
    }

    @Test("a file of version 3 keeps all it has and learns contacts, and what ends in the upgrade leaves it as it was")
    func contacts() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        try store?.add(.requests(at: Self.now, [.made("/a", uid: 33): 3], groups: [HistoryStoreTests.web: .sent(2)]))
        store = nil
        _ = try await sums(folder, "DROP TABLE contact_group")
        let version3 = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
        let script = "DROP TABLE contact; PRAGMA user_version = 3; CREATE TABLE contact_group (theirs)"
        _ = try await Tool.run("python3", ["-c", version3, folder.database, script])
        let before = try await sums(folder, "SELECT name, sql FROM sqlite_schema ORDER BY name")
        #expect(throws: SQLiteError.self) { try Self.store(folder) }
        #expect(try await sums(folder, "SELECT name, sql FROM sqlite_schema ORDER BY name") == before)
        #expect(try await sums(folder, "PRAGMA user_version") == "3\n")
        _ = try await sums(folder, "DROP TABLE contact_group")
        store = try Self.store(folder)
        let contact = Contact(process: HistoryStoreTests.web, destination: "192.0.2.0/24")
        #expect(try store?.learn([contact], at: Self.now) == [.new(groupSince: Timestamp(seconds: Self.now))])
        store = nil
        #expect(try await sums(folder, "PRAGMA user_version") == "4\n")
        #expect(try await sums(folder, "PRAGMA integrity_check") == "ok\n")
        // The group is the series that it was.
        let sql = "SELECT sent FROM months JOIN contact ON contact.series = months.series"
        #expect(try await sums(folder, sql) == "2\n")
        #expect(try await sums(folder, "SELECT requests FROM endpoint_months") == "3\n")
    }
}
