import Foundation
import TestSupport
import Testing
import TrafficFeed
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

@Suite("A file of an earlier trafficd")
struct UpgradeTests {
    private static var now: Int64 { HistoryStoreTests.now }

    /// Makes a file what version 1 wrote: it had no sums of 5 minutes and no mark.
    private static func downgrade(_ folder: Folder) async throws {
        let script = """
            import sqlite3, sys
            file = sqlite3.connect(sys.argv[1])
            file.executescript("BEGIN; DROP TABLE five_minutes; DROP TABLE mark; DELETE FROM counted WHERE level = '5minute';"
                "DELETE FROM removed WHERE level = '5minute'; PRAGMA user_version = 1; COMMIT")
            """
        _ = try await Tool.run("python3", ["-c", script, folder.database])
    }

    private static func store(_ folder: Folder) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: .default, machine: nil)
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
        #expect(try await sums(folder, "PRAGMA user_version") == "2\n")
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
        #expect(try await sums(folder, "PRAGMA user_version") == "2\n")
    }
}
