import Testing
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// What one process or user may make the daemon keep, at each limit's edge, and that it costs nobody else.
@Suite("Limits of reports, for each process and user")
struct ReportLimitTests {
    private typealias F = LedgerFixture

    /// Process 1 is user 33's, with socket 7; processes 2, 3 and 4 are user 9's, with the sockets 20, 30 and 40.
    private func strangers() -> LedgerFixture {
        var fixture = LedgerFixture.reporting()
        for pid in [2, 3, 4] as [Int32] {
            fixture.absorb(
                F.socket(UInt64(pid) * 10, [F.owner(F.process(pid), sent: 1_000_000)]),
                .details(F.process(pid), .init(name: "flood\(pid)", uid: 9))
            )
        }
        return fixture
    }

    /// Claims for bytes that the kernel will never count.
    private func impossible(_ count: Int, cookie: UInt64) -> [Report.Record] {
        (0..<count).map { index in
            var exchange = Report.Exchange.response(UInt64(index + 1), from: 1 << 40, to: 1 << 40 + 100)
            exchange.cookie = cookie
            return .exchange(exchange)
        }
    }

    /// Sends records without a tick.
    private func send(_ records: [Report.Record], of pid: Int32, to fixture: inout LedgerFixture) {
        let reports = records.isEmpty ? [] : datagrams(records)
        fixture.absorb(.reports(reports.map { ReceivedReport(pid: pid, startTicks: 0, datagram: $0) }, dropped: 0))
    }

    @Test("a process and a user may have a limited number of claims waiting; another user's claims still wait")
    func waiting() {
        var fixture = self.strangers()
        let (process, user) = (ReportLimits.waitingRecords.process, ReportLimits.waitingRecords.user)
        var counters: ReportCounters { fixture.snapshot.capture.reports }
        self.send(self.impossible(process, cookie: 20), of: 2, to: &fixture)
        #expect(counters.early == UInt64(process) && counters.unwaited == 0 && counters.impossible == 0)
        self.send(self.impossible(1, cookie: 20), of: 2, to: &fixture)
        #expect(counters.early == UInt64(process) && counters.unwaited == 1 && counters.impossible == 1)
        // Another process of the user gets the rest of the user's limit.
        self.send(self.impossible(user - process, cookie: 30), of: 3, to: &fixture)
        #expect(counters.early == UInt64(user) && counters.unwaited == 1)
        self.send(self.impossible(1, cookie: 40), of: 4, to: &fixture)
        #expect(counters.early == UInt64(user) && counters.unwaited == 2 && counters.impossible == 2)

        fixture.report([.response(1, from: 0, to: 1_500), .outcome(1, status: 200)])
        #expect(counters.early == UInt64(user) + 2 && counters.unwaited == 2)
        fixture.move(sent: 1_500, received: 300)
        fixture.report([])
        #expect(fixture.process(1)?.explained == 1_500 && fixture.process(1)?.unattributed == 300)
        for _ in 0..<3 { fixture.report([]) }
        #expect(counters.impossible == UInt64(user) + 2 && counters.unwaited == 2)
        // The user's claims may wait again.
        self.send(self.impossible(1, cookie: 40), of: 4, to: &fixture)
        #expect(counters.unwaited == 2)
    }

    @Test("a claim waits for three ticks, however many rounds a flood adds between the ticks")
    func patience() {
        var fixture = LedgerFixture.reporting()
        self.send([.response(1, from: 0, to: 1_500)], of: 1, to: &fixture)
        for _ in 0..<50 { self.send([], of: 1, to: &fixture) }
        for _ in 0..<2 {
            fixture.tick()
            for _ in 0..<50 { self.send([], of: 1, to: &fixture) }
        }
        #expect(fixture.snapshot.capture.reports.impossible == 0)
        fixture.move(sent: 1_500, received: 300)
        self.send([], of: 1, to: &fixture)
        #expect(fixture.process(1)?.explained == 1_500)
        // A claim that never fits ends with the third tick.
        self.send([.response(2, from: 1_500, to: 9_000)], of: 1, to: &fixture)
        for ticks in 1...3 {
            fixture.tick()
            self.send([], of: 1, to: &fixture)
            #expect(fixture.snapshot.capture.reports.impossible == (ticks == 3 ? 1 : 0))
        }
    }

