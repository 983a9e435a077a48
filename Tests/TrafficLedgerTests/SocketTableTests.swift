import Testing
import TrafficAudit
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

/// A socket's life, and that nothing of it outlives it.
@Suite("Table of sockets")
struct SocketTableTests {
    private typealias F = LedgerFixture

    private static let one = F.process(1)

    // MARK: What holds whatever comes

    @Test("whatever comes, each part of the table has what the others say", arguments: 0..<7 as Range<UInt64>)
    func invariants(seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        var counts = (late: 0, recoverable: 0, shared: 0, claimed: 0)
        for event in RandomEvents.events(seed: seed, rounds: 140) {
            ledger.absorb(event)
            let sockets = ledger.sockets
            try Self.requireConsistency(of: sockets)
            if case .tick = event {
                try #require(sockets.moving.allSatisfy { sockets[$0] != nil })
                try #require(sockets.pending.allSatisfy { sockets[$0]?.isClosed == false })
                try #require(sockets.pending.allSatisfy { sockets[$0]?.bytes.pendingSent ?? 0 > 0 })
            }
            counts.late += sockets.late.bySerial.count
            counts.recoverable += sockets.recoverable.count
            counts.shared += sockets.cookies.several.count
            counts.claimed += sockets.claims.values.count { $0.isLate }
        }
        // Otherwise the seed shows nothing.
        #expect(counts.late > 0 && counts.recoverable > 0 && counts.shared > 0 && counts.claimed > 0)
    }

    static func requireConsistency(of sockets: SocketTable) throws {
        let late = sockets.late.bySerial
        try #require(late.keys.allSatisfy { sockets[$0] == nil })
        try #require(sockets.endsIndex == sockets.freshEndsIndex)

        var holders: [UInt64: Set<UInt64>] = [:]
        for (serial, account) in sockets.accounts where account.isListed {
            holders[account.observation.cookie.rawValue, default: []].insert(serial)
        }
        for (serial, socket) in late { holders[socket.cookie.rawValue, default: []].insert(serial) }
        holders[0] = nil
        try #require(sockets.cookies.several == holders.filter { $0.value.count > 1 })
        try #require(sockets.cookies.single == holders.filter { $0.value.count == 1 }.compactMapValues(\.first))

        let recoverable = sockets.accounts.filter { !$0.value.isListed }.keys.sorted()
        try #require(sockets.recoverable.elements.sorted() == recoverable)
        try #require(sockets.recoverable.count == recoverable.count)
        try #require(sockets.late.queue.elements.map(\.serial).sorted() == late.keys.sorted())

        for (serial, claims) in sockets.claims {
            try #require(claims.isLate == (late[serial] != nil) && (claims.isLate || sockets[serial] != nil))
        }
        let ranges = { (isLate: Bool) in
            sockets.claims.values.filter { $0.isLate == isLate }.reduce(0) { $0 + $1.rangeCount }
        }
        try #require(sockets.ranges.listed.used == ranges(false) && sockets.ranges.late.used == ranges(true))

        var open: [ProcessIdentity: Int] = [:]
        for account in sockets.accounts.values where !account.isClosed {
            for owner in account.owners { open[owner, default: 0] += 1 }
        }
        try #require(sockets.openByProcess == open)
    }

    // MARK: Holders

    @Test("who holds a socket is listed with it; who is in two lists no more, or has ended, does not hold it")
    func holders() throws {
        var f = F()
        let (one, two, three) = (F.process(1), F.process(2), F.process(3))
        f.absorb(F.socket(9, [F.owner(one, sent: 10), F.owner(two, sent: 3)]), F.socket(8, [F.owner(one, sent: 1)]))
        f.tick()
        func open() -> [Int?] { [one, two, three].map { f.process($0.pid)?.socketsOpen } }
        func former() -> [ProcessIdentity] { f.socket(9)?.owners.filter(\.isFormer).map(\.identity) ?? [] }
        func list(byFirst: Bool, isComplete: Bool = true, of serial: UInt64 = 9) {
            let holder = OwnerObservation(identity: three, name: "worker", uid: 7)
            let socket = SocketHolders(serial: serial, others: [holder], isHeldByFirst: byFirst, isComplete: isComplete)
            f.absorb(.holders([socket]))
            f.tick()
        }
        #expect(open() == [2, 1, nil] && former() == [])
        list(byFirst: true)
        // It may have got its descriptor while the list was read.
        #expect(open() == [2, 1, 1] && former() == [])
        list(byFirst: true)
        #expect(open() == [2, 0, 1] && former() == [two])
        #expect(f.socket(9)?.owners.map(\.payload.sent) == [10, 3, 0] && f.process(3)?.details.name == "worker")
        // Whoever moves bytes has a descriptor.
        f.absorb(F.socket(9, [F.owner(one, sent: 10), F.owner(two, sent: 4)]))
        f.tick()
        #expect(open() == [2, 1, 1] && former() == [])
        list(byFirst: false)
        list(byFirst: false)
        #expect(open() == [1, 0, 1] && former() == [one, two] && f.socket(9)?.mainOwner?.identity == three)
        // Where lines are missing, nobody is missing.
        list(byFirst: false, isComplete: false)
        #expect(open() == [2, 1, 1] && former() == [])
        list(byFirst: false)
        list(byFirst: false)
        f.absorb(.exited(three, at: f.snapshot.takenAt))
        f.tick()
        #expect(open() == [1, 0, 0] && f.socket(9)?.owners.count == 2)
        // A list has all of them: without a line, the users hold the socket.
        list(byFirst: false, of: 77)
        #expect(open() == [2, 1, 0] && former() == [])
        f.absorb(.exited(one, at: f.snapshot.takenAt))
        f.tick()
        #expect(open() == [0, 1, 0] && former() == [one])
        f.absorb(F.socket(9, [F.owner(one, sent: 10), F.owner(two, sent: 3)], closed: f.now))
        f.tick()
        #expect(open() == [0, 0, 0] && former() == [])
    }

