import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Checkpoint of the ledger")
struct CheckpointTests {
    /// Small enough that every limit is reached.
    static let retention = Ledger.Retention(
        exitedProcesses: .seconds(9),
        exitedProcessLimit: .init(3, inAll: 6),
        closedSockets: .seconds(4),
        closedSocketLimit: .init(4, inAll: 9),
        lateSockets: .seconds(60),
        lateSocketLimit: .init(2, inAll: 4),
        openSocketLimit: .init(6, inAll: 14),
        groupLimit: .init(4, inAll: 9),
        undecidedLimit: .init(5, inAll: 9)
    )
    static let classes = ["paid=0.0.0.0/0,::/0", "partner=198.51.100.0/24"]

    /// All that readers get of a ledger.
    struct Everything: Hashable {
        var reading: Reading
        var balance: Balance
        var metrics: MetricsReading
        var capture: CaptureStatus
        var openByProcess: [ProcessIdentity: Int]

        init(_ ledger: Ledger) {
            var fixture = LedgerFixture()
            fixture.ledger = ledger
            self.reading = fixture.reading
            self.balance = fixture.balance
            self.metrics = fixture.metrics
            self.capture = ledger.withLosses(fixture.capture)
            self.openByProcess = ledger.sockets.openByProcess
            // These lists have no order.
            self.reading.evidence.packets.sort { ($0.networkNamespace, $0.index) < ($1.networkNamespace, $1.index) }
            self.reading.evidence.disputed.sort { $0.serial < $1.serial }
            self.reading.snapshot.processes?.sort {
                ($0.identity.pid, $0.identity.startBoottimeNanoseconds)
                    < ($1.identity.pid, $1.identity.startBoottimeNanoseconds)
            }
        }
    }

    static func ledger(_ retention: Ledger.Retention = Self.retention) throws -> Ledger {
        Ledger(retention: retention, classes: try AddressClasses(Self.classes))
    }

    static func restored(_ ledger: Ledger) throws -> Ledger {
        try Ledger(
            checkpoint: ledger.checkpoint(),
            retention: Self.retention,
            classes: try AddressClasses(Self.classes)
        )
    }

    /// The events of the last round that change nothing if they come again.
    private static func repeatable(_ events: ArraySlice<CaptureEvent>, in ledger: Ledger) -> [CaptureEvent] {
        var last: [UInt64: CaptureEvent] = [:]
        var others: [CaptureEvent] = []
        var isReopening = false
        for event in events {
            switch event {
            case .socket(let observation): last[observation.serial] = event
            case .rows, .closedWithoutRecord, .exited, .hostAddresses, .loss, .tick, .look: others.append(event)
            // An older observation would open these sockets again.
            case .missing, .census: isReopening = true
            default: break
            }
        }
        // A socket whose destination is not decided would wait for it a second time.
        let sockets = last.filter {
            ledger.sockets[$0.key]?.isListed == true && ledger.sockets[$0.key]?.destination != nil
        }.values
        return (isReopening ? [] : Array(sockets)) + others
    }