    private func limits(service: Int, user: Int, all: Int = 1_000) -> ReportLimits.Rows {
        var limits = ReportLimits.Rows()
        (limits.ofService, limits.ofUser, limits.all) = (service, user, all)
        (limits.servicesOfUser, limits.fineOfUser, limits.fine) = (3, 2, 3)
        return limits
    }

    /// Counts one response for each route.
    private func add(_ routes: Range<Int>, of service: String, _ user: UInt32, to accounts: inout EndpointAccounts) {
        let group = accounts.group(ProcessGroup(name: service, uid: user))
        for route in routes {
            let row = accounts.row(of: .init(.server, .route(host: "h", route: "/\(route)")), in: group)
            accounts.add(Report.Exchange.response(1, from: 0, to: 100).share, to: row)
        }
    }

    private func rows(_ accounts: EndpointAccounts, _ service: String, _ user: UInt32?) -> [String: UInt64] {
        var accounts = accounts
        accounts.summarize()
        let rows = accounts.usages.filter { $0.process.name == service && $0.process.uid == user }
        return Dictionary(uniqueKeysWithValues: rows.map { ($0.route ?? "", $0.responses) })
    }

    @Test("the rows of a service and of a user are limited, the rest has own rows, and another user keeps its rows")
    func rows() {
        let other = EndpointUsage.other
        var accounts = EndpointAccounts(limits: self.limits(service: 3, user: 5))
        self.add(0..<3, of: "a", 9, to: &accounts)
        #expect(self.rows(accounts, "a", 9) == ["/0": 1, "/1": 1, "/2": 1])
        self.add(3..<4, of: "a", 9, to: &accounts)
        #expect(self.rows(accounts, "a", 9) == ["/0": 1, "/1": 1, "/2": 1, other: 1])
        // The row for the rest counts for the user's limit, too: one row is left.
        self.add(0..<2, of: "b", 9, to: &accounts)
        #expect(self.rows(accounts, "b", 9) == ["/0": 1, other: 1])
        // A new service gets no row of its own any more: its responses count in the user's row for the rest.
        self.add(0..<4, of: "c", 9, to: &accounts)
        #expect(self.rows(accounts, "c", 9).isEmpty && self.rows(accounts, other, 9) == [other: 4])
        // A route that has a row keeps the row.
        self.add(0..<3, of: "a", 9, to: &accounts)
        #expect(self.rows(accounts, "a", 9) == ["/0": 2, "/1": 2, "/2": 2, other: 1])

        self.add(0..<3, of: "a", 33, to: &accounts)
        #expect(self.rows(accounts, "a", 33) == ["/0": 1, "/1": 1, "/2": 1])
    }

    @Test("a user has a limited number of services, whatever names the user's processes have")
    func services() {
        var accounts = EndpointAccounts(limits: self.limits(service: 3, user: 100))
        for service in 0..<3 { self.add(0..<1, of: "s\(service)", 9, to: &accounts) }
        #expect(self.rows(accounts, "s2", 9) == ["/0": 1])
        for service in 3..<100 { self.add(0..<2, of: "s\(service)", 9, to: &accounts) }
        #expect(self.rows(accounts, "s3", 9).isEmpty)
        #expect(self.rows(accounts, EndpointUsage.other, 9).values.reduce(0, +) == 2 * 97)
        self.add(0..<1, of: "s3", 33, to: &accounts)
        #expect(self.rows(accounts, "s3", 33) == ["/0": 1])
    }

    @Test("records in rows for the rest are counted as such")
    func inOther() {
        var fixture = LedgerFixture.reporting(sent: 1 << 30)
        let count = ReportLimits.Rows().ofService
        let records = (0..<count + 2).map { index in
            let from = UInt64(index) * 50
            var exchange = Report.Exchange.response(UInt64(index) + 1, from: from, to: from + 50)
            exchange.route = "/\(index)"
            return Report.Record.exchange(exchange)
        }
        fixture.report(Array(records.prefix(count)))
        #expect(fixture.snapshot.capture.reports.inOther == 0)
        fixture.report(Array(records.suffix(2)))
        #expect(fixture.snapshot.capture.reports.inOther == 2)
        #expect(fixture.process(1)?.explained == UInt64(count + 2) * 50)
    }

