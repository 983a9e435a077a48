import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

@testable import TrafficLedger

private typealias F = LedgerFixture

/// Reports of sockets that have left the list of closed sockets.
@Suite("Late reports")
struct LateReportTests {
    /// Three are listed of a user, and four more are kept.
    private static let small = Ledger.Retention(
        closedSocketLimit: .init(3, inAll: 50),
        lateSocketLimit: .init(4, inAll: 50)
    )

    /// Process 1 of user 33, with socket 7, has reported.
    private static func server(_ retention: Ledger.Retention = Ledger.Retention()) -> LedgerFixture {
        var fixture = LedgerFixture(retention: retention)
        fixture.move(sent: 10_000, received: 300)
        fixture.absorb(.details(F.process(1), .init(name: "web", uid: 33)))
        fixture.report([.outcome(1, status: 200)])
        return fixture
    }

    /// Closed sockets of process 1, and from serial 900 on of process 9, which is of user 9.
    private static func close(_ serials: Range<UInt64>, in fixture: inout LedgerFixture, sharers: Range<Int32> = 0..<0)
    {
        for serial in serials {
            let process = F.process(serial < 900 ? 1 : 9)
            let owners = ([process] + sharers.map { F.process($0) }).map { process in
                var owner = F.owner(process, sent: 300, received: 100)
                owner.uid = serial < 900 ? 33 : 9
                return owner
            }
            fixture.absorb(F.socket(serial, owners, closed: fixture.now))
        }
    }

    private static func served(_ socket: UInt64) -> Report.Record {
        var exchange = Report.Exchange.request(socket, from: 0, to: 100)
        exchange.cookie = socket
        exchange.response = Report.Exchange.response(socket, from: 0, to: 300).response
        return .exchange(exchange)
    }