    @Test("a restored ledger goes on as if there had been no break", arguments: 0..<12)
    func goesOn(_ seed: UInt64) throws {
        let events = RandomEvents.events(seed: seed, rounds: 90)
        var random = Seeded(seed)
        let middle = Int.random(in: 0..<events.count, using: &random)
        var whole = try Self.ledger()
        for event in events[..<middle] { whole.absorb(event) }
        var restored = try Self.restored(whole)
        #expect(Self.difference(restored, whole) == [])
        let round = events[..<middle].lastIndex { if case .tick = $0 { true } else { false } } ?? 0
        for event in Self.repeatable(events[round..<middle], in: restored) { restored.absorb(event) }
        var rounds = 0
        let dropped = whole.reports.counters.droppedDatagrams
        for event in events[middle...] {
            whole.absorb(event)
            if case .reports(let reports, let all) = event {
                // The next daemon counts these datagrams from 0.
                restored.absorb(.reports(reports, dropped: all - dropped))
            } else {
                restored.absorb(event)
            }
            switch event {
            case .tick, .look:
                rounds += 1
                // All rounds after the restore, and later some.
                if rounds < 8 || rounds % 8 == 0 { try #require(Self.difference(restored, whole) == []) }
            default: break
            }
        }
        // What is listed for a while leaves the list at the same time.
        for second in 1...10 {
            let boottime = 900_000_000_000_000 + UInt64(second) * 1_000_000_000
            let tick = CaptureEvent.tick(at: Timestamp(nanosecondsSinceEpoch: 0), boottimeNanoseconds: boottime)
            whole.absorb(tick)
            restored.absorb(tick)
            try #require(Self.difference(restored, whole) == [])
        }
    }

    /// The parts in which the ledgers differ. Whole readings would be too long to print.
    private static func difference(_ ledger: Ledger, _ other: Ledger) -> [String] {
        let (one, other) = (Everything(ledger), Everything(other))
        if one == other { return [] }
        let (a, b) = (one.reading.snapshot, other.reading.snapshot)
        let parts = [
            "processes": a.processes == b.processes, "exited": a.exited == b.exited, "sockets": a.sockets == b.sockets,
            "endpoints": a.endpoints == b.endpoints, "interfaces": a.interfaces == b.interfaces,
            "totals": a.totals == b.totals, "exchanges": one.reading.exchanges == other.reading.exchanges,
            "grouped": one.reading.groupedEndpoints == other.reading.groupedEndpoints,
            "evidence": one.reading.evidence == other.reading.evidence, "balance": one.balance == other.balance,
            "metrics": one.metrics == other.metrics, "capture": one.capture == other.capture,
            "open sockets": one.openByProcess == other.openByProcess,
        ]
        return ["all"] + parts.filter { !$0.value }.keys.sorted()
    }

    @Test("the sums have the balance of the ledger, and are smaller", arguments: 100..<106)
    func sums(_ seed: UInt64) throws {
        var ledger = try Self.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 80) { ledger.absorb(event) }
        let (balance, since) = (Everything(ledger).balance, Timestamp(nanosecondsSinceEpoch: 0))
        let sums = ledger.sums()
        #expect(try ledger.earlierBalance(sums, countingSince: since) == balance)
        #expect(try ledger.earlierBalance(ledger.checkpoint(), countingSince: since) == balance)
        // Of a ledger whose endpoints and interfaces began anew, those of before are not in it.
        let restored = try Ledger(sums: sums)
        let earlier = try restored.earlierBalance(sums, countingSince: since)
        #expect(earlier.bytes == balance.bytes && earlier.endpoints == [] && earlier.interfaces == InterfaceTotals())
        #expect(sums.count * 2 < ledger.checkpoint().count)
    }

