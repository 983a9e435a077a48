import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Process groups")
struct GroupTests {
    private typealias F = LedgerFixture

    private let one = F.process(1)
    private let two = F.process(2)

    private static func details(_ name: String, uid: UInt32 = 7) -> ProcessDetails {
        ProcessDetails(name: name, executable: "/bin/\(name)", uid: uid)
    }

    private static func group(_ name: String, uid: UInt32 = 7) -> ProcessGroup { ProcessGroup(details(name, uid: uid)) }

    private static func owner(_ process: ProcessIdentity, sent: UInt64, uid: UInt32 = 7) -> OwnerObservation {
        OwnerObservation(identity: process, name: "comm", uid: uid, payload: PayloadBytes(sent: sent))
    }

    /// What each life has sent, by its group's name.
    private static func sent(_ f: F) -> [String: UInt64] {
        Dictionary(f.balance.groups.lives.map { ($0.group.name, $0.bytes.payload.sent) }, uniquingKeysWith: +)
    }

    /// A process that is known, sends and ends. Its row goes to the ended ones at the next tick.
    private static func run(_ pid: Int32, _ name: String, sent: UInt64, uid: UInt32 = 7, in f: inout F) {
        let process = F.process(pid)
        f.absorb(
            F.socket(UInt64(pid), [Self.owner(process, sent: sent, uid: uid)], closed: f.now),
            .details(process, Self.details(name, uid: uid)),
            .exited(process, at: f.snapshot.takenAt)
        )
        f.tick()
    }

    @Test("what a process moved and explained stays with its group when it leaves")
    func leave() {
        var groups = GroupAccounts(LedgerConfiguration())
        let group = groups.join(Self.group("app"))
        groups.leave(group, ByteCounts(payload: PayloadBytes(sent: 9)), explained: 7)
        let life = groups.totals(with: [], unowned: ByteCounts()).lives.first
        #expect(life?.group == Self.group("app") && life?.bytes.payload.sent == 9 && life?.explained == 7)
    }

    @Test("processes without details join groups in the order of their starts, whatever the order of their sockets")
    func joiningOrder() throws {
        var names: Set<[String]> = []
        for seed in UInt64(0)..<8 {
            var f = F()
            f.ledger = Ledger(retention: .init(groupLimit: .init(3, inAll: 9)))
            f.tick()
            var random = Seeded(seed)
            for pid in (Int32(1)...20).shuffled(using: &random) {
                let process = ProcessIdentity(pid: pid, startBoottimeNanoseconds: 100 - UInt64(pid))
                let owner = OwnerObservation(identity: process, name: "app\(pid)", uid: 7)
                f.absorb(F.socket(UInt64(pid), [owner]))
            }
            for _ in 1...30 { f.tick() }
            names.insert(f.balance.groups.lives.map(\.group.name))
        }
        #expect(names == [["app20", "app19", "app18", "_other"]])
    }

    @Test("a user's name may come late, change and go, for listed processes and for the next one")
    func userNames() {
        var f = F()
        func users() -> [String?] { [1, 2, 3].map { f.process($0)?.details.user } }
        f.absorb(F.socket(9, [Self.owner(one, sent: 1)]), .details(one, Self.details("app")))
        f.absorb(F.socket(8, [Self.owner(two, sent: 1, uid: 8)]), .details(two, Self.details("app", uid: 8)))
        f.absorb(.usersNamed([7: "web", 9: "other"]))
        f.tick()
        #expect(users() == ["web", nil, nil])
        // These details were made before the user had a name.
        f.absorb(F.socket(7, [Self.owner(F.process(3), sent: 1)]), .details(F.process(3), Self.details("app")))
        f.tick()
        #expect(users() == ["web", nil, "web"])
        f.absorb(.usersNamed([7: "www"]))
        f.tick()
        #expect(users() == ["www", nil, "www"])
        f.absorb(.usersNamed([7: nil, 8: "db"]))
        f.tick()
        #expect(users() == [nil, "db", nil])
    }

    @Test("the row of ended processes has the name of their user")
    func userOfEnded() {
        var f = F()
        f.ledger = Ledger(retention: .init(exitedProcesses: .zero))
        f.tick()
        for (pid, uid) in [(1, 7), (2, 8)] as [(Int32, UInt32)] {
            Self.run(pid, "app", sent: 1, uid: uid, in: &f)
        }
        f.absorb(.usersNamed([7: "web"]))
        f.tick()
        let exited = f.snapshot.exited ?? []
        #expect(exited.map(\.group.uid) == [7, 8] && exited.map(\.user) == ["web", nil])
    }

