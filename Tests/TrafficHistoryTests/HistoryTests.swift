import Foundation
import Glibc
import SQLiteDatabase
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficLimits
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

/// What a history told the daemon's log.
private final class Log: Sendable {
    let news = Mutex<[History.News]>([])
}

@Suite("The history of a daemon")
struct HistoryTests {
    private static let question = HistoryQuestion(since: Timestamp(nanosecondsSinceEpoch: 0), by: [.total])
    private static var now: Int64 { Int64(time(nil)) }

    /// A history whose thread does not run yet: what it is told and asked waits.
    private static func waiting(in path: String, _ log: Log = Log()) throws -> History {
        try History(
            directory: path,
            host: "h",
            retention: .default,
            userName: { $0 == 33 ? "www-data" : nil }
        ) { news in
            log.news.withLock { $0.append(news) }
        }
    }

    private static func history(in path: String, _ log: Log = Log()) throws -> History {
        let history = try Self.waiting(in: path, log)
        Thread.detachNewThread { history.run() }
        return history
    }

    private static func minute(_ bytes: UInt64) -> HistoryMinute {
        .made(at: self.now, [HistoryStoreTests.web: .sent(bytes)])
    }

    @Test("minutes are there for a later daemon, and two daemons can't have one directory")
    func restart() async throws {
        let folder = try Folder()
        var history: History? = try Self.history(in: folder.path)
        history?.add(Self.minute(40))
        #expect(throws: HistoryError.inUse(path: folder.path)) { try Self.history(in: folder.path) }
        #expect(try await history?.answer(Self.question).totals == .sent(40))
        history?.stop()
        history = nil
        // Its thread gives the directory back when it ends.
        let opened = try await look(every: .milliseconds(10), until: { $0 != nil }) { () -> History? in
            do { return try Self.history(in: folder.path) } catch HistoryError.inUse { return nil }
        }
        let later = try #require(opened)
        later.add(Self.minute(2))
        #expect(try await later.answer(Self.question).totals == .sent(42))
        later.stop()
    }

    @Test(
        "a damaged file is set aside with a message, and a new one begun",
        arguments: ["text", "empty", "torn", "series", "mark"]
    )
    func damaged(_ kind: String) async throws {
        let (folder, log) = (try Folder(), Log())
        do {
            let store = try HistoryStore(path: folder.database, retention: .default, machine: nil)
            for index in 0..<300 {
                try store.add(
                    .made(at: Self.now + Int64(index) * 60, [ProcessGroup(name: "p\(index)", uid: 1): .sent(1)])
                )
            }
        }
        var bytes = try Data(contentsOf: URL(filePath: folder.database))
        switch kind {
        case "text": bytes = Data(String(repeating: "this is no database\n", count: 400).utf8)
        case "empty": bytes = Data()
        case "series", "mark":
            let root = try await sums(folder, "SELECT rootpage FROM sqlite_schema WHERE name = '\(kind)'")
            let page = try #require(Int(root.dropLast()))
            bytes.replaceSubrange((page - 1) * 4_096..<page * 4_096, with: Data(count: 4_096))
        default:
            for page in 1..<(bytes.count / 4_096) {
                bytes.replaceSubrange(page * 4_096..<page * 4_096 + 2_000, with: Data(count: 2_000))
            }
        }
        try bytes.write(to: URL(filePath: folder.database))
        let history = try Self.history(in: folder.path, log)
        history.add(Self.minute(7))
        #expect(try await history.answer(Self.question).totals == .sent(7))
        history.stop()
        // An empty file is a new one: there is nothing to keep.
        let aside = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter {
            $0.hasSuffix(".set-aside")
        }
        #expect(aside.count == (kind == "empty" ? 0 : 1))
        #expect(log.news.withLock { $0.count } == aside.count)
        for name in aside {
            #expect(try Data(contentsOf: URL(filePath: folder.path + "/" + name)) == bytes)
        }
    }

    @Test("a full disk loses no byte: what was not written is written when there is room", .enabled(if: geteuid() == 0))
    func fullDisk() async throws {
        let (folder, log) = (try Folder(), Log())
        try #require(mount("tmpfs", folder.path, "tmpfs", 0, "size=12m,mode=700") == 0)
        defer { umount2(folder.path, Int32(MNT_DETACH)) }
        let history = try Self.history(in: folder.path, log)
        history.add(Self.minute(1))
        #expect(try await history.answer(Self.question).totals == .sent(1))
        let ballast = folder.path + "/ballast"
        let file = open(ballast, O_CREAT | O_WRONLY, 0o600)
        for size in [65_536, 4_096, 1] {
            let zeros = [UInt8](repeating: 0, count: size)
            while write(file, zeros, size) > 0 {}
        }
        close(file)
        // More than there is room for in memory as minutes of their own.
        var sum: UInt64 = 1
        for index in 0..<100 {
            var groups: [ProcessGroup: ByteCounts] = [:]
            for group in 0..<50 {
                groups[ProcessGroup(name: "p\(index)-\(group)", uid: 1)] = .sent(3)
                sum += 3
            }
            history.add(.made(at: Self.now, groups))
        }
        // What is in the file can be read meanwhile.
        let meanwhile = try await history.answer(Self.question).totals.payload.sent
        #expect(meanwhile < sum)
        guard case .unwritten = log.news.withLock({ $0.last }) else {
            Issue.record("the disk was not full")
            return
        }
        unlink(ballast)
        history.add(Self.minute(5))
        #expect(try await history.answer(Self.question).totals == .sent(sum + 5))
        #expect(log.news.withLock { $0.last } == .writtenAgain)
        history.stop()
    }

