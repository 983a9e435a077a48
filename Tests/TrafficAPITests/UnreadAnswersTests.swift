import NIOCore
import Synchronization
import TestSupport
import Testing

@testable import TrafficAPI

@Suite("Answers that clients have not read")
struct UnreadAnswersTests {
    private static let mine = Payer(uid: 1)
    private static let yours = Payer(uid: 2)

    private static func answer(
        _ answers: UnreadAnswers,
        for payer: Payer,
        bytes: Int
    ) async -> UnreadAnswers.Answer {
        await answers.answer(for: payer, [UInt8](repeating: 7, count: bytes))
    }

    /// Shared by all who ask for what was taken then.
    private static func answer(
        _ answers: UnreadAnswers,
        for payer: Payer,
        takenAt: UInt64,
        bytes: Int
    ) async throws -> UnreadAnswers.Answer {
        try await answers.answer(
            for: payer,
            isWanted: { true },
            read: { takenAt },
            awaited: AwaitedReading(),
            content: Self.content
        ) { _ in [UInt8](repeating: 7, count: bytes) }
    }

    private static func content(_ takenAt: UInt64) -> UnreadAnswers.Content {
        .init(takenAt: takenAt, target: "/metrics", mediaType: "text/plain", viewer: .network)
    }

    private static func isHeld(_ answer: UnreadAnswers.Answer) -> Bool { answer.piece(at: 0, atMost: 1) != nil }

    @Test("all who ask for the same at the same moment have the same bytes, which go when nobody holds them")
    func shared() async throws {
        let answers = UnreadAnswers()
        do {
            let first = try await Self.answer(answers, for: Self.mine, takenAt: 1, bytes: 100)
            let same = try await Self.answer(answers, for: Self.yours, takenAt: 1, bytes: 5)
            let later = try await Self.answer(answers, for: Self.yours, takenAt: 2, bytes: 5)
            let unshared = await Self.answer(answers, for: Self.yours, bytes: 5)
            #expect(first.hasBytes(of: same) && !first.hasBytes(of: later) && !later.hasBytes(of: unshared))
            #expect(same.length == 100 && answers.bytes == 110)
            #expect(same.piece(at: 90, atMost: 64)?.readableBytes == 10)
            withExtendedLifetime((first, same, later, unshared)) {}
        }
        #expect(answers.bytes == 0)
        // The next one is made anew.
        #expect(try await Self.answer(answers, for: Self.mine, takenAt: 1, bytes: 9).length == 9)
    }

    @Test("a payer that holds too much loses its own oldest answers; the newest one may be of any size")
    func ofPayer() async {
        let answers = UnreadAnswers(limits: .init(ofPayer: 100, inAll: 1_000))
        let others = await Self.answer(answers, for: Self.yours, bytes: 100)
        var held: [UnreadAnswers.Answer] = []
        for _ in 0..<10 { held.append(await Self.answer(answers, for: Self.mine, bytes: 10)) }
        #expect(held.allSatisfy(Self.isHeld))
        held.append(await Self.answer(answers, for: Self.mine, bytes: 1))
        #expect(held.map(Self.isHeld) == [false] + Array(repeating: true, count: 10))
        held.append(await Self.answer(answers, for: Self.mine, bytes: 500))
        #expect(held.map(Self.isHeld) == Array(repeating: false, count: 11) + [true])
        #expect(answers.bytes == 600 && Self.isHeld(others))
    }

    @Test("beyond the room of all, whoever holds most loses the oldest answer, and administrators lose none")
    func inAll() async {
        let answers = UnreadAnswers(limits: .init(ofPayer: 100, inAll: 250))
        let root = await Self.answer(answers, for: .administrators, bytes: 10_000)
        let small = await Self.answer(answers, for: Self.mine, bytes: 20)
        var floods: [[UnreadAnswers.Answer]] = []
        for user in 10..<19 as Range<UInt32> {
            var flood: [UnreadAnswers.Answer] = []
            for _ in 0..<4 { flood.append(await Self.answer(answers, for: Payer(uid: user), bytes: 25)) }
            floods.append(flood)
        }
        #expect(Self.isHeld(small) && Self.isHeld(root))
        let kept = floods.joined().filter(Self.isHeld).count
        // One more would be too much.
        #expect(kept * 25 + 20 <= 250 && (kept + 1) * 25 + 20 > 250)
        #expect(Self.isHeld(floods[8][3]), "the newest")
    }