    @Test("the bytes of a process wait until the process is known, and then are its group's")
    func waiting() {
        var f = F()
        f.absorb(F.socket(9, [Self.owner(one, sent: 10)]))
        f.tick()
        #expect(f.balance.groups.lives == [])
        #expect(f.balance.groups.unknown.payload.sent == 10)
        f.absorb(.details(one, Self.details("app")))
        let groups = f.balance.groups
        #expect(groups.lives.map(\.group) == [Self.group("app")])
        #expect(groups.lives.map(\.bytes.payload.sent) == [10] && groups.unknown == ByteCounts())
        #expect(groups.lives.map(\.processes) == [1])
    }

    @Test("a process that the daemon can't look up has the group of its name after some time")
    func neverKnown() {
        var f = F()
        f.absorb(F.socket(9, [Self.owner(one, sent: 10)]))
        f.tick()
        f.tick(after: 24)
        #expect(Self.sent(f) == [:])
        f.tick()
        #expect(Self.sent(f) == ["comm": 10])
        f.absorb(.details(one, Self.details("app")), F.socket(9, [Self.owner(one, sent: 15)]))
        #expect(Self.sent(f) == ["comm": 10, "app": 5])
    }

    @Test("details that come after the end still decide the group of all bytes")
    func lateDetails() {
        var f = F()
        f.absorb(F.socket(9, [Self.owner(one, sent: 10)], closed: f.now), .exited(one, at: f.snapshot.takenAt))
        f.tick()
        f.absorb(
            .details(one, Self.details("app")),
            .executed(one, Execution(name: "late", uid: 0, boottimeNanoseconds: .max))
        )
        #expect(Self.sent(f) == ["app": 10])
    }

    @Test("what a process moved before it ran another program stays with the group of the first program")
    func executed() {
        var f = F()
        f.absorb(F.socket(9, [Self.owner(one, sent: 10)]), .details(one, Self.details("sh")))
        f.absorb(
            .executed(one, Execution(name: "curl", uid: 0, boottimeNanoseconds: .max)),
            F.socket(9, [Self.owner(one, sent: 14)])
        )
        #expect(Self.sent(f) == ["sh": 10] && f.balance.groups.unknown.payload.sent == 4)
        f.absorb(.details(one, Self.details("curl")), F.socket(9, [Self.owner(one, sent: 20)]))
        #expect(Self.sent(f) == ["sh": 10, "curl": 10])
    }

