import Foundation
import Synchronization
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficPush

@Suite("The spool of a push", .timeLimit(.minutes(60)))
struct PushSpoolTests {
    private let folder = FileManager.default.temporaryDirectory.appending(path: "spool-\(UUID().uuidString)")
    private let a = PushDestination(url: "http://a/")
    private let b = PushDestination(url: "http://b/")

    private var path: String { self.folder.appending(path: "push.sqlite").path }

    private static func lines(_ destination: PushDestination) -> PushDestination {
        var destination = destination
        destination.format = .ndjson
        return destination
    }

    private func with(_ body: () async throws -> Void) async throws {
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: false)
        defer { try? FileManager.default.removeItem(at: self.folder) }
        try await body()
    }

    private func body(_ byte: UInt8, _ count: Int = 1_000) -> [[UInt8]] { [Array(repeating: byte, count: count)] }

    @Test("each destination has its own place, and a request goes when all have it", arguments: [true, false])
    func cursors(isFile: Bool) async throws {
        try await self.with {
            let spool = PushSpool([self.a, self.b], path: isFile ? self.path : nil) { _ in }
            for byte in UInt8(1)...3 { await spool.add([self.a.form: self.body(byte)]) }
            for byte in UInt8(1)...3 {
                let next = try #require(await spool.next(for: self.a))
                #expect(next.body.first == byte)
                await spool.take(next, by: self.a)
            }
            #expect(await spool.next(for: self.a) == nil)
            #expect(await spool.counts(of: self.a) == .init(waiting: 0, dropped: 0))
            #expect(await spool.counts(of: self.b) == .init(waiting: 3, dropped: 0))
            #expect(await spool.next(for: self.b)?.body.first == 1)
        }
    }

    @Test("beyond the room the oldest go, and only those that lack them count that")
    func room() async throws {
        try await self.with {
            let spool = PushSpool([self.a, self.b], path: self.path, room: 3_500) { _ in }
            for byte in UInt8(1)...3 { await spool.add([self.a.form: self.body(byte)]) }
            let first = try #require(await spool.next(for: self.a))
            await spool.take(first, by: self.a)
            await spool.add([self.a.form: self.body(4)])
            #expect(await spool.counts(of: self.a) == .init(waiting: 3, dropped: 0))
            #expect(await spool.counts(of: self.b) == .init(waiting: 3, dropped: 1))
            await spool.add([self.a.form: self.body(5, 9_000)])
            #expect(await spool.counts(of: self.a) == .init(waiting: 1, dropped: 3))
            #expect(await spool.counts(of: self.b) == .init(waiting: 1, dropped: 4))
            await spool.add([self.a.form: self.body(6)])
            #expect(await spool.next(for: self.b)?.body.first == 6)
        }
    }

    @Test("the form that takes the most makes room, so the other one keeps its requests")
    func forms() async throws {
        try await self.with {
            let (small, large) = (self.a, Self.lines(self.b))
            let spool = PushSpool([small, large], path: self.path, room: 10_000) { _ in }
            for byte in UInt8(1)...5 {
                await spool.add([small.form: self.body(byte, 100), large.form: self.body(byte, 4_000)])
            }
            #expect(await spool.counts(of: small) == .init(waiting: 5, dropped: 0))
            #expect(await spool.counts(of: large) == .init(waiting: 2, dropped: 3))
            #expect(await spool.next(for: small)?.body.first == 1)
        }
    }

    @Test("another set of destinations keeps what the old ones lack, and nothing else")
    func change() async throws {
        try await self.with {
            let old = PushSpool([self.a, Self.lines(self.b)], path: self.path) { _ in }
            await old.add([self.a.form: self.body(1), Self.lines(self.b).form: self.body(2)])
            await old.add([self.a.form: self.body(3), Self.lines(self.b).form: self.body(4)])
            let new = PushSpool([self.a, self.b], path: self.path) { _ in }
            #expect(await new.next(for: self.a)?.body.first == 1)
            #expect(await new.next(for: self.b) == nil)
            await new.add([self.a.form: self.body(5)])
            #expect(await new.next(for: self.b)?.body.first == 5)
            #expect(await new.counts(of: self.a) == .init(waiting: 3, dropped: 0))
        }
    }

    @Test("a damaged file begins anew, and a directory that is gone is replaced by memory")
    func damage() async throws {
        try await self.with {
            try Data("no database at all, but long enough for a header of one".utf8).write(to: URL(filePath: self.path))
            let notes = Notes()
            let spool = PushSpool([self.a], path: self.path) { notes.add($0) }
            await spool.add([self.a.form: self.body(1)])
            #expect(await spool.next(for: self.a)?.body.first == 1)
            #expect(notes.all.contains { $0.contains("begins anew") })
            let nowhere = PushSpool([self.a], path: "/nosuch/push.sqlite") { notes.add($0) }
            await nowhere.add([self.a.form: self.body(1)])
            await nowhere.add([self.a.form: self.body(2)])
            #expect(await nowhere.next(for: self.a) != nil)
            #expect(notes.all.filter { $0.contains("in memory") }.count == 1)
        }
    }

    private func sqlite(_ sql: String) async throws {
        let program = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"
        _ = try await Tool.run("python3", ["-c", program, self.path, sql])
    }

    @Test("after the file was damaged, what was taken from it does not count for what came after it")
    func replacement() async throws {
        try await self.with {
            let notes = Notes()
            let spool = PushSpool([self.a], path: self.path) { notes.add($0) }
            for byte in UInt8(1)...3 { await spool.add([self.a.form: self.body(byte)]) }
            let old = try #require(await spool.next(for: self.a))
            await spool.take(old, by: self.a)
            let last = try #require(await spool.next(for: self.a))
            #expect(await spool.counts(of: self.a) == .init(waiting: 2, dropped: 0))
            // Another process makes the file unusable.
            try await self.sqlite("DROP TABLE request")
            await spool.add([self.a.form: self.body(4)])
            #expect(notes.all.filter { $0.contains("begins anew") }.count == 1)
            await spool.add([self.a.form: self.body(5)])
            await spool.take(last, by: self.a)
            #expect(await spool.next(for: self.a)?.body.first == 4)
            #expect(await spool.counts(of: self.a) == .init(waiting: 2, dropped: 1))
            await spool.close()
            let later = PushSpool([self.a], path: self.path) { _ in }
            #expect(await later.next(for: self.a)?.body.first == 4)
        }
    }

    @Test("while the file can't be written, what comes waits behind it in memory, and then moves there")
    func failure() async throws {
        try await self.with {
            let notes = Notes()
            let spool = PushSpool([self.a, self.b], path: self.path, room: 3_500) { notes.add($0) }
            for byte in UInt8(1)...3 { await spool.add([self.a.form: self.body(byte)]) }
            await spool.take(try #require(await spool.next(for: self.a)), by: self.a)
            // Another process's trigger makes each DELETE fail: no room can be made, and the insertion is undone.
            try await self.sqlite(
                "CREATE TRIGGER no BEFORE DELETE ON request BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
            await spool.add([self.a.form: self.body(4)])
            await spool.add([self.a.form: self.body(5)])
            #expect(notes.all.count == 1 && notes.all[0].contains("in memory"))
            #expect(await spool.counts(of: self.a) == .init(waiting: 4, dropped: 0))
            #expect(await spool.counts(of: self.b) == .init(waiting: 5, dropped: 0))
            // One destination takes from the file and from memory, the other one only from the file.
            for byte in UInt8(2)...4 {
                let next = try #require(await spool.next(for: self.a))
                #expect(next.body.first == byte)
                await spool.take(next, by: self.a)
            }
            let (ofA, ofB) = (try #require(await spool.next(for: self.a)), try #require(await spool.next(for: self.b)))
            #expect(ofA.body.first == 5 && ofB.body.first == 1)
            try await self.sqlite("DROP TRIGGER no")
            await spool.add([self.a.form: self.body(6)])
            #expect(notes.all.count == 2 && notes.all[1].contains("again"))
            // What was under way from memory is known in the file.
            await spool.take(ofA, by: self.a)
            #expect(await spool.counts(of: self.a) == .init(waiting: 1, dropped: 0))
            #expect(await spool.next(for: self.a)?.body.first == 6)
            // All six had no room: of the other destination's, the oldest went, and one of these was under way.
            await spool.take(ofB, by: self.b)
            #expect(await spool.counts(of: self.b) == .init(waiting: 3, dropped: 2))
            await spool.close()
            let later = PushSpool([self.a, self.b], path: self.path) { _ in }
            #expect(await later.next(for: self.a)?.body.first == 6)
            #expect(await later.next(for: self.b)?.body.first == 4)
        }
    }

    @Test("a full disk loses nothing, and the end of the daemon says what it had to lose", .enabled(if: geteuid() == 0))
    func fullDisk() async throws {
        try await self.with {
            try #require(mount("tmpfs", self.folder.path, "tmpfs", 0, "size=2m,mode=700") == 0)
            defer { umount2(self.folder.path, Int32(MNT_DETACH)) }
            let notes = Notes()
            let spool = PushSpool([self.a], path: self.path) { notes.add($0) }
            await spool.add([self.a.form: self.body(1)])
            let ballast = self.folder.path + "/ballast"
            try Self.fill(ballast)
            for byte in UInt8(2)...4 { await spool.add([self.a.form: self.body(byte, 200_000)]) }
            #expect(await spool.counts(of: self.a) == .init(waiting: 4, dropped: 0))
            // What the file has is sent meanwhile.
            let first = try #require(await spool.next(for: self.a))
            #expect(first.body.first == 1)
            await spool.take(first, by: self.a)
            #expect(await spool.next(for: self.a)?.body.first == 2)
            unlink(ballast)
            await spool.add([self.a.form: self.body(5)])
            #expect(await spool.counts(of: self.a) == .init(waiting: 4, dropped: 0))
            #expect(notes.all.count == 2, "\(notes.all)")
            await spool.close()
            let later = PushSpool([self.a], path: self.path) { notes.add($0) }
            for byte in UInt8(2)...5 {
                let next = try #require(await later.next(for: self.a))
                #expect(next.body.first == byte)
                await later.take(next, by: self.a)
            }
            try Self.fill(ballast)
            await later.add([self.a.form: self.body(6, 200_000)])
            await later.close()
            #expect(notes.all.last?.hasSuffix("requests that waited in memory are lost: 1") == true, "\(notes.all)")
        }
    }

    @Test("a file that can be opened only later has older requests, which are not sent after newer ones")
    func openedLater() async throws {
        try await self.with {
            let first = PushSpool([self.a, self.b], path: self.path) { _ in }
            await first.add([self.a.form: self.body(1)])
            await first.close()
            let away = self.folder.path + "-away"
            try FileManager.default.moveItem(atPath: self.folder.path, toPath: away)
            let spool = PushSpool([self.a, self.b], path: self.path) { _ in }
            await spool.add([self.a.form: self.body(2)])
            let taken = try #require(await spool.next(for: self.a))
            #expect(taken.body.first == 2)
            await spool.take(taken, by: self.a)
            try FileManager.default.moveItem(atPath: away, toPath: self.folder.path)
            #expect(await spool.next(for: self.a) == nil)
            #expect(await spool.counts(of: self.a) == .init(waiting: 0, dropped: 1))
            // The other destination has taken none, and gets all in their order.
            for byte in UInt8(1)...2 {
                let next = try #require(await spool.next(for: self.b))
                #expect(next.body.first == byte)
                await spool.take(next, by: self.b)
            }
            #expect(await spool.counts(of: self.b) == .init(waiting: 0, dropped: 0))
        }
    }

    private static func fill(_ path: String) throws {
        let file = open(path, O_CREAT | O_WRONLY, 0o600)
        try #require(file >= 0)
        for size in [65_536, 4_096, 1] {
            let zeros = [UInt8](repeating: 0, count: size)
            while write(file, zeros, size) > 0 {}
        }
        close(file)
    }

    @Test("a request that is deleted while it is being sent is dropped only if the destination does not take it")
    func underWay() async throws {
        try await self.with {
            let spool = PushSpool([self.a, self.b], path: self.path, room: 2_500) { _ in }
            for byte in UInt8(1)...2 { await spool.add([self.a.form: self.body(byte)]) }
            let (ofA, ofB) = (try #require(await spool.next(for: self.a)), try #require(await spool.next(for: self.b)))
            // Makes room: both are being sent.
            await spool.add([self.a.form: self.body(3)])
            #expect(await spool.counts(of: self.a) == .init(waiting: 2, dropped: 0))
            await spool.take(ofA, by: self.a)
            #expect(await spool.counts(of: self.a) == .init(waiting: 2, dropped: 0))
            // The other destination failed, and gets the next one.
            let second = try #require(await spool.next(for: self.b))
            #expect(ofB.body.first == 1 && second.body.first == 2)
            #expect(await spool.counts(of: self.b) == .init(waiting: 2, dropped: 1))
        }
    }

    @Test("a file that can't note what was taken gives it to nobody again")
    func takeFails() async throws {
        try await self.with {
            let spool = PushSpool([self.a, self.b], path: self.path) { _ in }
            for byte in UInt8(1)...3 { await spool.add([self.a.form: self.body(byte)]) }
            let (ofA, ofB) = (try #require(await spool.next(for: self.a)), try #require(await spool.next(for: self.b)))
            try await self.sqlite(
                "CREATE TRIGGER no BEFORE UPDATE ON cursor BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
            await spool.take(ofA, by: self.a)
            await spool.take(ofB, by: self.b)
            #expect(await spool.counts(of: self.a) == .init(waiting: 2, dropped: 0))
            #expect(await spool.next(for: self.a)?.body.first == 2)
            #expect(await spool.next(for: self.b)?.body.first == 2)
            try await self.sqlite("DROP TRIGGER no")
            await spool.add([self.a.form: self.body(4)])
            #expect(await spool.counts(of: self.a) == .init(waiting: 3, dropped: 0))
            await spool.close()
            let later = PushSpool([self.a, self.b], path: self.path) { _ in }
            #expect(await later.next(for: self.a)?.body.first == 2)
        }
    }

    private final class Notes: Sendable {
        private let texts = Mutex<[String]>([])

        var all: [String] { self.texts.withLock { $0 } }

        func add(_ text: String) { self.texts.withLock { $0.append(text) } }
    }
}
