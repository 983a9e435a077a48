import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficModel

@Suite("The journal of alerts")
struct JournalTests {
    private static func changes(_ rule: String, uid: UInt32?, _ count: Int) -> [AlertChange] {
        let process = ProcessGroup(name: "p", uid: uid)
        return Array(
            repeating: .began(Alert(rule: rule, kind: .rate, process: process, since: Simulation.began)),
            count: count
        )
    }

    private static func journal() -> AlertJournal { AlertJournal(host: "h", origin: 0xc0ffee) }

    @Test("each change has the next number, and a follower goes on after any of them")
    func numbers() {
        var journal = Self.journal()
        #expect(journal.position.description == "0000000000c0ffee-0")
        let alert = Alert(rule: "r", kind: .bytes, since: Simulation.began)
        journal.add([.began(alert), .rose(alert), .ended(alert)], at: Simulation.began)
        let all = journal.notices(after: 0)
        #expect(all.map(\.position.number) == [1, 2, 3] && all.map(\.change) == [.began, .nextStep, .ended])
        #expect(journal.notices(after: 2).map(\.position.number) == [3] && journal.notices(after: 3).isEmpty)
        #expect(all.allSatisfy { $0.droppedBefore == 0 && $0.host == "h" && $0.at == Simulation.began })
    }

    @Test("a stream begins where its follower is, now if it is nowhere, and anew after a restart")
    func beginnings() throws {
        var journal = Self.journal()
        journal.add(Self.changes("r", uid: 1, 5), at: Simulation.began)
        func beginning(_ text: String?) throws -> String {
            let position = try text.map { try #require(AlertPosition($0)) }
            return journal.beginning(after: position, at: Simulation.began).position.description
        }
        #expect(try beginning(nil) == "0000000000c0ffee-5")
        #expect(try beginning("0000000000c0ffee-3") == "0000000000c0ffee-3")
        // Nobody can be further than the last one.
        #expect(try beginning("0000000000c0ffee-18446744073709551615") == "0000000000c0ffee-5")
        #expect(try beginning("00000000deadbeef-4") == "0000000000c0ffee-0")
        for text in [
            "", "-", "1-1", "0000000000c0ffee", "0000000000c0ffee-", "0000000000c0ffee-+1", "0000000000C0FFEE-1",
        ] {
            #expect(AlertPosition(text) == nil, "\(text)")
        }
    }

    @Test("a rule keeps so many changes about each user, and what is missing is counted")
    func ofOne() {
        var journal = Self.journal()
        journal.add(Self.changes("r", uid: 1, 1), at: Simulation.began)
        journal.add(Self.changes("r", uid: 2, 1), at: Simulation.began)
        journal.add(Self.changes("r", uid: 1, AlertBacklog.mostOfOne - 1), at: Simulation.began)
        #expect(journal.notices(after: 0).count == AlertBacklog.mostOfOne + 1)
        journal.add(Self.changes("r", uid: 1, 10_000), at: Simulation.began)
        let kept = journal.notices(after: 0)
        #expect(kept.count == AlertBacklog.mostOfOne + 1)
        // The other user's is still there.
        #expect(kept.first?.alert?.process?.uid == 2)
        #expect(kept[0].droppedBefore == 1)
        let last = UInt64(AlertBacklog.mostOfOne + 1 + 10_000)
        #expect(kept.last?.position.number == last)
        #expect(kept.reduce(0) { $0 + $1.droppedBefore } + UInt64(kept.count) == last)
        // Another rule has places of its own.
        journal.add(Self.changes("other", uid: 1, 1), at: Simulation.began)
        #expect(journal.notices(after: 0).count == AlertBacklog.mostOfOne + 2)
    }

    @Test("where all places are taken, whoever has the most loses the oldest")
    func inAll() {
        var journal = Self.journal()
        journal.add(Self.changes("r", uid: 1, 3), at: Simulation.began)
        let strangers = AlertBacklog.most / AlertBacklog.mostOfOne + 5
        for uid in 0..<UInt32(strangers) {
            journal.add(Self.changes("r", uid: 1_000 + uid, 10_000 / strangers), at: Simulation.began)
        }
        let kept = journal.notices(after: 0)
        #expect(kept.count == AlertBacklog.most)
        #expect(kept.prefix(3).allSatisfy { $0.alert?.process?.uid == 1 })
        #expect(kept.map(\.position.number) == kept.map(\.position.number).sorted())
        #expect(kept.reduce(0) { $0 + $1.droppedBefore } + UInt64(kept.count) == journal.position.number)
    }

    @Test("a backlog gives out the oldest of a user first, whatever their rules")
    func takeNext() {
        var (journal, backlog) = (Self.journal(), AlertBacklog())
        for index in 0..<10 { journal.add(Self.changes("\(index % 3)", uid: 1, 1), at: Simulation.began) }
        for notice in journal.notices(after: 0) { backlog.add(notice) }
        var numbers: [UInt64] = []
        while let notice = backlog.takeNext() { numbers.append(notice.position.number) }
        #expect(numbers == Array(1...10) && backlog.count == 0)
    }

    @Test("a user waits for one change of each other user, however many these have, and however often they come anew")
    func turns() {
        var (journal, backlog) = (Self.journal(), AlertBacklog())
        func add(_ uid: UInt32, _ count: Int) {
            let last = journal.position.number
            journal.add(Self.changes("r", uid: uid, count), at: Simulation.began)
            for notice in journal.notices(after: last) { backlog.add(notice) }
        }
        func take() -> UInt32? { backlog.takeNext()?.alert?.process?.uid }
        add(1, 40)
        add(2, 3)
        add(3, 1)
        #expect(backlog.firstNumber(of: journal.position.origin) == 1)
        #expect(backlog.firstNumber(of: "elsewhere") == nil)
        #expect((0..<6).map { _ in take() } == [1, 2, 3, 1, 2, 1])
        #expect(backlog.firstNumber(of: journal.position.origin) == 4)
        // User 4 comes anew after each of its turns, and has no more turns than the others for that.
        add(2, 10)
        var order: [UInt32?] = []
        for _ in 0..<9 {
            if order.isEmpty || order.last == 4 { add(4, 1) }
            order.append(take())
        }
        let turns = [1, 2, 4].map { (uid: UInt32) in order.filter { $0 == uid }.count }
        #expect(turns == [3, 3, 3], "\(order)")
        // User 1 had the last turn, so its next change waits for that of user 2, which arrived later.
        while take() != nil {}
        add(1, 1)
        #expect(take() == 1)
        add(1, 1)
        add(2, 1)
        #expect(take() == 2 && take() == 1 && take() == nil)
    }

    @Test("each change that was dropped is said once, by the next of the same rule about the same user")
    func drops() {
        var (journal, backlog) = (Self.journal(), AlertBacklog())
        for _ in 0..<3 {
            for uid in 1...3 as ClosedRange<UInt32> {
                let last = journal.position.number
                journal.add(Self.changes("r", uid: uid, 30 * Int(uid)), at: Simulation.began)
                for notice in journal.notices(after: last) { backlog.add(notice) }
            }
        }
        backlog.carryOver(7)
        var (taken, dropped) = ([UInt32: Int](), [UInt32: UInt64]())
        while let notice = backlog.takeNext() {
            guard let uid = notice.alert?.process?.uid else { continue }
            taken[uid, default: 0] += 1
            dropped[uid, default: 0] += notice.droppedBefore
        }
        #expect(taken == [1: 50, 2: 50, 3: 50])
        // The first that is taken says what nobody else does.
        #expect(dropped == [1: 47, 2: 130, 3: 220] as [UInt32: UInt64])
    }
}