    @Test("a report counts for a minute after its socket closed, and once, also after a restart")
    func lateReports() throws {
        var fixture = Self.server()
        Self.close(100..<104, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.report([Self.served(100)])
        fixture.tick(after: 30)
        #expect(fixture.snapshot.sockets?.map(\.serial) == [7])
        fixture.report([Self.served(101), Self.served(100)])
        #expect(fixture.counters.joined == 4 && fixture.counters.duplicate == 2)
        fixture.ledger = try Ledger(checkpoint: fixture.ledger.checkpoint())
        fixture.tick(after: 20)
        fixture.report([Self.served(102), Self.served(101)])
        #expect(fixture.counters.joined == 6 && fixture.counters.duplicate == 4)
        let server = fixture.snapshot.processes?.first { $0.identity.pid == 1 }
        #expect(server?.explained == 3 * 400)
        // The minute is over.
        fixture.tick(after: 10)
        #expect(fixture.claimed.isEmpty)
        fixture.report([Self.served(103)])
        fixture.report([Self.served(900)], pid: 9)
        fixture.settleAll()
        #expect(fixture.counters.joined == 6 && fixture.counters.late == 4)
    }

    @Test("only its owners can report of a socket that has left the list")
    func lateReportsOfOthers() {
        var fixture = Self.server()
        Self.close(100..<102, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.tick()
        fixture.tick(after: 30)
        #expect(fixture.late.contains(100))
        fixture.report([Self.served(100)], pid: 9)
        fixture.settleAll()
        #expect(fixture.counters.foreign == 2 && fixture.counters.joined == 0)
        fixture.report([Self.served(100)])
        #expect(fixture.counters.joined == 2)
        // Another capture may give their serials to other sockets.
        fixture.ledger.changeCapture(uncountedNanoseconds: 1)
        #expect(fixture.claimed.isEmpty)
        fixture.report([Self.served(101)])
        fixture.settleAll()
        #expect(fixture.counters.joined == 2)
    }

    @Test("a user's own closed sockets displace those for which reports may come late, and not another user's")
    func limitOfLateReports() {
        var fixture = Self.server(Self.small)
        Self.close(100..<110, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.report([.outcome(1, status: 200)], pid: 9)
        Self.close(901..<950, in: &fixture)
        // Three are listed, and four have left the list.
        fixture.report((100..<110).map(Self.served))
        #expect(fixture.counters.joined == 14)
        fixture.report((900..<950).map(Self.served), pid: 9)
        #expect(fixture.counters.joined == 28)
        fixture.settleAll()
        #expect(fixture.counters.joined == 28 && fixture.counters.late == 6 + 86)
    }

    @Test("a cookie that several sockets have names none of them, also when one has left the list", arguments: 1...2)
    func lateReportsOfSubflows(listed: UInt64) {
        var fixture = Self.server()
        let owner = F.owner(F.process(1), sent: 300, received: 100)
        let socket = { (serial: UInt64, closed: UInt64?) in
            guard case .socket(var observation) = F.socket(50, [owner], closed: closed) else { preconditionFailure() }
            observation.serial = serial
            return CaptureEvent.socket(observation)
        }
        fixture.absorb(socket(100, fixture.now))
        fixture.tick()
        fixture.tick(after: 30)
        #expect(fixture.late == [100])
        for serial in 101...(100 + listed) { fixture.absorb(socket(serial, nil)) }
        fixture.report([Self.served(50)])
        fixture.settleAll()
        #expect(fixture.counters.joined == 0 && fixture.counters.late == 2)
    }

    @Test("a socket that is listed again keeps its claims, and what it moves then can be claimed")
    func listedAgain() throws {
        var fixture = Self.server()
        Self.close(100..<101, in: &fixture)
        fixture.report([Self.served(100)])
        fixture.tick(after: 30)
        #expect(fixture.late == [100])
        fixture.absorb(F.socket(100, [F.owner(F.process(1), sent: 700, received: 200)]))
        #expect(fixture.late.isEmpty)
        try SocketTableTests.requireConsistency(of: fixture.ledger.sockets)
        fixture.tick(after: 60)
        var second = Report.Exchange.request(200, from: 100, to: 200)
        (second.cookie, second.response) = (100, Report.Exchange.response(200, from: 300, to: 700).response)
        fixture.report([Self.served(100), .exchange(second)])
        #expect(fixture.counters.joined == 4 && fixture.counters.duplicate == 2)
    }

    @Test("a report counts up to a minute after the end, and not later")
    func minute() {
        var fixture = Self.server()
        Self.close(100..<101, in: &fixture)
        for seconds in [1, 10, 49] as [Int64] { fixture.tick(after: seconds) }
        #expect(fixture.late == [100])
        fixture.tick()
        #expect(fixture.late.isEmpty)
    }

    @Test("claims go with their socket: displaced, too old, or never kept")
    func forgottenClaims() {
        var fixture = Self.server(Self.small)
        for serial in 100..<110 as Range<UInt64> {
            fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: 300, received: 100)]))
        }
        fixture.report((100..<110).map(Self.served))
        #expect(fixture.claimed.count == 10)
        for serial in 100..<110 as Range<UInt64> { Self.close(serial..<(serial + 1), in: &fixture) }
        #expect(fixture.claimed == Set(103..<110))
        #expect(fixture.late == Set(103..<107))
        var smaller = Self.small
        smaller.lateSocketLimit.ofUser = 2
        fixture.ledger.configure(retention: smaller, classes: AddressClasses())
        fixture.tick()
        #expect(fixture.late == [105, 106])
        #expect(fixture.claimed == Set(105..<110))
        // The last ones leave the list with the first tick.
        for _ in 0..<2 { fixture.tick(after: 70) }
        #expect(fixture.claimed.isEmpty && fixture.late.isEmpty)
    }

    @Test("in the end no late socket is left", arguments: 0..<6 as Range<UInt64>)
    func end(seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        for event in RandomEvents.events(seed: seed, rounds: 90) { ledger.absorb(event) }
        #expect(!ledger.sockets.late.bySerial.isEmpty)
        let end = 900_000_000_000_000 as UInt64
        // Also those that leave the list only now.
        for second in 0..<4 as Range<UInt64> {
            ledger.absorb(.tick(at: Timestamp(nanosecondsSinceEpoch: 0), boottimeNanoseconds: end + second))
        }
        #expect(ledger.sockets.late.bySerial.isEmpty)
    }

    @Test("sockets without anything to claim take no places: no payload, no cookie, no connection")
    func unclaimable() {
        var fixture = Self.server()
        for serial in 100..<106 as Range<UInt64> {
            // Of a connection from before the capture, only the rest was counted.
            let isSilent = serial == 101 || serial == 105
            let owner = F.owner(F.process(1), sent: isSilent ? 0 : 300)
            guard case .socket(var observation) = F.socket(serial, [owner], closed: fixture.now) else { return }
            if serial == 102 { observation.cookie = SocketCookie(rawValue: 0) }
            if serial == 103 { observation.transport = .udp }
            if serial == 105 { observation.preexisting = true }
            fixture.absorb(.socket(observation))
        }
        fixture.tick()
        fixture.tick(after: 30)
        #expect(fixture.late == [100, 104, 105])
    }

    @Test("the user of the process that reports pays for its sockets, whoever else uses them")
    func payer() {
        var fixture = Self.server(Self.small)
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.report([.outcome(1, status: 200)], pid: 9)
        Self.close(100..<104, in: &fixture)
        fixture.tick()
        fixture.tick(after: 30)
        // Sockets of process 9 that another user's process has used first.
        for serial in 910..<960 as Range<UInt64> {
            let owners = [(8, 33), (9, 9)].map { (pid: Int32, uid: UInt32) in
                var owner = F.owner(F.process(pid), sent: 300)
                owner.uid = uid
                return owner
            }
            fixture.absorb(F.socket(serial, owners, closed: fixture.now))
        }
        fixture.tick()
        fixture.tick(after: 10)
        #expect(fixture.late == Set(100..<104).union(956..<960))
    }

    @Test("claims on closed sockets have an allowance of ranges of their own, beyond which they go with the list")
    func rangesOfLateSockets() {
        var fixture = Self.server()
        let (ranges, one) = (UInt64(ReportLimits.lateRanges.process), UInt64(2 * Coverage.mostRanges))
        let sockets = 1_000..<(1_000 + ranges / one + 2)
        for serial in sockets { fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: 10_000)])) }
        fixture.report(
            sockets.flatMap { socket in
                (0..<UInt64(Coverage.mostRanges)).map { index in
                    var exchange = Report.Exchange.response(
                        socket * 100 + index,
                        from: index * 100,
                        to: index * 100 + 60
                    )
                    exchange.cookie = socket
                    return .exchange(exchange)
                }
            }
        )
        #expect(fixture.claimed.count == sockets.count)
        for serial in sockets {
            fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: 10_000)], closed: fixture.now))
        }
        fixture.tick()
        fixture.tick(after: 30)
        #expect(fixture.late.count == sockets.count - 2)
        #expect(fixture.claimed == fixture.late)
        // Open sockets have their own: with many ranges, whatever closed ones have.
        let open = (0..<UInt64(Coverage.mostRanges)).map { index in
            Report.Record.response(90_000 + index, from: index * 100, to: index * 100 + 60)
        }
        fixture.report(open)
        #expect(fixture.ledger.sockets.claims[7]?.rangeCount == Int(one))
        fixture.tick(after: 60)
        #expect(fixture.claimed == [7])
    }

    @Test("a socket with too many owners can't be reported of once it has left the list", arguments: [0, 1])
    func manyOwners(more: Int32) {
        var fixture = Self.server()
        let most = Int32(LateSocket.mostOwners)
        Self.close(100..<101, in: &fixture, sharers: 20..<(20 + most - 1 + more))
        fixture.tick()
        fixture.tick(after: 30)
        fixture.report([Self.served(100)])
        fixture.settleAll()
        #expect(fixture.counters.joined == (more == 0 ? 2 : 0))
    }
}

extension LedgerFixture {
    fileprivate var counters: ReportCounters { self.ledger.reports.counters }

    /// Serials of sockets that have left the list.
    fileprivate var late: Set<UInt64> { Set(self.ledger.sockets.late.bySerial.keys) }

    /// Serials of sockets with claims.
    fileprivate var claimed: Set<UInt64> { Set(self.ledger.sockets.claims.keys) }

    /// Until nothing waits for the kernel's counts any more.
    fileprivate mutating func settleAll() {
        for _ in 0..<4 { self.report([]) }
    }
}