    @Test("payers that share an answer share its size, and it goes when the last of them has lost it")
    func sharedLoss() async throws {
        let answers = UnreadAnswers(limits: .init(ofPayer: 100, inAll: 1_000))
        let mine = try await Self.answer(answers, for: Self.mine, takenAt: 1, bytes: 80)
        let yours = try await Self.answer(answers, for: Self.yours, takenAt: 1, bytes: 80)
        // 40 and 60.
        let next = await Self.answer(answers, for: Self.mine, bytes: 60)
        #expect(Self.isHeld(mine) && Self.isHeld(next))
        let last = await Self.answer(answers, for: Self.mine, bytes: 1)
        #expect(!Self.isHeld(mine) && Self.isHeld(next) && Self.isHeld(last))
        #expect(Self.isHeld(yours) && answers.bytes == 141)
        // All of it is theirs now.
        let own = await Self.answer(answers, for: Self.yours, bytes: 30)
        #expect(!Self.isHeld(yours) && Self.isHeld(own) && answers.bytes == 91)
    }

    @Test("who asks for an older answer that is there keeps it, and loses what it has held for longer")
    func again() async throws {
        let answers = UnreadAnswers(limits: .init(ofPayer: 100, inAll: 1_000))
        let others = try await Self.answer(answers, for: Self.yours, takenAt: 1, bytes: 80)
        let newer = await Self.answer(answers, for: Self.mine, bytes: 90)
        let older = try await Self.answer(answers, for: Self.mine, takenAt: 1, bytes: 80)
        #expect(!Self.isHeld(newer) && Self.isHeld(older) && Self.isHeld(others))
    }

    @Test("if each payer has one answer and they are too much, the one goes that was held for longest")
    func oneOfEach() async {
        let answers = UnreadAnswers(limits: .init(ofPayer: 100, inAll: 250))
        var floods: [UnreadAnswers.Answer] = []
        for user in 10..<14 as Range<UInt32> {
            floods.append(await Self.answer(answers, for: Payer(uid: user), bytes: 60))
        }
        #expect(floods.allSatisfy(Self.isHeld))
        let large = await Self.answer(answers, for: Self.mine, bytes: 150)
        #expect(Self.isHeld(large) && floods.map(Self.isHeld) == [false, false, false, true])
    }

    private final class Order: Sendable {
        let names = Mutex<[String]>([])

        func note(_ name: String) { self.names.withLock { $0.append(name) } }
    }