    @Test("a group's sum stays when its processes leave the list, and their rows are of their last program")
    func folded() throws {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0)))
        f.absorb(F.socket(9, [Self.owner(one, sent: 10)]), .details(one, Self.details("sh")))
        f.absorb(
            .executed(one, Execution(name: "curl", uid: 0, boottimeNanoseconds: .max)),
            .details(one, Self.details("curl"))
        )
        f.absorb(F.socket(9, [Self.owner(one, sent: 14)], closed: f.now), .exited(one, at: f.snapshot.takenAt))
        #expect(Self.sent(f) == ["sh": 10, "curl": 4])
        f.tick()
        f.tick()
        #expect(f.snapshot.processes == [])
        #expect(Self.sent(f) == ["sh": 10, "curl": 4])
        let row = try #require(f.snapshot.exited?.first)
        #expect(row.group == Self.group("curl") && row.bytes.payload.sent == 14 && row.processes == 1)
        #expect(f.snapshot.exited?.count == 1)
    }

    @Test("processes of one program in two containers or units are two groups")
    func places() {
        var f = F()
        let places: [(container: String?, unit: String?)] = [("a", nil), (nil, "a.service"), (nil, nil)]
        for (index, place) in places.enumerated() {
            let process = F.process(Int32(index + 1))
            var details = Self.details("app")
            (details.containerID, details.systemdUnit) = (place.container, place.unit)
            f.absorb(F.socket(UInt64(index + 1), [Self.owner(process, sent: 1)]), .details(process, details))
        }
        #expect(f.balance.groups.lives.map(\.bytes.payload.sent) == [1, 1, 1])
    }

    // MARK: Limits

    @Test("if a user has too many groups, the lives end of those longest without a process, and may begin again at 0")
    func lives() throws {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(2, inAll: 10)))
        for (pid, name) in [(1, "a"), (2, "b")] as [(Int32, String)] { Self.run(pid, name, sent: 10, in: &f) }
        f.tick()
        let before = f.balance
        Self.run(3, "c", sent: 5, in: &f)
        f.tick()
        #expect(Self.sent(f) == ["b": 10, "c": 5, "_other": 0])
        #expect(f.balance.groups.endedLives.mapValues(\.payload.sent) == [Self.group("a").uid: 10])
        // What an ended life had moved is in no group's growth.
        var growth = try #require(f.balance.growth(since: before))
        #expect(growth.byGroup.mapValues(\.payload.sent) == [Self.group("c"): 5])
        let rows = (f.snapshot.exited ?? []).map { ($0.group.name, $0.bytes.payload.sent) }
        #expect(Dictionary(uniqueKeysWithValues: rows) == ["_other": 10, "b": 10, "c": 5])
        Self.run(4, "a", sent: 3, in: &f)
        f.tick()
        #expect(Self.sent(f)["a"] == 3)
        growth = try #require(f.balance.growth(since: before))
        #expect(growth.byGroup.mapValues(\.payload.sent) == [Self.group("c"): 5, Self.group("a"): 3])
    }

    @Test("what a group moved in the interval in which its life ended is its user's")
    func lastBytes() throws {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(1, inAll: 2)))
        f.tick()
        let before = f.balance
        for (pid, uid) in [(1, 7), (2, 7), (3, 8), (4, 8)] as [(Int32, UInt32)] {
            Self.run(pid, "p\(pid)", sent: UInt64(pid), uid: uid, in: &f)
            f.tick()
        }
        let growth = try #require(f.balance.growth(since: before))
        let sent = growth.byGroup.mapValues(\.payload.sent)
        #expect(sent[.other(of: 7)] == 1 && sent[.other(of: 8)] == 3 && sent.values.reduce(0, +) == 10)
        #expect(sent.filter { $0.key.uid == 7 }.values.reduce(0, +) == 3)
        #expect(sent.filter { $0.key.uid == 8 }.values.reduce(0, +) == 7)
    }

    @Test("a group with a listed process keeps its life, and further groups of the user add up in `_other`")
    func full() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(2, inAll: 10)))
        for (pid, name) in [(1, "a"), (2, "b"), (3, "c")] as [(Int32, String)] {
            let process = F.process(pid)
            f.absorb(F.socket(UInt64(pid), [Self.owner(process, sent: 1)]), .details(process, Self.details(name)))
        }
        #expect(Self.sent(f) == ["a": 1, "b": 1, "_other": 1])
        // A place that is free later changes nothing for a process that has its group.
        f.absorb(.exited(one, at: f.snapshot.takenAt))
        f.tick()
        f.tick()
        f.absorb(F.socket(3, [Self.owner(F.process(3), sent: 5)]))
        #expect(Self.sent(f) == ["a": 1, "b": 1, "_other": 5])
        Self.run(4, "d", sent: 2, in: &f)
        #expect(Self.sent(f) == ["d": 2, "b": 1, "_other": 5])
    }

    @Test("the groups end in the order in which their last processes left, also those that had come back")
    func order() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(3, inAll: 10)))
        for (pid, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "a")] as [(Int32, String)] {
            Self.run(pid, name, sent: 1, in: &f)
            f.tick()
        }
        Self.run(5, "d", sent: 1, in: &f)
        f.tick()
        #expect(Set(Self.sent(f).keys) == ["a", "c", "d", "_other"])
        #expect(f.balance.groups.endedLives.values.map(\.payload.sent) == [1])
        // Processes that come and go in the same groups do not use up memory or order.
        for pid in 6...500 as ClosedRange<Int32> { Self.run(pid, ["c", "d"][Int(pid) % 2], sent: 1, in: &f) }
        f.tick()
        Self.run(501, "e", sent: 1, in: &f)
        f.tick()
        #expect(Set(Self.sent(f).keys) == ["c", "d", "e", "_other"])
    }

    @Test("users who fill all groups with processes end no group of another user")
    func collusion() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(4, inAll: 7)))
        Self.run(1, "nginx", sent: 100, uid: 33, in: &f)
        Self.run(2, "sshd", sent: 100, uid: 33, in: &f)
        f.tick()
        for pid in 10..<30 as Range<Int32> {
            let uid: UInt32 = pid % 2 == 0 ? 8 : 9
            f.absorb(
                F.socket(UInt64(pid), [Self.owner(F.process(pid), sent: 1, uid: uid)]),
                .details(F.process(pid), Self.details("n\(pid)", uid: uid))
            )
        }
        Self.run(40, "third", sent: 1, uid: 10, in: &f)
        f.tick()
        #expect(Self.sent(f)["nginx"] == 100 && Self.sent(f)["sshd"] == 100)
        #expect(f.balance.groups.endedLives.isEmpty)
        #expect(f.balance.groups.lives.first { $0.group == .other(of: 10) }?.bytes.payload.sent == 1)
    }

    @Test("a user who makes up programs costs only groups of that user")
    func strangers() {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(5, inAll: 7)))
        Self.run(1, "nginx", sent: 100, uid: 33, in: &f)
        for pid in 2...60 as ClosedRange<Int32> { Self.run(pid, "n\(pid)", sent: 1, uid: 65534, in: &f) }
        f.tick()
        #expect(Self.sent(f)["nginx"] == 100)
        // All users together are at the limit: the user with the most groups gives up the oldest.
        for pid in 61...63 as ClosedRange<Int32> { Self.run(pid, "m\(pid)", sent: 1, uid: 9, in: &f) }
        f.tick()
        #expect(Self.sent(f)["nginx"] == 100 && Self.sent(f)["m61"] == 1 && Self.sent(f)["m63"] == 1)
        #expect(f.balance.groups.lives.filter { $0.group.name != "_other" }.count == 7)
    }

    @Test(
        "no life ever falls, and lives, ended lives and unknown processes add up, whatever happens",
        arguments: 0..<20 as Range<UInt64>
    )
    func conservation(seed: UInt64) throws {
        var random = Seeded(seed)
        var f = F(
            retention: Ledger.Retention(
                exitedProcesses: .seconds(2),
                exitedProcessLimit: .init(4, inAll: 6),
                groupLimit: .init(3, inAll: 5)
            )
        )
        var (sent, gone) = ([Int32: UInt64](), Set<Int32>())
        var (generation, known) = (UInt64(0), Set<Int32>())
        var before = f.balance
        for step in 0..<1_500 {
            let pid = Int32.random(in: 1...40, using: &random) + Int32(step / 10)
            let (process, uid) = (F.process(pid), UInt32(pid % 4))
            switch Int.random(in: 0..<14, using: &random) {
            case 0..<6:
                sent[pid, default: 0] += UInt64.random(in: 0...1_000, using: &random)
                let wire = SocketWire(sent: WireBytes(headers: sent[pid]!), received: WireBytes(), quality: .exact)
                var owner = Self.owner(process, sent: sent[pid]!, uid: uid)
                owner.payload.received = sent[pid]! / 3
                // Its packets, and some bytes, may come before its process.
                let owners = Bool.random(using: &random) || known.contains(pid) ? [owner] : []
                if !owners.isEmpty { known.insert(pid) }
                let unowned = PayloadBytes(sent: UInt64(pid))
                f.absorb(
                    F.socket(UInt64(pid), owners, retransmitted: sent[pid]! / 9, wire: wire, unowned: unowned)
                )
            case 6, 7:
                f.absorb(.details(process, Self.details("p\(Int.random(in: 0..<9, using: &random))", uid: uid)))
            case 8:
                f.absorb(
                    .executed(
                        process,
                        Execution(name: "q\(Int.random(in: 0..<9, using: &random))", uid: 0, boottimeNanoseconds: .max)
                    )
                )
            case 12, 13:
                generation += 1
                let row = FoldedRows.Row(owner: Self.owner(process, sent: 7, uid: uid), sockets: 1)
                f.absorb(.rows(FoldedRows(generation: generation, processes: [row], users: [row], common: row)))
            case 9:
                guard gone.insert(pid).inserted else { continue }
                f.absorb(.exited(process, at: f.snapshot.takenAt))
            default:
                f.tick()
                let now = f.balance
                try Self.check(now, since: before)
                before = now
            }
        }
    }

    private static func check(_ now: Balance, since before: Balance) throws {
        let groups = now.groups
        let all = groups.lives.reduce(
            groups.unknown + groups.unowned + groups.endedLives.values.reduce(ByteCounts(), +)
        ) {
            $0 + $1.bytes
        }
        #expect(all.payload == now.bytes.payload)
        #expect(all.wireSent ?? 0 == now.bytes.wireSent ?? 0)
        #expect(all.retransmitted ?? 0 == now.bytes.retransmitted ?? 0)
        let lives = Dictionary(uniqueKeysWithValues: groups.lives.map { ($0.number, $0) })
        for old in before.groups.lives {
            guard let life = lives[old.number] else { continue }
            #expect(life.group == old.group && !life.bytes.payload.isBehind(old.bytes.payload))
            #expect(life.bytes.wireSent ?? 0 >= old.bytes.wireSent ?? 0)
        }
        let own = groups.lives.filter { $0.group.name != "_other" }
        #expect(own.count <= 5)
        #expect(Dictionary(grouping: own) { $0.group.uid }.values.allSatisfy { $0.count <= 3 })
        let growth = try #require(now.growth(since: before))
        let grown = growth.byGroup.values.reduce(ByteCounts(), +).payload.sent
        let elsewhere = { (groups: GroupTotals) in (groups.unknown + groups.unowned).payload.sent }
        #expect(grown + elsewhere(groups) == growth.bytes.payload.sent + elsewhere(before.groups))
    }
}