    @Test("a row keeps a few exact durations; beyond that it keeps a histogram, as fine as the limits allow")
    func durations() throws {
        let few = ReportLimits.durationsAsTheyAre
        var accounts = EndpointAccounts(limits: self.limits(service: 100, user: 100))
        func record(_ user: UInt32, _ route: Int, _ values: some Sequence<UInt64>) -> EndpointUsage.Durations? {
            let group = accounts.group(ProcessGroup(name: "a", uid: user))
            let row = accounts.row(of: .init(.server, .route(host: "h", route: "/\(route)")), in: group)
            for value in values {
                var exchange = Report.Exchange.outcome(1, status: 200)
                let (duration, isTooMuch) = value.multipliedReportingOverflow(by: 1_000)
                exchange.outcome?.duration = isTooMuch ? .max : duration
                accounts.add(exchange.share, to: row)
            }
            var copy = accounts
            copy.summarize()
            return copy.usages.first { $0.process.uid == user && $0.route == "/\(route)" }?.duration
        }
        #expect(record(9, 0, []) == nil)
        #expect(record(9, 0, [7]) == .init(count: 1, p50: 7, p90: 7, p99: 7, max: 7))
        // The values are exact to the microsecond and come out of order.
        let first = try #require(record(9, 0, (1..<UInt64(few)).map { ($0 * 7_919) % 31 * 100_003 }))
        #expect(first.count == few && first.max == 30 * 100_003)
        // An impossibly long duration counts as a day.
        let all = try #require(record(9, 0, [.max]))
        #expect(all.count == few + 1 && all.max >= 86_400_000_000 && all.max < 87_000_000_000)

        let busy = Array(repeating: 123_456 as UInt64, count: few + 1)
        for (user, route, digits) in [(9, 1, 0.01), (9, 2, 0.1), (33, 0, 0.01), (33, 1, 0.1)] as [(UInt32, Int, Double)]
        {
            let durations = try #require(record(user, route, busy))
            let error = abs(Double(durations.p50) / 123_456 - 1)
            #expect(error < digits && durations.count == few + 1, "user \(user), row \(route): \(error)")
        }
    }

    @Test("the open exchanges of a process and of a user are limited; another user's stay")
    func exchanges() {
        var table = ExchangeTable(
            open: Allowance(process: 3, user: 5, all: 7),
            ended: Allowance(process: 2, user: 2, all: 4)
        )
        var totals = EndpointTotals()
        let group = totals.group(ProcessGroup(name: "web"))
        func begin(_ exchanges: ClosedRange<UInt64>, _ pid: Int32, _ user: UInt32) {
            let sender = ReportSender(identity: F.process(pid), user: user, name: "web")
            for exchange in exchanges {
                _ = table.add(.response(exchange, from: 0, to: 100), of: sender, group)
            }
        }
        func end(_ exchanges: ClosedRange<UInt64>, _ pid: Int32, _ user: UInt32) {
            let sender = ReportSender(identity: F.process(pid), user: user, name: "web")
            for exchange in exchanges {
                _ = table.add(.outcome(exchange, status: 200), of: sender, group)
            }
        }
        begin(1...2, 1, 33)
        begin(11...13, 2, 9)
        #expect(table.forgotten == 0)
        begin(14...14, 2, 9)
        #expect(table.forgotten == 1 && table.snapshot.map(\.exchange) == [1, 2, 12, 13, 14])
        begin(21...22, 3, 9)
        #expect(table.forgotten == 1)
        // The user's oldest exchange makes room, whichever of the user's processes has it.
        begin(23...23, 3, 9)
        #expect(table.forgotten == 2 && table.snapshot.map(\.exchange) == [1, 2, 13, 14, 21, 22, 23])
        // There is no room, and other users' exchanges do not make room: the new exchange is not remembered.
        begin(31...31, 4, 12)
        #expect(table.forgotten == 3 && table.snapshot.map(\.exchange) == [1, 2, 13, 14, 21, 22, 23])
        end(1...1, 1, 33)
        end(13...14, 2, 9)
        begin(31...31, 4, 12)
        #expect(table.snapshot.map(\.exchange) == [1, 13, 14, 2, 21, 22, 23, 31])
        // The user's oldest ended exchange goes.
        end(21...21, 3, 9)
        #expect(table.snapshot.map(\.exchange) == [1, 14, 21, 2, 22, 23, 31])
        end(31...31, 4, 12)
        // When the limit for all is exceeded by a quarter, the users with the most ended exchanges lose some.
        end(41...41, 5, 12)
        end(51...51, 6, 13)
        #expect(table.snapshot.map(\.exchange).count { $0 < 10 } == 2)
        #expect(table.snapshot.map(\.exchange).count { [14, 21, 31, 41, 51].contains($0) } == 3)
        table.forget(process: F.process(3))
        #expect(!table.snapshot.contains { $0.exchange == 22 || $0.exchange == 23 })
    }

