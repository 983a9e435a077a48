import Foundation
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficLimits
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

/// A directory that is gone with this object.
final class Folder {
    let path = FileManager.default.temporaryDirectory.appending(path: "history-\(UUID().uuidString)").path

    init() throws {
        try FileManager.default.createDirectory(
            atPath: self.path,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
    }

    deinit { try? FileManager.default.removeItem(atPath: self.path) }

    var database: String { self.path + "/history.sqlite" }
}

extension HistoryMinute {
    static let groupLimit = HistorySeries.Kind.group.limits!.minute

    /// Of sockets.
    var bytes: [HistorySeries: ByteCounts] {
        self.sums.compactMapValues { if case .bytes(let bytes) = $0 { bytes } else { nil } }
    }

    /// A minute in which groups moved bytes, and the total and the scope `lan` with them.
    static func made(
        at time: Int64,
        seconds: UInt64 = 60,
        _ groups: [ProcessGroup: ByteCounts]
    ) -> HistoryMinute {
        var growth = Balance.Growth()
        growth.byGroup = groups
        growth.bytes = groups.values.reduce(ByteCounts(), +)
        growth.byScope = ["lan": growth.bytes]
        return HistoryMinute(growth, at: Timestamp(seconds: time), countedSeconds: seconds)
    }
}

extension HistoryStore {
    /// A question may take as long as the machine is slow.
    func patient() -> HistoryStore {
        self.patience = 3_600
        return self
    }

    static let groupLimit = HistorySeries.Kind.group.limits!.month
}

extension ByteCounts {
    static func sent(_ sent: UInt64, _ received: UInt64 = 0, wire: UInt64? = nil, estimated: UInt64 = 0) -> ByteCounts {
        ByteCounts(payload: PayloadBytes(sent: sent, received: received), wireSent: wire, wireEstimated: estimated)
    }
}

/// What the database has, read by Python's own SQLite.
func sums(_ folder: Folder, _ sql: String) async throws -> String {
    let script = "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute(sys.argv[2]): print(*row)"
    return try await Tool.run("python3", ["-c", script, folder.database, sql]).output
}

@Suite("The database of history")
struct HistoryStoreTests {
    /// 2026-11-25T10:00:00Z.
    static let now: Int64 = 1_795_600_800
    static let web = ProcessGroup(name: "nginx", systemdUnit: "nginx.service", uid: 33)
    static let shop = ProcessGroup(name: "python3", systemdUnit: "shop.service", uid: 1_000)