    @Test("a directory that other users may read is refused, and a link to a safe one is not")
    func notSafe() async throws {
        let folder = try Folder()
        let link = folder.path + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.path)
        defer { unlink(link) }
        let history = try Self.history(in: link)
        history.add(Self.minute(3))
        #expect(try await history.answer(Self.question).totals == .sent(3))
        history.stop()
        let open = try Folder()
        chmod(open.path, 0o755)
        #expect(throws: HistoryError.notSafe(path: open.path)) { try Self.history(in: open.path) }
    }

    @Test("another time to keep sums is in force with the next minute")
    func otherRetention() async throws {
        let folder = try Folder()
        let history = try Self.history(in: folder.path)
        let old = Self.now - 86_400
        history.add(.made(at: old, [HistoryStoreTests.web: .sent(1)]))
        history.add(.made(at: Self.now - 60, seconds: 86_400, [HistoryStoreTests.web: .sent(2)]))
        _ = try await history.answer(Self.question)
        func minutes() async throws -> String { try await sums(folder, "SELECT count(DISTINCT time) FROM minutes") }
        #expect(try await minutes() == "2\n")
        var retention = HistoryRetention.default
        retention.keep(.minute, for: 3_600)
        history.keep(retention)
        history.add(Self.minute(4))
        // An answer comes after the minute.
        #expect(try await history.answer(Self.question).totals == .sent(7))
        #expect(try await minutes() == "2\n")
        history.stop()
    }

    /// Answers to questions, in the order in which they come.
    private struct Answers {
        private let stream = AsyncStream<Result<HistoryReport, any Error>>.makeStream()
        private var iterator: AsyncStream<Result<HistoryReport, any Error>>.Iterator

        init() { self.iterator = self.stream.stream.makeAsyncIterator() }

        func ask(_ history: History, of uid: UInt32?) {
            var question = HistoryTests.question
            question.uid = uid
            Task { [stream, question] in
                do {
                    stream.continuation.yield(.success(try await history.answer(question)))
                } catch {
                    stream.continuation.yield(.failure(error))
                }
            }
        }

        mutating func next() async throws -> HistoryReport? { try await self.iterator.next()?.get() }
    }

    @Test("a minute and the daemon's questions come before others, and strangers have places of their own")
    func questions() async throws {
        let folder = try Folder()
        let history = try Self.waiting(in: folder.path)
        // Nobody answers yet, so the first answer is that to the one question too many.
        var (users, root) = (Answers(), Answers())
        for _ in 0...History.mostQuestions.ofUser { users.ask(history, of: 33) }
        await #expect(throws: HistoryRefusal.self) { try await users.next() }
        for _ in 0...History.mostOfAdministrators { root.ask(history, of: nil) }
        await #expect(throws: HistoryRefusal.self) { try await root.next() }
        history.add(Self.minute(6))
        let daemon = Task { try await history.answerForAlerts(Self.question) }
        Thread.detachNewThread { history.run() }
        #expect(try await daemon.value.totals == .sent(6))
        for _ in 0..<History.mostQuestions.ofUser { #expect(try await users.next()?.countedSeconds == 60) }
        for _ in 0..<History.mostOfAdministrators { #expect(try await root.next()?.totals == .sent(6)) }
        history.stop()
    }

    @Test("questions at the end of the daemon are turned down as such")
    func ended() async throws {
        let folder = try Folder()
        let history = try Self.waiting(in: folder.path)
        history.stop()
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                history.run()
                continuation.resume()
            }
        }
        await #expect(throws: HistoryRefusal.ended) { try await history.answer(Self.question) }
        await #expect(throws: HistoryRefusal.ended) { try await history.answerForAlerts(Self.question) }
    }

    @Test("a statement that goes on and on is ended, and the file can be used afterwards")
    func endless() throws {
        let folder = try Folder()
        let file = try SQLiteFile(path: folder.database)
        let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c"
        #expect {
            _ = try file.limited(seconds: 0) { try file.number(endless) }
        } throws: { error in
            (error as? SQLiteError)?.isInterrupt == true
        }
        #expect(try file.number("SELECT 7") == 7)
    }

    @Test("minutes that wait become one within their month alone")
    func months() {
        // 2026-10-31T12:00Z, and the noons after.
        let noon: Int64 = 1_793_448_000
        var minutes = [0, 1, 2].map { HistoryMinute.made(at: noon + $0 * 86_400, [HistoryStoreTests.web: .sent(1)]) }
        History.join(&minutes)
        #expect(minutes.map(\.time) == [noon, noon + 2 * 86_400])
        #expect(minutes.map { $0.bytes[.total] } == [.sent(1), .sent(2)])
    }

    @Test("a file of a later trafficd ends the start, and stays as it is")
    func later() async throws {
        let folder = try Folder()
        do { _ = try HistoryStore(path: folder.database, retention: .default, machine: nil) }
        _ = try await sums(folder, "PRAGMA user_version = 9")
        let reason = "it is of a later trafficd (version 9 of the file)"
        #expect(throws: HistoryError.notOurs(path: folder.database, reason: reason)) {
            try Self.history(in: folder.path)
        }
        #expect(try await sums(folder, "PRAGMA user_version") == "9\n")
    }

    @Test("a directory that can't be written is refused with the path and the system's words")
    func readOnly() throws {
        #expect {
            _ = try Self.history(in: "/proc/history")
        } throws: { error in
            "\(error)".hasPrefix("mkdir /proc/history: ")
        }
    }
}