    @Test("a restored ledger knows of no holders until a new list comes")
    func holdersAfterRestart() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(F.process(1), sent: 1)]))
        let holder = OwnerObservation(identity: F.process(2), name: "worker", uid: 7)
        for _ in 1...2 { f.absorb(.holders([SocketHolders(serial: 9, others: [holder], isHeldByFirst: false)])) }
        f.tick()
        #expect(f.socket(9)?.owners.map(\.isFormer) == [true, false])
        f.ledger = try Ledger(checkpoint: f.ledger.checkpoint())
        f.tick()
        #expect(f.socket(9)?.owners.map(\.isFormer) == [false])
    }

    // MARK: Sockets that are presumed closed

    /// Socket 9 has moved 10 bytes, and is recoverable.
    private static func recoverable(_ classes: AddressClasses = AddressClasses()) -> LedgerFixture {
        var f = F()
        f.ledger.configure(retention: .init(), classes: classes)
        f.absorb(F.socket(9, [F.owner(one, sent: 10)], remote: "198.51.100.7"))
        f.tick()
        f.absorb(.missing([9]))
        f.tick()
        f.tick(after: 10)
        return f
    }

    private static func audited(_ f: LedgerFixture) throws -> Int64? {
        try AuditReport(of: .host, in: f.reading).sections.first?.sent.first { $0.line == .payload }?.bytes
    }

    @Test("one that is seen again stays as long as it is open")
    func seenAgain() {
        var f = Self.recoverable()
        #expect(f.ledger.sockets.recoverable.count == 1 && f.socket(9) == nil)
        f.absorb(F.socket(9, [F.owner(Self.one, sent: 12)]))
        for _ in 0..<3 { f.tick(after: 10) }
        #expect(f.socket(9)?.bytes.payload.sent == 12 && f.socket(9)?.state == .established)
        #expect(f.ledger.sockets.recoverable.count == 0)
    }

    @Test("the record of its end is listed once more, and then it is forgotten like others", arguments: [false, true])
    func recordAfterwards(isStillListed: Bool) throws {
        var f = Self.recoverable()
        if isStillListed {
            f.absorb(F.socket(9, [F.owner(Self.one, sent: 10)]))
            f.absorb(.missing([9]))
        }
        f.absorb(F.socket(9, [F.owner(Self.one, sent: 12)], closed: f.now))
        f.tick()
        #expect(f.socket(9)?.closedAt != nil && f.socket(9)?.bytes.payload.sent == 12)
        f.tick(after: 10)
        #expect(f.ledger.sockets.accounts.isEmpty && f.ledger.sockets.recoverable.count == 0)
        #expect(f.snapshot.totals.bytes.payload.sent == 12)
        #expect(try Self.audited(f) == 12)
    }

    @Test("what it moves after other classes were set counts for the new class")
    func otherClasses() throws {
        var f = Self.recoverable(try AddressClasses(["old=198.51.100.0/24"]))
        f.ledger.configure(retention: .init(), classes: try AddressClasses(["new=198.51.100.0/24"]))
        f.absorb(F.socket(9, [F.owner(Self.one, sent: 15)], remote: "198.51.100.7"))
        f.tick()
        #expect(f.snapshot.totals.byClass?.mapValues(\.payload.sent) == ["new": 5])
    }

    @Test("reports of one come no more, whatever takes it out", arguments: [false, true])
    func noLateReports(isOfAnotherCapture: Bool) {
        var f = Self.recoverable()
        f.report([.outcome(1, status: 200)])
        if isOfAnotherCapture {
            f.ledger.changeCapture(uncountedNanoseconds: 1)
        } else {
            f.absorb(.closedWithoutRecord([9]))
        }
        #expect(f.ledger.sockets.accounts.isEmpty && f.ledger.sockets.late.bySerial.isEmpty)
    }

    @Test("with its capture a socket ends: packets of one that no process used are the kernel's")
    func endWithCapture() {
        var f = F()
        let wire = SocketWire(sent: WireBytes(headers: 40), received: WireBytes(headers: 60), quality: .exact)
        f.absorb(F.socket(9, [], wire: wire))
        f.tick()
        #expect(f.balance.groups.unowned.wireSent == 40 && f.balance.groups.unowned.wireReceived == 60)
        f.ledger.changeCapture(uncountedNanoseconds: 1)
        f.tick()
        #expect(f.balance.groups.unowned.wireSent == 0 && f.balance.groups.unowned.wireReceived == 0)
        #expect(f.snapshot.totals.bytes.wireSent == 40 && f.snapshot.totals.bytes.wireReceived == 60)
    }

    @Test("a census of some sockets presumes no more than have room, and no byte counts twice")
    func roomOfPartialCensus() throws {
        var f = F()
        let (more, limit) = (UInt64(30), UInt64(SocketTable.recoverableLimit.ofUser))
        for serial in 1...limit + more { f.absorb(F.socket(serial, [F.owner(Self.one, sent: 1)], networkNamespace: 7)) }
        f.tick()
        let census = CaptureEvent.census(SocketCensus([], namespaces: [7]))
        for round in 0..<3 {
            // Twice, so that some are presumed already and none has left the list.
            for _ in 0..<2 * CaptureEvent.censusesUntilClosed { f.absorb(census) }
            let sockets = f.ledger.sockets
            #expect(sockets.accounts.values.count { $0.isPresumed } == Int(limit))
            #expect(sockets.accounts.values.count { !$0.isClosed } == Int(more))
            // In the first round they are listed, and then they are recoverable.
            #expect(sockets.recoverable.count == (round == 0 ? 0 : Int(limit)))
            f.tick()
            f.tick(after: 10)
        }
        for serial in 1...limit + more { f.absorb(F.socket(serial, [F.owner(Self.one, sent: 1)], networkNamespace: 7)) }
        f.tick()
        #expect(f.snapshot.totals.bytes.payload.sent == limit + more)
    }

    @Test("a user with too many missing sockets takes no room from others, and all together have a limit")
    func roomOfUsers() {
        var f = F()
        let limit = SocketTable.recoverableLimit
        let users = UInt32(limit.inAll / limit.ofUser + 1)
        var serial: UInt64 = 0
        /// As many sockets as a user may have missing, and one more; of the last user, one.
        for user in 1...users {
            for _ in 0..<(user == users ? 1 : limit.ofUser + 1) {
                serial += 1
                let owner = OwnerObservation(identity: F.process(Int32(user)), name: "app", uid: user)
                f.absorb(F.socket(serial, [owner], networkNamespace: 7))
            }
        }
        func presumed() -> [UInt32?: Int] {
            Dictionary(grouping: f.ledger.sockets.accounts.values.filter(\.isPresumed), by: \.observation.payer.uid)
                .mapValues(\.count)
        }
        // First those of the first user alone: the others are still there.
        func census(missing: ClosedRange<UInt64>) -> CaptureEvent {
            .census(SocketCensus(Set(1...serial).subtracting(missing), namespaces: [7]))
        }
        let ofUser = UInt64(limit.ofUser)
        for _ in 0..<CaptureEvent.censusesUntilClosed { f.absorb(census(missing: 1...ofUser + 1)) }
        #expect(presumed() == [1: limit.ofUser])
        for _ in 0..<CaptureEvent.censusesUntilClosed { f.absorb(census(missing: 1...2 * (ofUser + 1))) }
        #expect(presumed() == [1: limit.ofUser, 2: limit.ofUser])
        for _ in 0..<CaptureEvent.censusesUntilClosed { f.absorb(census(missing: 1...serial)) }
        #expect(presumed().values.allSatisfy { $0 <= limit.ofUser })
        #expect(presumed().values.reduce(0, +) == limit.inAll)
        #expect(f.ledger.sockets.accounts.count == Int(serial))
    }

    @Test("audits keep what sockets moved that had to be forgotten: beyond the room, and with their capture")
    func audits() throws {
        var f = F()
        let count = UInt64(SocketTable.recoverableLimit.ofUser) + 30
        for serial in 1...count { f.absorb(F.socket(serial, [F.owner(Self.one, sent: 1)])) }
        f.tick()
        f.absorb(.missing(Array(1...count)))
        f.tick()
        f.tick(after: 10)
        #expect(f.ledger.sockets.recoverable.count == SocketTable.recoverableLimit.ofUser)
        #expect(try Self.audited(f) == Int64(count))
        f.absorb(F.socket(count + 1, [F.owner(Self.one, sent: 1)]))
        f.tick()
        f.ledger.changeCapture(uncountedNanoseconds: 1)
        f.tick()
        #expect(try Self.audited(f) == Int64(count) + 1)
    }
}