    @Test("payers take turns; the one with the most waiting gives way")
    func turns() async throws {
        let order = Order()
        let turns = Turns(atOnce: 1, mostOfPayer: 4, mostInAll: 6)
        try await turns.take(for: Self.mine)
        #expect(!turns.takeAtOnce(for: Self.yours))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            let names: [(String, Payer, Int)] = [
                ("mine0", Self.mine, 1), ("mine1", Self.mine, 2), ("mine2", Self.mine, 3), ("mine3", Self.mine, 4),
                // A fifth of one payer.
                ("mine4", Self.mine, 4), ("yours0", Self.yours, 5), ("yours1", Self.yours, 6),
                // In place of mine3.
                ("theirs0", Payer(uid: 3), 6),
            ]
            for (name, payer, waiting) in names {
                let before = order.names.withLock { $0.count }
                tasks.addTask {
                    do throws(Problem) {
                        try await turns.take(for: payer)
                        order.note(name)
                        turns.give(payer)
                    } catch {
                        order.note("no \(name)")
                    }
                }
                // Until this one waits, or one has given way.
                let ends = name == "theirs0" || name == "mine4"
                let isIn = { turns.waiting == waiting && (!ends || order.names.withLock { $0.count } > before) }
                #expect(try await eventually { isIn() })
            }
            await #expect(throws: Problem.self, "nobody has more than one more") {
                try await turns.take(for: Self.yours)
            }
            turns.give(Self.mine)
            try await tasks.waitForAll()
        }
        #expect(
            order.names.withLock { $0 } == [
                "no mine4", "no mine3", "mine0", "yours0", "theirs0", "mine1", "yours1", "mine2",
            ]
        )
        #expect(turns.waiting == 0 && turns.takeAtOnce(for: Self.mine))
    }

    @Test("a payer has one turn at a time, whatever else is free")
    func oneTurn() async throws {
        let order = Order()
        let turns = Turns(atOnce: 2, mostOfPayer: 4, mostInAll: 6)
        #expect(turns.takeAtOnce(for: Self.mine) && !turns.takeAtOnce(for: Self.mine))
        let second = Task {
            try await turns.take(for: Self.mine)
            order.note("mine")
        }
        #expect(try await eventually { turns.waiting == 1 })
        try await turns.take(for: Self.yours)
        turns.give(Self.yours)
        #expect(turns.waiting == 1 && order.names.withLock { $0.isEmpty })
        turns.give(Self.mine)
        try await second.value
        #expect(!turns.takeAtOnce(for: Self.mine) && turns.takeAtOnce(for: Self.yours))
    }

    /// A reading that tells whether it is in memory.
    private final class Watched: Sendable {
        static let alive = Mutex<Set<UInt64>>([])

        let takenAt: UInt64

        init(_ takenAt: UInt64) {
            self.takenAt = takenAt
            Self.alive.withLock { _ = $0.insert(takenAt) }
        }

        deinit { Self.alive.withLock { [takenAt] in _ = $0.remove(takenAt) } }
    }

    @Test("whoever waits for a turn is answered about the newest reading of those who wait, and no other is kept")
    func newest() async throws {
        let answers = UnreadAnswers(limits: .init(atOnce: 1))
        let awaited = AwaitedReading<Watched>()
        func ask(_ payer: Payer, _ reading: @escaping @autoclosure () -> Watched) async throws -> UInt64? {
            try await answers.answer(
                for: payer,
                isWanted: { true },
                read: reading,
                awaited: awaited,
                content: { Self.content($0.takenAt) }
            ) { reading in [UInt8(reading.takenAt)] }.takenAt
        }
        #expect(answers.turns.takeAtOnce(for: Payer(uid: 9)))
        async let older = ask(Self.mine, Watched(2))
        #expect(try await eventually { answers.turns.waiting == 1 })
        #expect(Watched.alive.withLock { $0 } == [2])
        async let newer = ask(Self.yours, Watched(3))
        #expect(try await eventually { answers.turns.waiting == 2 })
        #expect(Watched.alive.withLock { $0 } == [3])
        answers.turns.give(Payer(uid: 9))
        #expect(try await [older, newer] == [3, 3])
        #expect(Watched.alive.withLock { $0.isEmpty })
    }

    @Test("a reading that fails, or that nobody wants any more, gives the turn back")
    func gone() async throws {
        let answers = UnreadAnswers(limits: .init(atOnce: 1))
        for isWanted in [true, false] {
            await #expect(throws: (any Error).self) {
                _ = try await answers.answer(
                    for: Self.mine,
                    isWanted: { isWanted },
                    read: { () throws -> UInt64 in if isWanted { throw Problem.sweepTooSlow } else { return 1 } },
                    awaited: AwaitedReading(),
                    content: Self.content
                ) { _ in [1] }
            }
        }
        #expect(try await Self.answer(answers, for: Self.yours, takenAt: 1, bytes: 1).length == 1)
    }
}

@Suite("Streams of strangers")
struct StreamSlotTests {
    @Test("the oldest stream of the payer with the most ends for another payer; administrators' do not count")
    func slots() throws {
        let ended = Mutex<[Int]>([])
        let slots = StreamSlots(limit: 3)
        func take(_ payer: Payer, _ number: Int) throws -> StreamSlots.Slot {
            try slots.take(for: payer) { ended.withLock { $0.append(number) } }
        }
        var held = try (0..<3).map { try take(Payer(uid: 1), $0) }
        held += try (3..<8).map { try take(.administrators, $0) }
        #expect(throws: Problem.self) { try take(Payer(uid: 1), 8) }
        held.append(try take(Payer(uid: 2), 9))
        #expect(ended.withLock { $0 } == [0])
        #expect(throws: Problem.self, "nobody has more than one more") { try take(Payer(uid: 2), 10) }
        held.remove(at: 1)
        held.append(try take(Payer(uid: 2), 11))
        #expect(throws: Problem.self) { try take(Payer(uid: 2), 12) }
        #expect(ended.withLock { $0 } == [0])
    }
}
