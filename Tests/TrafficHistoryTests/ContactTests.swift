import SQLiteDatabase
import TestSupport
import Testing
import TrafficDocuments
import TrafficLimits
import TrafficModel

@testable import TrafficHistory

@Suite("Contacts that history knows")
struct ContactTests {
    private static let day: Int64 = 86_400
    private static var now: Int64 { HistoryStoreTests.now }
    private static let web = HistoryStoreTests.web
    private static let shop = HistoryStoreTests.shop

    private static func store(_ folder: Folder) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
    }

    private static func contact(_ destination: String, _ group: ProcessGroup = Self.web) -> Contact {
        Contact(process: group, destination: destination)
    }

    private static func new(_ since: Int64) -> ContactAnswer { .new(groupSince: Timestamp(seconds: since)) }

    @Test("a contact is new once, with the time of its group's first one, also for the next daemon")
    func learn() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        let (a, b) = (Self.contact("192.0.2.0/24"), Self.contact("api.example"))
        #expect(try store?.learn([a, a], at: Self.now) == [Self.new(Self.now), .known])
        #expect(try store?.learn([b, a], at: Self.now + 50) == [Self.new(Self.now), .known])
        let other = Self.contact("192.0.2.0/24", Self.shop)
        #expect(try store?.learn([other], at: Self.now + 70) == [Self.new(Self.now + 70)])
        store = nil
        store = try Self.store(folder)
        let later = Self.now + Self.day
        #expect(
            try store?.learn([a, b, other, Self.contact("x")], at: later) == [
                .known, .known, .known, Self.new(Self.now),
            ]
        )
        // Python's own SQLite reads the same. The day is that on which it was seen last.
        let sql = """
            SELECT name, destination, day - \(Self.now / Self.day), since - \(Self.now) FROM contact
            JOIN series ON id = contact.series JOIN contact_group ON contact_group.series = id ORDER BY name, destination
            """
        #expect(
            try await sums(folder, sql)
                == "nginx 192.0.2.0/24 1 0\nnginx api.example 1 0\nnginx x 1 0\npython3 192.0.2.0/24 1 70\n"
        )
    }

    @Test("a clock that was wrong by years keeps no group silent, and no day goes back")
    func clock() async throws {
        let folder = try Folder()
        let store = try Self.store(folder)
        let (a, year) = (Self.contact("a"), 365 * Self.day)
        #expect(try store.learn([a], at: Self.now + year) == [Self.new(Self.now + year)])
        #expect(try store.learn([a, Self.contact("b")], at: Self.now) == [.known, Self.new(Self.now)])
        #expect(
            try await sums(folder, "SELECT day - \(Self.now / Self.day) FROM contact ORDER BY destination")
                == "365\n0\n"
        )
    }

    @Test("what was not seen for 62 days is forgotten, and a group whose contacts all are is learned anew")
    func forget() async throws {
        let folder = try Folder()
        let store = try Self.store(folder)
        let (a, b) = (Self.contact("a"), Self.contact("b"))
        _ = try store.learn([a, b, Self.contact("c", Self.shop)], at: Self.now)
        // History forgets by the time that was counted, so its clock does not jump.
        func pass(to day: Int64) throws {
            try store.add(.made(at: Self.now + day * Self.day, seconds: UInt64(62 * Self.day), [Self.web: .sent(1)]))
        }
        try pass(to: 0)
        try pass(to: 62)
        #expect(try store.learn([b], at: Self.now + 62 * Self.day) == [.known])
        try pass(to: 63)
        #expect(try await sums(folder, "SELECT destination FROM contact") == "b\n")
        #expect(try await sums(folder, "SELECT count(*) FROM contact_group") == "1\n")
        // The series of the one whose contacts are gone is tidied up, and that of the other stays.
        #expect(try await sums(folder, "SELECT name FROM series WHERE kind = 3") == "nginx\n")
        let now = Self.now + 63 * Self.day
        #expect(try store.learn([a, Self.contact("c", Self.shop)], at: now) == [Self.new(Self.now), Self.new(now)])
    }

    @Test("a series with nothing but contacts stays")
    func tidy() async throws {
        let folder = try Folder()
        let store = try Self.store(folder)
        _ = try store.learn([Self.contact("a", Self.shop)], at: Self.now)
        try store.add(.made(at: Self.now, [Self.web: .sent(1)]))
        try store.add(.made(at: Self.now + Self.day, seconds: 86_400, [Self.web: .sent(1)]))
        #expect(try store.learn([Self.contact("a", Self.shop)], at: Self.now + Self.day) == [.known])
    }

    @Test("a user has a limited number, others have theirs, and room comes again")
    func limits() async throws {
        let folder = try Folder()
        var store: HistoryStore? = try Self.store(folder)
        let most = Contact.learned.ofUser
        let many = (0..<most + 2).map { Self.contact("d\($0)") }
        let answers = try #require(try store?.learn(many, at: Self.now))
        #expect(answers == many.indices.map { $0 < most ? Self.new(Self.now) : .noRoom })
        #expect(try store?.learn([many[0], many[most]], at: Self.now) == [.known, .noRoom])
        // The next daemon counts those that the file has.
        store = nil
        store = try Self.store(folder)
        #expect(try store?.learn([many[most], many[most - 1]], at: Self.now) == [.noRoom, .known])
        let stranger = ProcessGroup(name: "stranger", uid: 44)
        #expect(try store?.learn([Self.contact("d", stranger)], at: Self.now) == [Self.new(Self.now)])
        // A group of a user at the limit gets no row without a contact.
        let late = ProcessGroup(name: "late", uid: Self.web.uid)
        #expect(try store?.learn([Self.contact("d", late)], at: Self.now) == [.noRoom])
        #expect(try await sums(folder, "SELECT count(*) FROM series WHERE name = 'late'") == "0\n")
        let seen = Self.now + 63 * Self.day
        _ = try store?.learn([many[0]], at: seen)
        try store?.add(.made(at: Self.now, [Self.web: .sent(1)]))
        try store?.add(.made(at: seen, seconds: UInt64(63 * Self.day), [Self.web: .sent(1)]))
        #expect(try store?.learn([many[most], many[0]], at: seen) == [Self.new(Self.now), .known])
    }

    @Test("what ends in learning knows nothing of it")
    func transaction() async throws {
        let folder = try Folder()
        let store = try Self.store(folder)
        _ = try store.learn([Self.contact("a")], at: Self.now)
        let full =
            "CREATE TRIGGER full BEFORE INSERT ON contact WHEN new.destination = 'c' BEGIN SELECT RAISE(ABORT, 'full'); END"
        _ = try await sums(folder, full)
        #expect(throws: SQLiteError.self) { try store.learn([Self.contact("b"), Self.contact("c")], at: Self.now) }
        #expect(try await sums(folder, "SELECT destination FROM contact") == "a\n")
        _ = try await sums(folder, "DROP TRIGGER full")
        let most = Contact.learned.ofUser
        let rest = (0..<most - 1).map { Self.contact("d\($0)") }
        // What was not written takes no place.
        #expect(try store.learn(rest, at: Self.now).allSatisfy { $0 == Self.new(Self.now) })
    }
}