    private static func store(_ folder: Folder, _ retention: HistoryRetention = .default) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: retention, machine: nil).patient()
    }

    private static func question(_ since: Int64, by: HistoryDimension...) -> HistoryQuestion {
        HistoryQuestion(since: Timestamp(seconds: since), by: by)
    }

    @Test("a byte is in one sum of each level, and another program reads the same sums")
    func levels() async throws {
        let folder = try Folder()
        var (store, truth, random): (HistoryStore?, ByteCounts, Seeded) = (
            try Self.store(folder), ByteCounts(), Seeded(5)
        )
        for minute in 0..<3_000 {
            let bytes = ByteCounts.sent(
                .random(in: 0...9_999, using: &random),
                1,
                wire: .random(in: 0...9, using: &random),
                // In one minute of three some are.
                estimated: minute % 3 == 0 ? .random(in: 1...5, using: &random) : 0
            )
            try store?.add(.made(at: Self.now + Int64(minute) * 60 + 59, [Self.web: bytes]))
            truth += bytes
        }
        store = nil
        for table in ["hours", "days", "months"] {
            let sql = """
                SELECT sum(sent), sum(received), sum(wire_sent), sum(wire_received), sum(wire_estimated) FROM \(table) JOIN series ON id = series
                WHERE kind = 3
                """
            #expect(
                try await sums(folder, sql)
                    == "\(truth.payload.sent) 3000 \(truth.wireSent ?? 0) None \(truth.wireEstimated)\n",
                "\(table)"
            )
        }
        let fives = "SELECT sum(sent), count(*) FROM five_minutes JOIN series ON id = series WHERE kind"
        #expect(try await sums(folder, "\(fives) = 0") == "\(truth.payload.sent) 600\n")
        #expect(try await sums(folder, "\(fives) = 1") == "\(truth.payload.sent) 600\n")
        #expect(try await sums(folder, "\(fives) = 3") == "None 0\n")
        #expect(try await sums(folder, "SELECT sum(seconds) FROM counted WHERE level = '5minute'") == "180000\n")
        // Minutes are kept for two days, and the present one.
        #expect(try await sums(folder, "SELECT count(DISTINCT time) FROM minutes") == "2881\n")
        #expect(try await sums(folder, "SELECT sum(seconds) FROM counted WHERE level = 'hour'") == "180000\n")
        #expect(try await sums(folder, "PRAGMA integrity_check") == "ok\n")
    }

    @Test("bytes are divided by process, user, unit, scope and not at all, and the sums agree")
    func dimensions() throws {
        let (folder, other) = (try Folder(), ProcessGroup(name: "nginx", systemdUnit: "other.service", uid: 34))
        let store = try Self.store(folder)
        try store.add(.made(at: Self.now, [Self.web: .sent(5, 1, wire: 9, estimated: 4), Self.shop: .sent(100)]))
        try store.add(.made(at: Self.now + 60, [Self.web: .sent(2), other: .sent(3)]))
        func rows(_ by: HistoryDimension..., uid: UInt32? = nil) throws -> [HistoryRow] {
            let question = HistoryQuestion(since: Timestamp(seconds: Self.now), by: by, uid: uid)
            let report = try store.report(question, host: "h", now: Self.now + 120)
            let sum = report.rows.reduce(ByteCounts()) { $0 + $1.bytes }
            #expect(sum == report.totals && report.level == .minute && report.countedSeconds == 120)
            return report.rows
        }
        #expect(try rows(.process).map(\.name.process) == ["python3", "nginx"])
        #expect(try rows(.process).map(\.bytes) == [.sent(100), .sent(10, 1, wire: 9, estimated: 4)])
        #expect(
            try rows(.process, .unit).map(\.name.systemdUnit) == ["shop.service", "nginx.service", "other.service"]
        )
        #expect(try rows(.user).map(\.name.uid) == [1_000, 33, 34])
        #expect(try rows(.scope).map(\.name.scope) == ["lan"])
        #expect(try rows(.total).map(\.bytes) == [.sent(110, 1, wire: 9, estimated: 4)])
        #expect(try rows(.process, uid: 33).map(\.bytes) == [.sent(7, 1, wire: 9, estimated: 4)])
    }

    @Test("a bucket has a row for each of its times, and names beyond the top add up")
    func buckets() throws {
        let store = try Self.store(try Folder())
        for minute in 0..<3 {
            try store.add(
                .made(at: Self.now + Int64(minute) * 3_600, [Self.web: .sent(10), Self.shop: .sent(UInt64(minute))])
            )
        }
        var question = Self.question(Self.now, by: .process)
        (question.bucket, question.top) = (.hour, 1)
        let report = try store.report(question, host: "h", now: Self.now + 7_300)
        #expect(report.rows.map { $0.time?.seconds } == [0, 1, 2].map { Self.now + $0 * 3_600 })
        #expect(report.rows.map(\.bytes) == [.sent(10), .sent(10), .sent(10)])
        #expect(report.others?.bytes == .sent(3) && report.othersCount == 1 && report.totals == .sent(33))
        question.until = Timestamp(seconds: Self.now + 3_600)
        #expect(try store.report(question, host: "h", now: Self.now + 7_300).totals == .sent(10))
    }

    @Test("the shortest sums that reach back to a time are taken, and what is removed is no time without traffic")
    func choice() throws {
        let store = try Self.store(try Folder())
        // Two and a half years, as long as the daemon has counted; then the last day.
        for days in [900, 100, 40, 10, 1] as [Int64] {
            try store.add(
                .made(at: Self.now - days * 86_400, seconds: UInt64(days) * 86_400, [Self.web: .sent(UInt64(days))])
            )
        }
        try store.add(.made(at: Self.now, seconds: 86_400, [Self.web: .sent(1_000)]))
        for (days, level, sum) in [
            (1, HistoryLevel.minute, 1_001), (2, .minute, 1_001), (3, .hour, 1_001), (14, .hour, 1_011),
            (20, .day, 1_011), (62, .day, 1_051), (200, .month, 1_151), (20_000, .month, 1_151),
        ] as [(Int64, HistoryLevel, UInt64)] {
            let question = Self.question(Self.now - days * 86_400, by: .process)
            let report = try store.report(question, host: "h", now: Self.now + 60)
            #expect(report.level == level && report.totals == .sent(sum), "\(days) days")
            // What is not divided by process has sums of 5 minutes, for as long as there are days.
            let total = try store.report(
                Self.question(Self.now - days * 86_400, by: .total),
                host: "h",
                now: Self.now + 60
            )
            #expect(total.level == (level == .hour || level == .day ? .fiveMinutes : level), "\(days) days")
            #expect(total.totals == .sent(sum), "\(days) days")
        }
        var question = Self.question(Self.now - 20 * 86_400, by: .total)
        question.bucket = .minute
        #expect(try store.report(question, host: "h", now: Self.now + 60).since.seconds == Self.now - 2 * 86_400)
        // The first sum that is there, whatever the question.
        #expect(try store.report(question, host: "h", now: Self.now + 60).keptSince?.seconds == Self.now - 86_400)
        question.bucket = .month
        let month = HistoryLevel.month.start(of: Self.now - 100 * 86_400)
        #expect(try store.report(question, host: "h", now: Self.now + 60).keptSince?.seconds == month)
        let empty = try Self.store(try Folder())
        #expect(try empty.report(question, host: "h", now: Self.now + 60).keptSince == nil)
    }

    @Test("a daemon that is told to keep minutes longer does not take them for the time in which they were removed")
    func longerRetention() throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        try store?.add(.made(at: Self.now - 7 * 86_400, seconds: 86_400, [Self.web: .sent(5)]))
        try store?.add(.made(at: Self.now, seconds: 7 * 86_400, [Self.web: .sent(1)]))
        store = nil
        var retention = HistoryRetention.default
        retention.keep(.minute, for: 400 * 86_400)
        store = try Self.store(folder, retention)
        try store?.add(.made(at: Self.now + 60, [Self.web: .sent(1)]))
        let report = try store?.report(
            Self.question(Self.now - 7 * 86_400, by: .process),
            host: "h",
            now: Self.now + 120
        )
        #expect(report?.level == .hour && report?.totals == .sent(7))
    }

    @Test("a clock that is wrong for an hour removes no sums, whichever way it goes")
    func wrongClock() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        try store?.add(.made(at: Self.now, [Self.web: .sent(1)]))
        for minute in 0..<60 {
            try store?.add(.made(at: Self.now + 10 * 31_536_000 + Int64(minute) * 60, [Self.web: .sent(2)]))
        }
        // The daemon may start anew meanwhile.
        store = nil
        store = try Self.store(folder)
        try store?.add(.made(at: Self.now + 10 * 31_536_000 + 3_600, [Self.web: .sent(2)]))
        try store?.add(.made(at: Self.now - 3_600, [Self.web: .sent(3)]))
        // A new start must not believe the times in the file either.
        store = nil
        store = try Self.store(folder)
        try store?.add(.made(at: Self.now + 60, [Self.web: .sent(4)]))
        store = nil
        #expect(
            try await sums(folder, "SELECT sum(sent) FROM minutes JOIN series ON id = series WHERE kind = 3") == "130\n"
        )
    }

    @Test("a user beyond the limits costs own details, and no byte and no one else's")
    func limits() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        var sum: UInt64 = 0
        for minute in 0..<6 {
            var groups = [Self.web: ByteCounts.sent(1)]
            for index in 0..<(HistoryMinute.groupLimit.ofUser + 10) {
                let bytes = UInt64(1_000 + index)
                groups[ProcessGroup(name: "x\(minute)-\(index)", uid: 1_000)] = .sent(bytes)
                sum += bytes
            }
            try store?.add(.made(at: Self.now + Int64(minute) * 60, groups))
            // The limit of the month holds over a restart.
            if minute == 2 { store = try Self.store(folder) }
        }
        store = nil
        let of = "FROM months JOIN series ON id = series WHERE kind = 3 AND uid ="
        #expect(try await sums(folder, "SELECT sum(sent), count(*) \(of) 1000") == "\(sum) 2001\n")
        #expect(try await sums(folder, "SELECT sum(sent), name \(of) 33") == "6 nginx\n")
    }

    @Test("users who fill all places together leave a place to a user with few groups, in a minute and in a month")
    func collusion() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        let (ofUser, inAll) = (HistoryMinute.groupLimit.ofUser, HistoryMinute.groupLimit.inAll)
        for minute in 0...(HistoryStore.groupLimit.inAll / inAll) {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for index in 0..<inAll {
                // So many users that none reaches a limit of its own.
                let uid = UInt32(1_000 + minute / 2 * 10 + index / ofUser)
                groups[ProcessGroup(name: "x\(minute)-\(index)", uid: uid)] = .sent(1_000)
            }
            groups[Self.web] = .sent(1)
            groups[Self.shop] = .sent(2)
            let made = HistoryMinute.made(at: Self.now + Int64(minute) * 60, groups)
            #expect(made.bytes[.group(Self.web)] == .sent(1))
            if minute > 0 { try store?.add(made) }
        }
        // A newcomer, when the month is full.
        let late = ProcessGroup(name: "late", uid: 34)
        try store?.add(.made(at: Self.now + 3_600, [late: .sent(7), ProcessGroup(name: "y", uid: 1_000): .sent(9)]))
        store = nil
        let months = "FROM months JOIN series ON id = series WHERE kind = 3"
        #expect(try await sums(folder, "SELECT count(*) \(months) AND name != '_other'") == "20001\n")
        #expect(try await sums(folder, "SELECT sent \(months) AND name = 'late'") == "7\n")
        #expect(try await sums(folder, "SELECT count(*) \(months) AND name = 'y'") == "0\n")
        #expect(try await sums(folder, "SELECT sum(sent) \(months) AND uid = 33") == "10\n")
    }

    @Test("programs that call themselves _other have the limit of a user, too")
    func namedOther() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        for minute in 0..<5 {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for index in 0..<HistoryMinute.groupLimit.ofUser {
                groups[ProcessGroup(name: EndpointUsage.other, executable: "/\(minute)/\(index)", uid: 7)] = .sent(1)
            }
            try store?.add(.made(at: Self.now + Int64(minute) * 60, groups))
        }
        store = nil
        #expect(
            try await sums(folder, "SELECT sum(sent), count(*) FROM months JOIN series ON id = series WHERE uid = 7")
                == "2500 2001\n"
        )
    }

    @Test("minutes that wait keep the limit of a minute when they become one")
    func merged() {
        var sum = HistoryMinute.made(at: Self.now, [:])
        for minute in 0..<4 {
            var groups = [Self.web: ByteCounts.sent(1)]
            for index in 0..<HistoryMinute.groupLimit.ofUser {
                groups[ProcessGroup(name: "\(minute)-\(index)", uid: 7)] = .sent(2)
            }
            sum.add(.made(at: Self.now, groups))
        }
        #expect(sum.bytes[.group(Self.web)] == .sent(4))
        #expect(sum.bytes[.total] == .sent(4 * (1 + 2 * UInt64(HistoryMinute.groupLimit.ofUser))))
        #expect(sum.bytes.count <= HistoryMinute.groupLimit.ofUser + 4)
        let ofGroups = sum.bytes.filter { $0.key.kind == .group }.values.reduce(ByteCounts(), +)
        #expect(ofGroups == sum.bytes[.total])
    }

    @Test("the end of a report is the end of its last sum")
    func until() throws {
        let store = try Self.store(try Folder())
        try store.add(.made(at: Self.now, [Self.web: .sent(1)]))
        var question = Self.question(Self.now - 86_400, by: .total)
        (question.bucket, question.until) = (.day, Timestamp(seconds: Self.now - 86_400 + 60))
        let report = try store.report(question, host: "h", now: Self.now + 60)
        #expect(report.until.seconds == HistoryLevel.day.end(of: HistoryLevel.day.start(of: Self.now - 86_400)))
        question.until = nil
        #expect(try store.report(question, host: "h", now: Self.now + 60).until.seconds == Self.now + 60)
    }

    @Test("series that no sum needs any more are removed")
    func tidies() async throws {
        let folder = try Folder()
        var retention = HistoryRetention.default
        for level in HistoryLevel.allCases { retention.keep(level, for: 86_400) }
        var store: HistoryStore? = try Self.store(folder, retention)
        try store?.add(.made(at: Self.now - 70 * 86_400, [Self.shop: .sent(1)]))
        // So long has the daemon counted meanwhile.
        try store?.add(.made(at: Self.now, seconds: 70 * 86_400, [Self.web: .sent(1)]))
        store = nil
        #expect(try await sums(folder, "SELECT name FROM series WHERE kind = 3") == "nginx\n")
        #expect(try await sums(folder, "SELECT count(*) FROM counted WHERE level = 'month'") == "1\n")
    }

    @Test("unlimited sums stay")
    func unlimited() async throws {
        let folder = try Folder()
        var retention = HistoryRetention.default
        retention.keep(.minute, for: nil)
        var store: HistoryStore? = try Self.store(folder, retention)
        try store?.add(.made(at: Self.now - 700 * 86_400, [Self.shop: .sent(1)]))
        try store?.add(.made(at: Self.now, seconds: 700 * 86_400, [Self.shop: .sent(1)]))
        #expect(
            try store?.report(Self.question(0, by: .total), host: "h", now: Self.now).level == .minute
        )
        store = nil
        #expect(try await sums(folder, "SELECT count(DISTINCT time) FROM minutes") == "2\n")
    }

    @Test("files of another program, a later version and another machine are told apart, and stay as they are")
    func foreign() async throws {
        let folder = try Folder()
        _ = try await sums(folder, "CREATE TABLE theirs (a)")
        #expect { _ = try Self.store(folder) } throws: { "\($0)".contains("another program") }
        #expect(try await sums(folder, "SELECT name FROM sqlite_schema") == "theirs\n")

        let later = try Folder()
        _ = try HistoryStore(path: later.database, retention: .default, machine: "a")
        #expect { _ = try HistoryStore(path: later.database, retention: .default, machine: "b") } throws: {
            "\($0)".contains("another machine")
        }
        _ = try HistoryStore(path: later.database, retention: .default, machine: "a")
        _ = try await sums(later, "PRAGMA user_version = 9")
        #expect { _ = try Self.store(later) } throws: { "\($0)".contains("later trafficd (version 9") }
    }

    @Test("an answer that would be too long is refused with advice")
    func tooLong() throws {
        let store = try Self.store(try Folder())
        for minute in 0...(HistoryStore.mostRows / HistoryMinute.groupLimit.ofUser) {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for index in 0..<HistoryMinute.groupLimit.ofUser {
                groups[ProcessGroup(name: "\(index)", uid: 1)] = .sent(1)
            }
            try store.add(.made(at: Self.now + Int64(minute) * 60, groups))
        }
        var question = Self.question(Self.now, by: .process)
        #expect(try store.report(question, host: "h", now: Self.now + 86_400).rows.count == 500)
        question.bucket = .minute
        // A user who makes up names does not keep anyone from the largest ones, and there are as many as have room.
        for (top, kept) in [(20, 20), (10_000, HistoryStore.mostRows / 201)] {
            question.top = top
            let report = try store.report(question, host: "h", now: Self.now + 86_400)
            #expect(report.rows.count == kept * 201 && report.othersCount == 500 - kept)
            #expect(report.others?.bytes.payload.sent == UInt64(500 - kept) * 201)
            #expect(report.totals.payload.sent == 500 * 201)
        }
        // Amounts are those of rows, so all of them are needed.
        question.filter = try HistoryFilter("total>0")
        #expect(throws: HistoryRefusal.self) { try store.report(question, host: "h", now: Self.now + 86_400) }
    }

    @Test("the largest names have the same rows, whether they are chosen before or after", arguments: 0..<4)
    func choosing(_ seed: UInt64) throws {
        var random = Seeded(seed)
        let store = try Self.store(try Folder())
        for minute in 0..<90 {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for index in 0..<12 where Bool.random(using: &random) {
                let group = ProcessGroup(name: "\(index % 7)", systemdUnit: "u\(index % 3)", uid: UInt32(index % 2))
                groups[group] = .sent(.random(in: 1...40, using: &random))
            }
            try store.add(.made(at: Self.now + Int64(minute) * 60, groups))
        }
        for by in [[.process], [.unit, .user], [.total]] as [[HistoryDimension]] {
            for bucket in [HistoryLevel.minute, .hour, .day] {
                var question = HistoryQuestion(
                    since: Timestamp(seconds: Self.now),
                    bucket: bucket,
                    by: by,
                    top: .random(in: 1...8, using: &random)
                )
                let chosenBefore = try store.report(question, host: "h", now: Self.now + 86_400)
                // Amounts are those of rows, so these names are chosen after all rows were made.
                question.filter = try HistoryFilter("total>0")
                #expect(try store.report(question, host: "h", now: Self.now + 86_400) == chosenBefore)
            }
        }
    }
}
