import Testing
import TrafficEvents
import TrafficLimits
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
        fixture.absorb(
            .reports(reports.map { ReceivedReport(pid: pid, uid: 0, startTicks: 0, datagram: $0) }, dropped: 0)
        )
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

    @Test("the subordinate ids of a user have the rows and services of one user, and one rest")
    func subordinateIDs() {
        var accounts = EndpointAccounts(limits: self.limits(service: 3, user: 5))
        for id in 0..<50 as Range<UInt32> { self.add(0..<2, of: "a", 131_072 + id, to: &accounts) }
        // Five rows and their rest, and the rows of the service for the rest.
        #expect(accounts.usages.count == 5 + 1 + 2)
        #expect(self.rows(accounts, EndpointUsage.other, nil).values.reduce(0, +) == 2 * 47)
        self.add(0..<2, of: "a", 33, to: &accounts)
        #expect(self.rows(accounts, "a", 33) == ["/0": 1, "/1": 1])
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
            let sender = ReportSender(identity: F.process(pid), user: PayingUser(user), name: "web")
            for exchange in exchanges {
                _ = table.add(.response(exchange, from: 0, to: 100), of: sender, group)
            }
        }
        func end(_ exchanges: ClosedRange<UInt64>, _ pid: Int32, _ user: UInt32) {
            let sender = ReportSender(identity: F.process(pid), user: PayingUser(user), name: "web")
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

    @Test("a forgotten exchange number that comes again is the newest, whatever its old place was")
    func numbersAgain() {
        var table = ExchangeTable(
            open: Allowance(process: 2, user: 3, all: 9),
            ended: Allowance(process: 2, user: 2, all: 4)
        )
        var totals = EndpointTotals()
        let group = totals.group(ProcessGroup(name: "web"))
        for (pid, exchange) in [(2, 1), (2, 2), (2, 3), (2, 1), (3, 7), (3, 8)] as [(Int32, UInt64)] {
            let sender = ReportSender(identity: F.process(pid), user: PayingUser(9), name: "web")
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