@Suite("The minutes of history")
struct HistoryFeedTests {
    private static func balance(at seconds: Int64, boot: UInt64, sent: UInt64, known: UInt64) -> Balance {
        Balance(
            takenAt: Timestamp(seconds: seconds),
            takenBoottimeNanoseconds: boot * 1_000_000_000,
            countingSince: Timestamp(seconds: 1_000_000_020),
            bytes: .sent(sent),
            groups: GroupTotals(
                lives: [
                    GroupLife(group: HistoryStoreTests.web, number: 1, beganBoottimeNanoseconds: 0, bytes: .sent(known))
                ],
                unknown: .sent(sent - known)
            )
        )
    }

    @Test("a minute has what was moved since the one before, and the last one also what nobody knows")
    func minutes() throws {
        var feed = HistoryFeed(countingSince: Timestamp(seconds: 1_000_000_020), boottimeNanoseconds: 5_000_000_000)
        #expect(!feed.isDue(at: Timestamp(seconds: 1_000_000_079)))
        #expect(feed.isDue(at: Timestamp(seconds: 1_000_000_080)))
        let early = feed.minute(Self.balance(at: 1_000_000_041, boot: 26, sent: 30, known: 10))
        let first = try #require(early)
        #expect(first.time == 1_000_000_020 && first.countedSeconds == 21)
        #expect(first.bytes == [.total: .sent(30), .group(HistoryStoreTests.web): .sent(10)])
        let late = feed.minute(Self.balance(at: 1_000_000_101, boot: 86, sent: 50, known: 45), isLast: true)
        let last = try #require(late)
        #expect(last.time == 1_000_000_041 && last.countedSeconds == 60)
        #expect(
            last.bytes == [
                .total: .sent(20), .group(HistoryStoreTests.web): .sent(35), .group(.other(of: nil)): .sent(5),
            ]
        )
    }

    @Test("the clock may go back, and after a long sleep the bytes count when the machine is awake")
    func clocks() throws {
        var feed = HistoryFeed(countingSince: Timestamp(seconds: 1_000_000_020), boottimeNanoseconds: 5_000_000_000)
        _ = feed.minute(Self.balance(at: 1_000_000_100, boot: 80, sent: 1, known: 1))
        #expect(feed.isDue(at: Timestamp(seconds: 999_996_500)))
        let second = feed.minute(Self.balance(at: 999_996_500, boot: 140, sent: 2, known: 2))
        let back = try #require(second)
        #expect(back.time == 1_000_000_100 && back.countedSeconds == 60)
        let third = feed.minute(Self.balance(at: 1_000_040_000, boot: 43_640, sent: 9, known: 9))
        let awake = try #require(third)
        #expect(awake.time == 1_000_040_000 && awake.countedSeconds == 43_500)
    }

    @Test("the time in which nothing counted is no counted time")
    func gap() throws {
        var feed = HistoryFeed(countingSince: Timestamp(seconds: 1_000_000_020), boottimeNanoseconds: 5_000_000_000)
        for (boot, uncounted, counted) in [(65, 20, 40), (125, 20, 60), (185, 35, 45)] as [(UInt64, UInt64, UInt64)] {
            var balance = Self.balance(at: 1_000_000_015 + Int64(boot), boot: boot, sent: 1, known: 1)
            balance.uncountedNanoseconds = uncounted * 1_000_000_000
            let minute = feed.minute(balance)
            #expect(try #require(minute).countedSeconds == counted)
        }
    }
}