    /// Sockets of process 1, the reporting server of the fixture, and of process 9, which does not report.
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
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        Self.close(100..<104, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.report([Self.served(100)])
        fixture.tick(after: 30)
        #expect(fixture.snapshot.sockets?.map(\.serial) == [7])
        fixture.report([Self.served(101), Self.served(100)])
        #expect(fixture.ledger.reports.counters.joined == 4 && fixture.ledger.reports.counters.duplicate == 2)
        fixture.ledger = try Ledger(checkpoint: fixture.ledger.checkpoint())
        fixture.tick(after: 20)
        fixture.report([Self.served(102), Self.served(101)])
        #expect(fixture.ledger.reports.counters.joined == 6 && fixture.ledger.reports.counters.duplicate == 4)
        let server = fixture.snapshot.processes?.first { $0.identity.pid == 1 }
        #expect(server?.explained == 3 * 400)
        // The minute is over.
        fixture.tick(after: 10)
        #expect(fixture.ledger.reports.claims.isEmpty)
        fixture.report([Self.served(103)])
        fixture.report([Self.served(900)], pid: 9)
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.joined == 6 && fixture.ledger.reports.counters.late == 4)
    }

    @Test("only its owners can report of a socket that has left the list")
    func lateReportsOfOthers() {
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        Self.close(100..<102, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.tick(after: 30)
        fixture.report([Self.served(100)], pid: 9)
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.foreign == 2 && fixture.ledger.reports.counters.joined == 0)
        fixture.report([Self.served(100)])
        #expect(fixture.ledger.reports.counters.joined == 2)
        // Another capture may give their serials to other sockets.
        fixture.ledger.changeCapture(uncountedNanoseconds: 1)
        #expect(fixture.ledger.reports.claims.isEmpty)
        fixture.report([Self.served(101)])
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.joined == 2)
    }

    @Test("a user's own closed sockets displace those for which reports may come late, and not another user's")
    func limitOfLateReports() {
        var fixture = LedgerFixture(
            retention: Ledger.Retention(closedSocketLimit: .init(3, inAll: 50), lateSocketLimit: .init(4, inAll: 50))
        )
        fixture.move(sent: 1_000, received: 300)
        fixture.absorb(.details(F.process(1), .init(name: "web", uid: 33)))
        fixture.report([.outcome(1, status: 200)])
        Self.close(100..<110, in: &fixture)
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.report([.outcome(1, status: 200)], pid: 9)
        Self.close(901..<950, in: &fixture)
        // Three are listed, and four have left the list.
        fixture.report((100..<110).map(Self.served))
        #expect(fixture.ledger.reports.counters.joined == 14)
        fixture.report((900..<950).map(Self.served), pid: 9)
        #expect(fixture.ledger.reports.counters.joined == 28)
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.joined == 28 && fixture.ledger.reports.counters.late == 6 + 86)
    }

    @Test("a cookie that several sockets have names none of them, also when one has left the list", arguments: 1...2)
    func lateReportsOfSubflows(listed: UInt64) {
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        let owner = F.owner(F.process(1), sent: 300, received: 100)
        let socket = { (serial: UInt64, closed: UInt64?) in
            guard case .socket(var observation) = F.socket(50, [owner], closed: closed) else { preconditionFailure() }
            observation.serial = serial
            return CaptureEvent.socket(observation)
        }
        fixture.absorb(socket(100, fixture.now))
        fixture.tick(after: 30)
        for serial in 101...(100 + listed) { fixture.absorb(socket(serial, nil)) }
        fixture.report([Self.served(50)])
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.joined == 0 && fixture.ledger.reports.counters.late == 2)
    }

    @Test("a socket that is listed again keeps its claims, and what it moves then can be claimed")
    func listedAgain() {
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        Self.close(100..<101, in: &fixture)
        fixture.report([Self.served(100)])
        fixture.tick(after: 30)
        #expect(Array(fixture.ledger.lateSockets.serials) == [100])
        fixture.absorb(F.socket(100, [F.owner(F.process(1), sent: 700, received: 200)]))
        #expect(fixture.ledger.lateSockets.serials.isEmpty)
        fixture.tick(after: 60)
        var second = Report.Exchange.request(200, from: 100, to: 200)
        (second.cookie, second.response) = (100, Report.Exchange.response(200, from: 300, to: 700).response)
        fixture.report([Self.served(100), .exchange(second)])
        #expect(fixture.ledger.reports.counters.joined == 4 && fixture.ledger.reports.counters.duplicate == 2)
    }

    @Test("claims go with their socket: displaced, too old, or never kept")
    func forgottenClaims() {
        var fixture = LedgerFixture(
            retention: Ledger.Retention(closedSocketLimit: .init(3, inAll: 50), lateSocketLimit: .init(4, inAll: 50))
        )
        fixture.move(sent: 1_000, received: 300)
        fixture.absorb(.details(F.process(1), .init(name: "web", uid: 33)))
        fixture.report([.outcome(1, status: 200)])
        for serial in 100..<110 as Range<UInt64> {
            fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: 300, received: 100)]))
        }
        fixture.report((100..<110).map(Self.served))
        #expect(fixture.ledger.reports.claims.count == 10)
        for serial in 100..<110 as Range<UInt64> { Self.close(serial..<(serial + 1), in: &fixture) }
        #expect(Set(fixture.ledger.reports.claims.keys) == Set(103..<110))
        #expect(Set(fixture.ledger.lateSockets.serials) == Set(103..<107))
        fixture.ledger.configure(
            retention: Ledger.Retention(closedSocketLimit: .init(3, inAll: 50), lateSocketLimit: .init(2, inAll: 50)),
            classes: AddressClasses()
        )
        fixture.tick()
        #expect(Set(fixture.ledger.lateSockets.serials) == [105, 106])
        #expect(Set(fixture.ledger.reports.claims.keys) == Set(105..<110))
        // The last ones leave the list with the first tick.
        for _ in 0..<2 { fixture.tick(after: 70) }
        #expect(fixture.ledger.reports.claims.isEmpty && fixture.ledger.lateSockets.serials.isEmpty)
    }

    @Test("whatever comes, claims stay no longer than their sockets", arguments: 0..<6 as Range<UInt64>)
    func claimsAndSockets(seed: UInt64) throws {
        var ledger = try CheckpointTests.ledger()
        var late = 0
        for event in RandomEvents.events(seed: seed, rounds: 90) {
            ledger.absorb(event)
            guard case .tick = event else { continue }
            let listed = Set(ledger.sockets.accounts.keys)
            let presumed = Set(ledger.presumedClosed.accounts.map(\.observation.serial))
            try #require(listed.isDisjoint(with: ledger.lateSockets.serials))
            let claimed = Set(ledger.reports.claims.keys).subtracting(listed).subtracting(presumed)
            try #require(claimed.isSubset(of: ledger.lateSockets.serials))
            late += claimed.count
        }
        #expect(late > 0)
        let end = 900_000_000_000_000 as UInt64
        // Also those that wait for the news of further owners, and then leave the list.
        for second in 0..<4 as Range<UInt64> {
            ledger.absorb(.tick(at: Timestamp(nanosecondsSinceEpoch: 0), boottimeNanoseconds: end + second))
        }
        #expect(ledger.lateSockets.serials.isEmpty)
    }

    @Test("sockets without anything to claim take no places: no payload, no cookie, no connection")
    func unclaimable() {
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        for serial in 100..<105 as Range<UInt64> {
            let owner = F.owner(F.process(1), sent: serial == 101 ? 0 : 300)
            guard case .socket(var observation) = F.socket(serial, [owner], closed: fixture.now) else { return }
            if serial == 102 { observation.cookie = SocketCookie(rawValue: 0) }
            if serial == 103 { observation.transport = .udp }
            fixture.absorb(.socket(observation))
        }
        fixture.tick(after: 30)
        #expect(fixture.ledger.lateSockets.serials.sorted() == [100, 104])
    }

    @Test("the user of the process that reports pays for its sockets, whoever else uses them")
    func payer() {
        var fixture = LedgerFixture(
            retention: Ledger.Retention(closedSocketLimit: .init(3, inAll: 50), lateSocketLimit: .init(4, inAll: 50))
        )
        fixture.move(sent: 1_000, received: 300)
        fixture.absorb(.details(F.process(1), .init(name: "web", uid: 33)))
        fixture.report([.outcome(1, status: 200)])
        Self.close(900..<901, in: &fixture)
        fixture.absorb(.details(F.process(9), .init(name: "other", uid: 9)))
        fixture.report([.outcome(1, status: 200)], pid: 9)
        Self.close(100..<104, in: &fixture)
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
        fixture.tick(after: 10)
        #expect(Set(fixture.ledger.lateSockets.serials) == Set(100..<104).union(956..<960))
    }

    @Test("claims on closed sockets have an allowance of ranges of their own, beyond which they go with the list")
    func rangesOfLateSockets() {
        var fixture = LedgerFixture.reporting(sent: 10_000)
        fixture.report([.outcome(1, status: 200)])
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
        #expect(fixture.ledger.reports.claims.count == sockets.count)
        for serial in sockets {
            fixture.absorb(F.socket(serial, [F.owner(F.process(1), sent: 10_000)], closed: fixture.now))
        }
        fixture.tick(after: 30)
        #expect(fixture.ledger.lateSockets.serials.count == sockets.count - 2)
        #expect(Set(fixture.ledger.reports.claims.keys) == Set(fixture.ledger.lateSockets.serials))
        // Open sockets have their own: with many ranges, whatever closed ones have.
        let open = (0..<UInt64(Coverage.mostRanges)).map { index in
            Report.Record.response(90_000 + index, from: index * 100, to: index * 100 + 60)
        }
        fixture.report(open)
        #expect(fixture.ledger.reports.claims[7]?.rangeCount == Int(one))
        fixture.tick(after: 60)
        #expect(Set(fixture.ledger.reports.claims.keys) == [7])
    }

    @Test("a socket with too many owners can't be reported of once it has left the list", arguments: [0, 1])
    func manyOwners(more: Int32) {
        var fixture = LedgerFixture.reporting()
        fixture.report([.outcome(1, status: 200)])
        let most = Int32(LateSockets.mostOwners)
        Self.close(100..<101, in: &fixture, sharers: 20..<(20 + most - 1 + more))
        fixture.tick(after: 30)
        fixture.report([Self.served(100)])
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.ledger.reports.counters.joined == (more == 0 ? 2 : 0))
    }

    @Test("a forgotten exchange number that comes again is the newest, whatever its old place was")
    func numbersAgain() {
        var table = ExchangeTable(
            open: Allowance(process: 2, user: 3, all: 9),
            ended: Allowance(process: 2, user: 2, all: 4)
        )
        var totals = EndpointTotals()
        let group = totals.group(ProcessGroup(name: "web"))
        for (pid, exchange) in [(2, 1), (2, 2), (2, 3), (2, 1), (3, 7), (3, 8)] as [(Int32, UInt64)] {
            let sender = ReportSender(identity: F.process(pid), user: 9, name: "web")
            _ = table.add(.response(exchange, from: 0, to: 100), of: sender, group)
        }
        #expect(table.snapshot.map(\.exchange) == [1, 7, 8])
    }

    @Test("beyond a process's limit of ranges a gap counts as claimed, and no byte counts twice")
    func ranges() {
        var coverage = Coverage()
        for index in 0..<200 as Range<UInt64> {
            let limit = index < 100 ? Coverage.mostRanges : Coverage.fewestRanges
            #expect(coverage.claim(.init(from: index * 10, to: index * 10 + 1), limit: limit) == .accepted)
            #expect(coverage.rangeCount <= 2 * limit)
        }
        #expect(coverage.bytes == 200 && coverage.rangeCount == 2 * Coverage.fewestRanges)
        // The first byte is in a gap that counts as claimed by now, the second in a gap that is still free.
        #expect(coverage.claim(.init(from: 5, to: 6), limit: Coverage.fewestRanges) == .duplicate)
        #expect(coverage.claim(.init(from: 1_985, to: 1_986), limit: Coverage.fewestRanges) == .accepted)
        #expect(coverage.bytes == 201)
    }

    @Test("method, host and route are cut to their longest lengths, in rows and exchanges")
    func names() throws {
        var fixture = LedgerFixture.reporting()
        var response = Report.Exchange.response(1, from: 0, to: 100)
        response.name = .init(
            method: String(repeating: "M", count: 1_000),
            host: String(repeating: "h", count: 1_000),
            route: String(repeating: "é", count: 500)
        )
        fixture.report([.exchange(response)])
        let exchange = try #require(fixture.reading.exchanges.first)
        let lengths = [exchange.method, exchange.host, exchange.route].map(\.utf8.count)
        #expect(lengths == [ReportLimits.longestMethod, ReportLimits.longestHost, ReportLimits.longestRoute])
        #expect(fixture.snapshot.endpoints?.first?.host?.utf8.count == ReportLimits.longestHost)
    }
}