    @Test("a checkpoint of a restored ledger is the same checkpoint", arguments: 100..<103)
    func again(_ seed: UInt64) throws {
        var ledger = try Self.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 80) { ledger.absorb(event) }
        let once = try Self.restored(ledger)
        let twice = try Self.restored(once)
        #expect(Everything(twice) == Everything(ledger))
        #expect(twice.checkpoint().count == once.checkpoint().count)
    }

    @Test("recorded events go on after a restore at every tick")
    func recorded() throws {
        let (events, _) = try ReplayTests.load()
        var (whole, broken) = (Ledger(), Ledger())
        for event in events {
            whole.absorb(event)
            broken.absorb(event)
            if case .tick = event { broken = try Ledger(checkpoint: broken.checkpoint()) }
        }
        #expect(Everything(broken) == Everything(whole))
    }

    @Test(
        "what two captures count one after the other adds up, though their sockets have the same serials",
        arguments: 0..<8
    )
    func otherCapture(_ seed: UInt64) throws {
        // Packets at interfaces are counted by captures that end with their daemon.
        func events(_ seed: UInt64) -> [CaptureEvent] {
            RandomEvents.events(seed: seed, rounds: 60).filter { if case .packets = $0 { false } else { true } }
        }
        var (first, second, both) = (try Self.ledger(), try Self.ledger(), try Self.ledger())
        for event in events(seed) {
            first.absorb(event)
            both.absorb(event)
        }
        both.changeCapture(uncountedNanoseconds: 7)
        #expect(both.sockets.accounts.isEmpty && both.sockets.openByProcess.isEmpty)
        #expect(Everything(both).balance.bytes == Everything(first).balance.bytes)
        both = try Self.restored(both)
        for event in events(seed + 1_000) {
            second.absorb(event)
            both.absorb(event)
        }
        let sums = [first, second, both].map { Everything($0).balance.bytes }
        #expect(sums[2] == sums[0] + sums[1] && sums[0].payload.total > 0 && sums[1].payload.total > 0)
        #expect(both.sockets.openByProcess == second.sockets.openByProcess)
        #expect(both.loss == first.loss + second.loss + CaptureLoss(uncountedNanoseconds: 7))
        let dropped = [first, second, both].map { $0.reports.counters.droppedDatagrams }
        #expect(dropped[2] == dropped[0] + dropped[1])
    }

    @Test("a ledger without events has a checkpoint")
    func empty() throws {
        let restored = try Ledger(checkpoint: Ledger().checkpoint())
        #expect(Everything(restored) == Everything(Ledger()))
    }

    @Test("a restored ledger asks for the details of all processes that run")
    func askAgain() throws {
        var fixture = LedgerFixture()
        let (one, two, three) = (F.process(1), F.process(2), F.process(3))
        fixture.absorb(
            F.socket(1, [F.owner(one, sent: 1)]),
            F.socket(2, [F.owner(two, sent: 1)]),
            F.socket(3, [F.owner(three, sent: 1)]),
            .details(one, ProcessDetails(name: "one", uid: 0)),
            .exited(two, at: Timestamp(nanosecondsSinceEpoch: 0)),
            .packets([InterfacePackets(networkNamespace: 1, index: 1, sent: .init(noSocket: 9))])
        )
        fixture.tick()
        _ = fixture.ledger.takeUnresolved()
        fixture.absorb(F.socket(4, [F.owner(F.process(4), sent: 1)]))
        var restored = try Ledger(checkpoint: fixture.ledger.checkpoint())
        let asked = restored.takeUnresolved()
        #expect(asked.map(\.identity.pid).sorted() == [1, 3, 4])
        // It may run another program by now: the answer has the name.
        #expect(asked.first { $0.identity == one }?.name == "")
        restored.absorb(.details(one, ProcessDetails(name: "", uid: 0)))
        #expect(restored.processes[one]?.details.name == "one")
        restored.absorb(.details(one, ProcessDetails(name: "other", executable: "/bin/other", uid: 0)))
        #expect(restored.processes[one]?.details.name == "other")
    }

    private typealias F = LedgerFixture

    @Test("the limits of the new configuration are in force at the next tick")
    func newLimits() throws {
        var fixture = LedgerFixture()
        for number in 1...20 {
            let process = F.process(Int32(number))
            fixture.absorb(
                F.socket(UInt64(number), [F.owner(process, sent: 10)], closed: fixture.now),
                .details(process, ProcessDetails(name: "app\(number)", uid: 0)),
                .exited(process, at: Timestamp(nanosecondsSinceEpoch: Int64(number)))
            )
        }
        fixture.tick()
        let before = fixture.balance.bytes
        let retention = Ledger.Retention(
            exitedProcessLimit: .init(3, inAll: 10),
            closedSocketLimit: .init(4, inAll: 10),
            groupLimit: .init(4, inAll: 20)
        )
        fixture.ledger = try Ledger(checkpoint: fixture.ledger.checkpoint(), retention: retention)
        #expect(fixture.snapshot.sockets?.count == 20)
        fixture.tick()
        #expect(fixture.snapshot.sockets?.map(\.serial) == [17, 18, 19, 20])
        #expect(fixture.snapshot.processes?.map(\.identity.pid) == [18, 19, 20])
        #expect(fixture.balance.bytes == before)
        // A new group needs room: of the old ones, those stay that have listed processes.
        fixture.absorb(F.socket(30, [F.owner(F.process(30), sent: 1)]))
        fixture.absorb(.details(F.process(30), ProcessDetails(name: "new", uid: 0)))
        #expect(fixture.balance.groups.lives.contains { $0.group.name == "new" })
        let names = fixture.balance.groups.lives.map(\.group.name)
        #expect(names.sorted() == ["_other", "app18", "app19", "app20", "new"])
    }

    @Test("a new class begins at 0 and has what moves from now on; a class that is gone is forgotten")
    func newClasses() throws {
        var fixture = LedgerFixture()
        fixture.ledger = Ledger(classes: try AddressClasses(["old=198.51.100.0/24", "kept=10.0.0.0/8"]))
        func move(_ bytes: UInt64) {
            for (serial, remote) in [(UInt64(1), "198.51.100.7"), (2, "10.0.0.9")] {
                fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: bytes)], remote: remote))
            }
            fixture.tick()
        }
        func restore(_ classes: [String]) throws {
            fixture.ledger = try Ledger(checkpoint: fixture.ledger.checkpoint(), classes: try AddressClasses(classes))
        }
        move(10)
        try restore(["kept=10.0.0.0/8", "new=198.51.100.0/24"])
        #expect(fixture.snapshot.totals.byClass?.mapValues(\.payload.sent) == ["kept": 10, "new": 0])
        move(15)
        #expect(fixture.snapshot.totals.byClass?.mapValues(\.payload.sent) == ["kept": 15, "new": 5])
        #expect(fixture.socket(1)?.addressClass == "new")
        try restore([])
        #expect(fixture.snapshot.totals.byClass == nil)
        try restore(["kept=10.0.0.0/8"])
        move(16)
        #expect(fixture.snapshot.totals.byClass?.mapValues(\.payload.sent) == ["kept": 1])
    }
}
