import Testing
import TrafficAudit
import TrafficEvents
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

/// What the kernel adds to rows when a ring or a map is full, and what one user's flood can cost another user.
@Suite("Rows")
struct RowTests {
    typealias F = LedgerFixture
    let one = F.process(1)
    let two = F.process(2)

    private func owner(_ identity: ProcessIdentity, uid: UInt32, sent: UInt64, name: String = "app") -> OwnerObservation
    {
        OwnerObservation(identity: identity, name: name, uid: uid, payload: PayloadBytes(sent: sent))
    }

    @Test("a row counts once for its process and the totals, and in no scope")
    func process() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        let rows = FoldedRows(
            generation: 1,
            processes: [
                .init(
                    owner: F.owner(one, sent: 5, received: 7),
                    wire: WireTotals(sent: 50, received: 70),
                    retransmitted: 3,
                    sockets: 2
                )
            ]
        )
        f.absorb(.rows(rows), .rows(rows))
        f.tick()
        let process = try #require(f.process(1))
        #expect(process.bytes.payload == PayloadBytes(sent: 15, received: 7))
        #expect(process.bytes.wireSent == 50 && process.bytes.wireReceived == 70)
        #expect(process.bytes.retransmitted == 3)
        let totals = f.snapshot.totals
        #expect(totals.bytes.payload == process.bytes.payload)
        #expect(totals.bytes.wireSent == 50 && totals.bytes.retransmitted == 3)
        #expect(totals.byScope["loopback"]?.payload == PayloadBytes(sent: 10))
    }

    @Test("an audit has the packets of rows in a line of their own, and nothing is unexplained")
    func audit() throws {
        var f = F()
        f.absorb(
            .rows(
                FoldedRows(
                    generation: 1,
                    processes: [.init(owner: F.owner(one, sent: 5), wire: WireTotals(sent: 50))]
                )
            )
        )
        f.tick()
        for subject in [AuditSubject.host, .process(1)] {
            let report = try AuditReport(of: subject, in: f.reading)
            let sent = try #require(report.sections.first?.sent)
            #expect(sent.first { $0.line == .payload }?.bytes == 5)
            #expect(sent.first { $0.line == .folded }?.bytes == 45)
            #expect(sent.first { $0.line == .wire }?.bytes == 50)
            #expect(report.unexplained == 0)
        }
    }

    @Test("bytes beyond a user's rows count for that user, and bytes beyond all users' rows for nobody")
    func users() throws {
        var f = F()
        f.absorb(
            .rows(
                FoldedRows(
                    generation: 1,
                    users: [.init(owner: self.owner(F.process(0), uid: 65534, sent: 5), sockets: 1)],
                    common: .init(owner: self.owner(F.process(0), uid: 0, sent: 3), sockets: 1)
                )
            )
        )
        f.tick()
        let rows = try #require(f.snapshot.exited)
        #expect(rows.map(\.group.name) == ["_other", "_other"])
        #expect(rows.first { $0.group.uid == 65534 }?.bytes.payload == PayloadBytes(sent: 5))
        #expect(rows.first { $0.group.uid == nil }?.bytes.payload == PayloadBytes(sent: 3))
        #expect(f.snapshot.totals.bytes.payload == PayloadBytes(sent: 8))
        #expect(f.snapshot.processes == [])
    }

    @Test("a socket that ended without a record becomes closed, and its bytes in rows are not counted again")
    func closedWithoutRecord() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        f.tick()
        f.absorb(
            .rows(FoldedRows(generation: 1, processes: [.init(owner: F.owner(one, sent: 5), sockets: 1)])),
            .closedWithoutRecord([9])
        )
        f.tick()
        #expect(f.socket(9)?.state == .closed)
        #expect(f.process(1)?.socketsOpen == 0)
        #expect(f.process(1)?.bytes.payload == PayloadBytes(sent: 15))
        f.tick(after: 10)
        #expect(f.socket(9) == nil)
        #expect(f.process(1)?.bytes.payload == PayloadBytes(sent: 15))
    }

    @Test("a call's bytes that found no room beside the socket's owners count for the socket, and once in the totals")
    func inRows() throws {
        var f = F()
        f.absorb(
            .socket(
                SocketObservation(
                    cookie: SocketCookie(rawValue: 9),
                    transport: .udp,
                    family: .ipv4,
                    local: SocketAddress(address: .unspecified, port: 1),
                    remote: SocketAddress(address: .unspecified, port: 0),
                    role: .peer,
                    state: .unconnected,
                    owners: [F.owner(one, sent: 10)],
                    inRows: PayloadBytes(sent: 5)
                )
            ),
            .rows(FoldedRows(generation: 1, processes: [.init(owner: F.owner(two, sent: 5))]))
        )
        f.tick()
        #expect(f.socket(9)?.bytes.payload.sent == 15)
        #expect(f.process(1)?.bytes.payload.sent == 10)
        #expect(f.process(2)?.bytes.payload.sent == 5)
        #expect(f.snapshot.totals.bytes.payload.sent == 15)
    }

    @Test("packets of processes that the socket has no room for count for no process", arguments: [false, true])
    func wireOfUnlisted(isEnd: Bool) {
        var f = F()
        let wire = { (sent: UInt64) in
            SocketWire(sent: WireBytes(payload: sent))
        }
        f.absorb(F.socket(9, [F.owner(one, sent: 10), F.owner(two, sent: 10)], wire: wire(100)))
        let (owners, closed) = ([F.owner(one, sent: 10), F.owner(two, sent: 10)], isEnd ? f.now : nil)
        f.absorb(F.socket(9, owners, closed: closed, wire: wire(1_100), inRows: PayloadBytes(sent: 80)))
        f.tick()
        #expect([1, 2].map { f.process($0)?.bytes.wireSent } == [150, 150])
        #expect(f.snapshot.totals.bytes.wireSent == 1_100)
    }

    // MARK: Sockets that are presumed closed but still exist

    @Test("a socket that censuses took for closed comes again after it was forgotten, and counts once")
    func falseCensus() {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        f.tick()
        for _ in 0..<CaptureEvent.censusesUntilClosed { f.absorb(.census(SocketCensus([]))) }
        f.tick()
        #expect(f.socket(9)?.state == .closed)
        f.tick(after: 10)
        #expect(f.socket(9) == nil)
        f.absorb(F.socket(9, [F.owner(one, sent: 12)]))
        f.tick()
        #expect(f.socket(9)?.state == .established)
        #expect(f.process(1)?.bytes.payload.sent == 12)
        #expect(f.snapshot.totals.bytes.payload.sent == 12)
        f.absorb(F.socket(9, [F.owner(one, sent: 13)], closed: f.now))
        f.tick()
        f.tick(after: 10)
        #expect(f.snapshot.totals.bytes.payload.sent == 13)
    }

    @Test("an audit counts a socket that is taken for closed once, whether it comes again or not")
    func falseCensusAudit() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        f.tick()
        f.absorb(.missing([9]))
        f.tick()
        f.tick(after: 10)
        let payload = { () throws -> Int64? in
            try AuditReport(of: .host, in: f.reading).sections.first?.sent.first { $0.line == .payload }?.bytes
        }
        #expect(try payload() == 10)
        f.absorb(F.socket(9, [F.owner(one, sent: 12)]))
        f.tick()
        #expect(try payload() == 12)
    }

    @Test("a parent that was folded into its group's row is not listed again for an idle listener")
    func foldedParent() throws {
        var f = F()
        let listener = F.socket(9, [F.owner(one)])
        f.absorb(listener, .exited(one, at: f.snapshot.takenAt))
        f.tick()
        f.tick(after: 301)
        #expect(f.process(1) == nil)
        f.absorb(listener)
        f.tick()
        #expect(f.process(1) == nil)
        f.tick(after: 301)
        #expect(f.snapshot.exited?.map(\.processes) == [1])
    }

    @Test("the row of a block of ids counts, and under no user: it does not say which of them moved the bytes")
    func rowOfBlock() throws {
        var f = F()
        let owner = OwnerObservation(identity: F.process(0), name: "", uid: 131_072, payload: PayloadBytes(sent: 5))
        f.absorb(.rows(FoldedRows(generation: 1, users: [.init(owner: owner, sockets: 1)])))
        f.tick()
        #expect(f.snapshot.exited?.map { $0.group } == [.other(of: nil)])
        #expect(f.snapshot.exited?.first?.bytes.payload.sent == 5 && f.snapshot.totals.bytes.payload.sent == 5)
    }

    // MARK: One user's flood costs only that user

    @Test(
        "a user who closes many sockets pushes only that user's own sockets off the list",
        arguments: Flooder.allCases
    )
    func closedSockets(_ flooder: Flooder) {
        var f = F(retention: Ledger.Retention(closedSocketLimit: .init(3, inAll: 5)))
        f.absorb(F.socket(1, [self.owner(one, uid: 0, sent: 1)], closed: f.now))
        for cookie in 2...100 as ClosedRange<UInt64> {
            let owner = self.owner(F.process(Int32(cookie)), uid: flooder.uid(Int(cookie)), sent: 1)
            f.absorb(F.socket(cookie, [owner], closed: f.now))
        }
        f.tick()
        #expect(f.snapshot.sockets?.map(\.cookie.rawValue) == [1, 98, 99, 100])
        for cookie in 101...103 as ClosedRange<UInt64> {
            f.absorb(F.socket(cookie, [self.owner(F.process(103), uid: 7, sent: 1)], closed: f.now))
        }
        f.tick()
        // Seven sockets are two too many: the two users with three each lose one.
        #expect(f.snapshot.sockets?.count == 5)
        #expect(f.socket(1) != nil)
        #expect(f.snapshot.totals.bytes.payload.sent == 103)
    }

    @Test(
        "a user who starts many processes pushes only that user's own processes off the list",
        arguments: Flooder.allCases
    )
    func exitedProcesses(_ flooder: Flooder) {
        var f = F(retention: Ledger.Retention(exitedProcessLimit: .init(3, inAll: 5)))
        let end = f.snapshot.takenAt
        for pid in 1...100 as ClosedRange<Int32> {
            let uid = pid == 1 ? 0 : flooder.uid(Int(pid))
            f.absorb(
                F.socket(UInt64(pid), [self.owner(F.process(pid), uid: uid, sent: 1)], closed: f.now),
                .exited(F.process(pid), at: end)
            )
        }
        f.tick()
        #expect(f.snapshot.processes?.count == 4)
        #expect(f.process(1) != nil)
        #expect(f.snapshot.exited?.reduce(0) { $0 + $1.processes } == 96)
        #expect(f.snapshot.totals.bytes.payload.sent == 100)
    }

    @Test("processes beyond the limit leave the list as they end, before the next sweep")
    func endsBetweenSweeps() {
        var f = F(retention: Ledger.Retention(exitedProcessLimit: .init(3, inAll: 5)))
        f.tick()
        let end = f.snapshot.takenAt
        for pid in 1...3_000 as ClosedRange<Int32> {
            f.absorb(
                F.socket(UInt64(pid), [self.owner(F.process(pid), uid: 9, sent: 1)], closed: f.now),
                .exited(F.process(pid), at: end)
            )
        }
        let listed = f.snapshot.processes?.count ?? 0
        #expect((3...3 + 512).contains(listed))
        #expect(f.snapshot.exited?.reduce(listed) { $0 + $1.processes } == 3_000)
        #expect(f.snapshot.totals.bytes.payload.sent == 3_000)
        let rows = (f.snapshot.processes ?? []).map(\.bytes) + (f.snapshot.exited ?? []).map(\.bytes)
        #expect(rows.reduce(0) { $0 + $1.payload.sent } == 3_000)
    }

    @Test("between two sweeps, too, the list keeps the limits")
    func listedBetweenSweeps() {
        var f = F(
            retention: Ledger.Retention(
                exitedProcessLimit: .init(3, inAll: 100),
                closedSocketLimit: .init(3, inAll: 8)
            )
        )
        f.tick()
        let end = f.snapshot.takenAt
        // One user with twenty, then twenty users with one each.
        for pid in 1...40 as ClosedRange<Int32> {
            let uid = pid <= 20 ? 9 : UInt32(pid)
            f.absorb(
                F.socket(UInt64(pid), [self.owner(F.process(pid), uid: uid, sent: 1)], closed: f.now),
                .exited(F.process(pid), at: end)
            )
        }
        f.look(afterMilliseconds: 20)
        #expect((8...10).contains(f.snapshot.sockets?.count ?? 0))
        #expect(f.snapshot.processes?.filter { $0.details.uid == 9 }.count == 3)
        #expect(f.snapshot.totals.bytes.payload.sent == 40)
        f.tick()
        #expect(f.snapshot.sockets?.count == 8)
        #expect(f.snapshot.totals.bytes.payload.sent == 40)
    }

    @Test("however many users there are, the list has no more ended processes than the limit for all")
    func exitedProcessesOfManyUsers() {
        var f = F(retention: Ledger.Retention(exitedProcessLimit: .init(3, inAll: 5)))
        for pid in 1...40 as ClosedRange<Int32> {
            f.absorb(
                F.socket(UInt64(pid), [self.owner(F.process(pid), uid: UInt32(pid), sent: 1)], closed: f.now),
                .exited(F.process(pid), at: f.snapshot.takenAt)
            )
        }
        f.tick()
        #expect(f.snapshot.processes?.count == 5)
        #expect(f.snapshot.totals.bytes.payload.sent == 40)
    }

    @Test("packets of a process that is no longer listed count for its user")
    func wireOfFoldedProcess() {
        var f = F()
        let wire = { SocketWire(sent: WireBytes(headers: $0), received: WireBytes(), quality: .exact) }
        let first = self.owner(one, uid: 9, sent: 1_000)
        f.absorb(F.socket(1, [first, self.owner(two, uid: 0, sent: 1)], retransmitted: 10, wire: wire(100)))
        f.absorb(.exited(one, at: f.snapshot.takenAt))
        f.tick()
        f.tick(after: 301)
        #expect(f.process(1) == nil)
        f.absorb(F.socket(1, [first, self.owner(two, uid: 0, sent: 2)], retransmitted: 30, wire: wire(5_000)))
        f.tick()
        let rows = (f.snapshot.processes ?? []).map(\.bytes) + (f.snapshot.exited ?? []).map(\.bytes)
        #expect(rows.reduce(0) { $0 + ($1.wireSent ?? 0) } == 5_000)
        #expect(rows.reduce(0) { $0 + ($1.retransmitted ?? 0) } == f.snapshot.totals.bytes.retransmitted)
        #expect(f.snapshot.exited?.contains { $0.group.uid == 9 && ($0.bytes.wireSent ?? 0) > 4_000 } == true)
    }

    @Test(
        "a user with many sockets that are taken for closed displaces only that user's own",
        arguments: Flooder.allCases
    )
    func presumedOfOthers(_ flooder: Flooder) throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        f.tick()
        f.absorb(.missing([9]))
        f.tick()
        f.tick(after: 10)
        let (stranger, first) = (F.process(7), UInt64(1_000))
        // So many that a few would hardly be left, if each id had places of its own.
        let count = UInt64(SocketTable.recoverableLimit.ofUser) + 10_000
        for serial in first..<first + count {
            f.absorb(F.socket(serial, [self.owner(stranger, uid: flooder.uid(Int(serial)), sent: 1, name: "flood")]))
        }
        f.tick()
        f.absorb(.missing(Array(first..<first + count)))
        f.tick()
        f.tick(after: 10)
        let before = f.snapshot.totals.bytes.payload.sent
        f.absorb(F.socket(9, [F.owner(one, sent: 12)]))
        f.tick()
        #expect(f.process(1)?.bytes.payload.sent == 12)
        #expect(f.snapshot.totals.bytes.payload.sent == before + 2)
    }

    @Test("users who have equally many such sockets each lose one, and none is left behind")
    func presumedOfEquals() throws {
        var f = F()
        var serial: UInt64 = 0
        for (uid, count) in [(6, 1_000), (7, 1_000), (8, 1_000), (9, 1_000), (10, 97)] as [(UInt32, Int)] {
            for _ in 0..<count {
                serial += 1
                f.absorb(F.socket(serial, [self.owner(F.process(Int32(uid)), uid: uid, sent: 1)]))
            }
        }
        f.tick()
        f.absorb(.missing(Array(1...serial)))
        f.tick()
        f.tick(after: 10)
        #expect(f.ledger.sockets.accounts.count == SocketTable.recoverableLimit.inAll - 3)
        #expect(f.snapshot.totals.bytes.payload.sent == serial)
        // Each that is still there goes on, and the others are as many as the kernel says are closed for good.
        f.absorb(.closedWithoutRecord(Array(1...serial)))
        f.tick()
        #expect(f.ledger.sockets.accounts.isEmpty && f.ledger.sockets.recoverable.count == 0)
    }

    @Test("a socket that was taken for closed and then reported as closed without a record stays in the audit")
    func presumedThenGone() throws {
        var f = F()
        f.absorb(F.socket(9, [F.owner(one, sent: 10)]))
        f.tick()
        f.absorb(.missing([9]))
        f.tick()
        f.tick(after: 10)
        f.absorb(.closedWithoutRecord([9]))
        f.tick()
        let payload = try AuditReport(of: .host, in: f.reading).sections.first?.sent.first { $0.line == .payload }
        #expect(payload?.bytes == 10)
    }

    @Test("a user who makes up names fills only that user's part of the executables' rows", arguments: Flooder.allCases)
    func exitedGroups(_ flooder: Flooder) throws {
        var f = F(retention: Ledger.Retention(exitedProcesses: .seconds(0), groupLimit: .init(3, inAll: 5)))
        let end = f.snapshot.takenAt
        for pid in 1...20 as ClosedRange<Int32> {
            let uid = pid == 20 ? 0 : flooder.uid(Int(pid))
            f.absorb(
                F.socket(
                    UInt64(pid),
                    [self.owner(F.process(pid), uid: uid, sent: 1, name: "n\(pid)")],
                    closed: f.now
                ),
                .exited(F.process(pid), at: end)
            )
            f.tick()
        }
        f.tick()
        let rows = try #require(f.snapshot.exited)
        #expect(rows.contains { $0.group.name == "n20" })
        #expect(rows.count == 5)
        #expect(rows.first { $0.group == .other(of: flooder.uid(0)) }?.processes == 16)
    }
}
