import Testing
import TrafficAlerts
import TrafficDocuments
import TrafficLimits
import TrafficModel
import TrafficQuery

@Suite("The book of alerts")
struct BookTests {
    @Test("a rule that stays goes on with what it has seen, and alerts of others end")
    func configure() throws {
        let stays = try AlertRule(.rate(bytesPerSecond: 100, seconds: 25), named: "stays")
        let goes = try AlertRule(.rate(bytesPerSecond: 100, seconds: 5), named: "goes")
        var simulation = Simulation(stays, goes)
        simulation.run(for: 20) { _, sample in sample.move(1_000) }
        #expect(simulation.book.alerts.map(\.rule) == ["goes"])
        let changed = try AlertRule(.rate(bytesPerSecond: 200, seconds: 25), named: "goes")
        let ended = simulation.book.configure([changed, stays])
        #expect(ended.count == 1 && simulation.book.alerts.isEmpty)
        simulation.run(for: 5) { _, sample in sample.move(10_000) }
        #expect(simulation.book.alerts.map(\.rule) == ["stays"])
    }

    @Test("the groups of a user beyond the limit add up in one row, and other users keep theirs")
    func limits() throws {
        let most = try #require(AlertBook.limits.first)
        let (ofUser, all) = (Int(try #require(most.user)), Int(try #require(most.all)))
        var simulation = Simulation(try AlertRule(.rate(bytesPerSecond: 100, seconds: 5)))
        func run(_ count: Int, uid: UInt32) -> [Alert] {
            simulation.run(for: 5) { _, sample in
                for index in 0..<count { sample.move(501, by: ProcessGroup(name: "\(index)", uid: uid)) }
                sample.move(501)
            }
            return simulation.book.alerts
        }
        #expect(run(ofUser, uid: 7).count == ofUser + 1)
        let alerts = run(ofUser + 3, uid: 7)
        #expect(alerts.count == ofUser + 2)
        let other = try #require(alerts.first { $0.process == .other(of: 7) })
        #expect(other.bytes == 3 * 501)
        // Strangers use up all of it: what a user has stays, and the rest shares one row.
        simulation = Simulation(try AlertRule(.rate(bytesPerSecond: 100, seconds: 5)))
        simulation.run(for: 5) { _, sample in
            sample.move(501)
        }
        simulation.run(for: 5) { _, sample in
            sample.move(501)
            for uid in 0..<UInt32(all / ofUser + 2) {
                for index in 0..<ofUser { sample.move(501, by: ProcessGroup(name: "\(index)", uid: 100_000 + uid)) }
            }
        }
        // A user with few groups still has its own.
        simulation.run(for: 5) { _, sample in
            sample.move(501)
            for uid in 0..<UInt32(all / ofUser + 2) {
                for index in 0..<ofUser { sample.move(501, by: ProcessGroup(name: "\(index)", uid: 100_000 + uid)) }
            }
            sample.move(501, by: ProcessGroup(name: "late", uid: 9))
        }
        #expect(simulation.book.alerts.contains { $0.process == Simulation.app })
        #expect(simulation.book.alerts.contains { $0.process == ProcessGroup(name: "late", uid: 9) })
        #expect(simulation.book.alerts.contains { $0.process == .other(of: 100_000 + UInt32(all / ofUser + 1)) })
        #expect(simulation.book.alerts.count <= 2 * all)
        // Very many users: what each of them has beyond all limits adds up in one.
        simulation.run(for: 5) { _, sample in
            for uid in 0..<UInt32(3 * all) { sample.move(501, by: ProcessGroup(name: "one", uid: 200_000 + uid)) }
        }
        #expect(simulation.book.alerts.contains { $0.process == .other(of: nil) })
        #expect(simulation.book.alerts.count <= 3 * all + 1)
        // Room comes again.
        simulation.run(for: 10)
        #expect(simulation.book.alerts.isEmpty && run(ofUser, uid: 7).count == ofUser + 1)
    }

    @Test("two samples that are joined say what both say, with each endpoint once")
    func joined() {
        var first = AlertSample(takenAt: Simulation.time(5), seconds: 5)
        first.move(1)
        first.ask(2, failing: 1, route: "/a")
        var second = AlertSample(takenAt: Simulation.time(11), seconds: 6)
        second.move(2)
        second.move(7, by: ProcessGroup(name: "b"))
        second.ask(3, route: "/a")
        second.ask(4, route: "/b")
        let both = first.joined(with: second)
        #expect(both.takenAt == second.takenAt && both.seconds == 11)
        #expect(both.groups == [Simulation.app: 3, ProcessGroup(name: "b"): 7])
        let counts = both.endpoints.reduce(into: [:]) { $0[$1.key.route] = $1.value }
        #expect(both.endpoints.count == 2)
        #expect(counts["/a"]?.requests == 5 && counts["/a"]?.failures == 1 && counts["/a"]?.messageBytes == 5_000)
        #expect(counts["/b"]?.ended == 4 && counts["/b"]?.failures == 0 && counts["/b"]?.messageBytes == 4_000)
    }

    @Test("what a program names itself can't end the line of the log")
    func printable() {
        let alert = Alert(
            rule: "r",
            kind: .rate,
            process: ProcessGroup(name: "a\nerror: all is well\u{1b}[2J", uid: 1),
            since: Simulation.began
        )
        #expect(!alert.description.contains { $0.isNewline || $0 == "\u{1b}" })
    }

    @Test("in an hour the log has so many lines of each rule about each user, and says when there are no more")
    func logLimit() throws {
        func changes(_ rule: String, uid: UInt32, _ count: Int) -> [AlertChange] {
            let process = ProcessGroup(name: "p", uid: uid)
            return (0..<count).map {
                .began(Alert(rule: rule, kind: .rate, process: process, since: Simulation.time(Double($0)), bytes: 1))
            }
        }
        var log = AlertLog()
        let (many, few) = (changes("rule", uid: 1, AlertLog.most + 2), changes("rule", uid: 2, AlertLog.most))
        let said = log.lines(many + few, seconds: 5)
        #expect(said.count == 2 * AlertLog.most + 1)
        #expect(said[AlertLog.most] == .silence(rule: "rule", user: PayingUser(1)))
        #expect(said.suffix(AlertLog.most) == few.map { .change($0) }[...])
        #expect(log.lines(changes("rule", uid: 1, 1), seconds: 3_000).isEmpty)
        #expect(log.lines(changes("other", uid: 1, 1), seconds: 5).count == 1)
        let ofBlock = (0..<UInt32(AlertLog.most) + 9).flatMap { changes("rule", uid: 131_072 + $0, 1) }
        #expect(log.lines(ofBlock, seconds: 5).count == AlertLog.most + 1)
        #expect(log.lines(changes("rule", uid: 1, 1), seconds: 600).count == 1)
    }
}
