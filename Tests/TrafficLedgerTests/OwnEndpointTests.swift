import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

@testable import TrafficLedger

@Suite("A process's own endpoints")
struct OwnEndpointTests {
    private typealias F = LedgerFixture

    /// Processes of one executable and user. Each has a socket of its own, whose cookie is ten times the pid.
    private func service(_ pids: some Sequence<Int32>, uid: UInt32 = 33) -> LedgerFixture {
        var fixture = LedgerFixture()
        for pid in pids { self.start(pid, uid: uid, in: &fixture) }
        return fixture
    }

    private func start(_ pid: Int32, uid: UInt32 = 33, in fixture: inout LedgerFixture) {
        let owner = F.owner(F.process(pid), sent: 1 << 40, received: 1 << 40, name: "web")
        fixture.absorb(
            F.socket(UInt64(pid) * 10, [owner]),
            .details(F.process(pid), .init(name: "web", executable: "/bin/web", uid: uid))
        )
    }

    private func exit(_ pid: Int32, in fixture: inout LedgerFixture) {
        fixture.absorb(.exited(F.process(pid), at: fixture.snapshot.takenAt))
    }

    /// A request of 100 bytes on the process's socket.
    private func request(
        _ number: UInt64,
        of pid: Int32,
        _ route: String,
        _ role: Report.Role = .server
    ) -> Report.Record {
        var exchange = Report.Exchange.request(number, from: number * 100, to: number * 100 + 100)
        (exchange.cookie, exchange.role, exchange.route) = (UInt64(pid) * 10, role, route)
        return .exchange(exchange)
    }

    /// A response of 100 bytes on the process's socket.
    private func response(
        _ number: UInt64,
        of pid: Int32,
        _ route: String,
        _ role: Report.Role = .server,
        _ change: (inout Report.Exchange) -> Void = { _ in }
    ) -> Report.Record {
        var exchange = Report.Exchange.response(number, from: number * 100, to: number * 100 + 100)
        (exchange.cookie, exchange.role, exchange.route) = (UInt64(pid) * 10, role, route)
        change(&exchange)
        return .exchange(exchange)
    }

    private func responses(_ routes: Range<Int>, of pid: Int32, _ role: Report.Role = .server) -> [Report.Record] {
        routes.map { self.response(UInt64($0) + 1, of: pid, "/\($0)", role) }
    }

    private func own(_ fixture: LedgerFixture, _ pid: Int32) -> [ProcessEndpoint]? { fixture.process(pid)?.endpoints }

    /// Responses by route.
    private func counts(_ fixture: LedgerFixture, _ pid: Int32) -> [String: UInt64]? {
        self.own(fixture, pid).map { rows in
            Dictionary(rows.map { ($0.route, $0.responses) }) { _, _ in .max }
        }
    }

    @Test("each process of an executable has rows of its own, which add up to the executable's rows")
    func separate() throws {
        var fixture = self.service([1, 2, 3])
        func outcome(_ role: Report.Role, status: UInt16) -> Report.Record {
            var exchange = Report.Exchange.outcome(1, status: status)
            (exchange.role, exchange.route) = (role, "/orders")
            return .exchange(exchange)
        }
        fixture.report(
            [
                self.request(1, of: 1, "/orders"),
                self.response(1, of: 1, "/orders"), outcome(.server, status: 503),
                self.request(2, of: 1, "/login"),
            ],
            pid: 1
        )
        fixture.report(
            [
                self.request(1, of: 2, "/orders", .client),
                self.response(1, of: 2, "/orders", .client), outcome(.client, status: 200),
                self.request(2, of: 2, "/orders"),
            ],
            pid: 2
        )
        func row(
            _ role: EndpointRole,
            _ route: String,
            _ counts: (UInt64, UInt64, UInt64),
            sent: UInt64,
            received: UInt64
        ) -> ProcessEndpoint {
            ProcessEndpoint(
                role: role,
                host: "api.example",
                route: route,
                requests: counts.0,
                responses: counts.1,
                failures: counts.2,
                sent: sent,
                received: received
            )
        }
        #expect(
            self.own(fixture, 1) == [
                row(.server, "/login", (1, 0, 0), sent: 0, received: 100),
                row(.server, "/orders", (1, 1, 1), sent: 100, received: 100),
            ]
        )
        #expect(
            self.own(fixture, 2) == [
                row(.client, "/orders", (1, 1, 0), sent: 100, received: 100),
                row(.server, "/orders", (1, 0, 0), sent: 0, received: 100),
            ]
        )
        #expect(self.own(fixture, 3) == [])
        let shared = fixture.snapshot.endpoints?.first { $0.role == .server && $0.route == "/orders" }
        #expect(shared?.requests == 2 && shared?.received.message == 200)
    }

    @Test("an inferred record of one process leaves another process's row exact")
    func quality() {
        var fixture = self.service([1, 2])
        fixture.report([self.response(1, of: 1, "/a")], pid: 1)
        fixture.report([self.response(1, of: 2, "/a") { $0.cookie = 0 }], pid: 2)
        #expect(self.own(fixture, 1)?.map(\.quality) == [.exact])
        #expect(self.own(fixture, 2)?.map(\.quality) == [.inferred])
        #expect(fixture.snapshot.endpoints?.map(\.quality) == [.inferred])
    }

    @Test("a process's rows go when it exits, and its late reports still count in its executable's rows")
    func exit() {
        var fixture = self.service([1, 2])
        fixture.report(self.responses(0..<3, of: 1), pid: 1)
        fixture.report(self.responses(0..<3, of: 2), pid: 2)
        self.exit(2, in: &fixture)
        fixture.tick()
        #expect(fixture.process(2)?.state == .exited && self.own(fixture, 2) == nil)
        #expect(self.counts(fixture, 1) == ["/0": 1, "/1": 1, "/2": 1])
        #expect(fixture.snapshot.endpoints?.map(\.responses) == [2, 2, 2])
        fixture.report([self.response(50, of: 2, "/0")], pid: 2)
        #expect(self.own(fixture, 2) == nil && fixture.snapshot.endpoints?.map(\.responses) == [3, 2, 2])
    }

    @Test("a new process gets nothing of an earlier process, whatever the new one reports first")
    func successors() {
        var fixture = self.service([])
        for pid in 1...50 as ClosedRange<Int32> {
            self.start(pid, in: &fixture)
            // Every third process first reports the route that the process before it reported last.
            fixture.report(self.responses(0..<Int(pid % 3) + 1, of: pid).reversed(), pid: pid)
            let routes = (0..<Int(pid % 3) + 1).map { ("/\($0)", 1 as UInt64) }
            #expect(self.counts(fixture, pid) == Dictionary(uniqueKeysWithValues: routes))
            self.exit(pid, in: &fixture)
        }
        fixture.tick()
        #expect(fixture.snapshot.endpoints?.reduce(0) { $0 + $1.responses } == (1...50).reduce(0) { $0 + $1 % 3 + 1 })
    }

    @Test("a process that runs another program, or takes another name, keeps one row for each route")
    func executed() {
        var fixture = self.service([1])
        fixture.report(self.responses(0..<2, of: 1), pid: 1)
        fixture.absorb(.details(F.process(1), .init(name: "web2", executable: "/bin/web2", uid: 33)))
        fixture.report([self.response(10, of: 1, "/1"), self.response(11, of: 1, "/2")], pid: 1)
        #expect(self.counts(fixture, 1) == ["/0": 1, "/1": 2, "/2": 1])
        #expect(fixture.snapshot.endpoints?.count == 4)
    }

    @Test("a process's rows are limited; the rest adds up in one row for each role, and every other row is complete")
    func limit() {
        let limit = ReportLimits.ownRows.process
        var fixture = self.service([1, 2])
        fixture.report(self.responses(0..<limit, of: 1), pid: 1)
        #expect(self.own(fixture, 1)?.count == limit)
        #expect(self.counts(fixture, 1)?[EndpointUsage.other] == nil)

        fixture.report(self.responses(limit..<limit + 3, of: 1), pid: 1)
        fixture.report([self.response(9_000, of: 1, "/0")], pid: 1)
        #expect(self.own(fixture, 1)?.count == limit + 1)
        #expect(self.counts(fixture, 1)?[EndpointUsage.other] == 3 && self.counts(fixture, 1)?["/0"] == 2)
        let rest = self.own(fixture, 1)?.first { $0.route == EndpointUsage.other }
        #expect(rest?.host == EndpointUsage.other && rest?.role == .server && rest?.sent == 300)
        fixture.report([self.response(9_001, of: 1, "/0", .client)], pid: 1)
        #expect(self.own(fixture, 1)?.filter { $0.route == EndpointUsage.other }.map(\.role) == [.client, .server])
        // The executable's rows are not affected, and nothing is missing.
        #expect(fixture.snapshot.endpoints?.count == limit + 4 && fixture.snapshot.capture.reports.inOther == 0)
        #expect(self.own(fixture, 1)?.reduce(0) { $0 + $1.sent } == UInt64(limit + 4) * 100)
        fixture.report(self.responses(0..<1, of: 2), pid: 2)
        #expect(self.counts(fixture, 2) == ["/0": 1])
    }

    @Test("a user's rows are limited, another user keeps its own; a process that exits frees its rows")
    func limitOfUser() {
        let (process, user) = (ReportLimits.ownRows.process, ReportLimits.ownRows.user)
        let greedy = user / process
        let pids = 1...Int32(greedy)
        var fixture = self.service(pids, uid: 9)
        for pid in pids { fixture.report(self.responses(0..<process, of: pid), pid: pid) }
        let (late, stranger, last) = (Int32(100), Int32(101), Int32(102))
        self.start(late, uid: 9, in: &fixture)
        self.start(stranger, in: &fixture)
        #expect(pids.allSatisfy { self.own(fixture, $0)?.count == process })
        fixture.report(self.responses(0..<2, of: late), pid: late)
        #expect(self.counts(fixture, late) == [EndpointUsage.other: 2])
        fixture.report(self.responses(0..<2, of: stranger), pid: stranger)
        #expect(self.counts(fixture, stranger) == ["/0": 1, "/1": 1])

        self.exit(1, in: &fixture)
        self.start(last, uid: 9, in: &fixture)
        fixture.report(self.responses(0..<2, of: last), pid: last)
        #expect(self.counts(fixture, last) == ["/0": 1, "/1": 1])
        // A row of its own would lack the responses that the row for the rest already has.
        fixture.report([self.response(10, of: late, "/0")], pid: late)
        #expect(self.counts(fixture, late) == [EndpointUsage.other: 3])
        fixture.report(self.responses(2..<process, of: last), pid: last)
        #expect(self.own(fixture, last)?.count == process)
        fixture.report([self.response(9_000, of: last, "/more")], pid: last)
        #expect(self.counts(fixture, last)?[EndpointUsage.other] == 1)
    }

    @Test(
        "whatever the processes report, their rows add up to the executable's rows",
        arguments: 0..<10 as Range<UInt64>
    )
    func sums(seed: UInt64) {
        var random = Seeded(seed)
        let pids = 1...5 as ClosedRange<Int32>
        var fixture = self.service(pids)
        for round in 0..<40 as Range<UInt64> {
            let pid = Int32.random(in: pids, using: &random)
            let records = (0..<UInt64.random(in: 1...20, using: &random)).map { index in
                let exchange = round * 20 + index + 1
                let role: Report.Role = exchange.isMultiple(of: 3) ? .client : .server
                let route = "/\(UInt8.random(in: 0..<6, using: &random))"
                switch Int.random(in: 0..<3, using: &random) {
                case 0: return self.request(exchange, of: pid, route, role)
                case 1: return self.response(exchange, of: pid, route, role)
                default:
                    let status: UInt16 = Bool.random(using: &random) ? 200 : 404
                    var outcome = Report.Exchange.outcome(exchange, status: status)
                    (outcome.role, outcome.route) = (role, route)
                    return Report.Record.exchange(outcome)
                }
            }
            fixture.report(records, pid: pid)
        }
        var sums: [String: ProcessEndpoint] = [:]
        for row in pids.flatMap({ self.own(fixture, $0) ?? [] }) {
            let none = ProcessEndpoint(role: row.role, host: row.host, route: row.route)
            sums[row.role.rawValue + row.route, default: none] += row
        }
        let rows = fixture.snapshot.endpoints ?? []
        #expect(rows.count == sums.count && !rows.isEmpty)
        for row in rows {
            let sum = sums[row.role.rawValue + (row.route ?? "")]
            #expect(sum?.requests == row.requests && sum?.responses == row.responses && sum?.failures == row.failures)
            #expect(sum?.sent == row.sent.message && sum?.received == row.received.message)
        }
    }

    @Test("impossible numbers trap nothing")
    func hostile() {
        var fixture = self.service([1])
        for exchange in 1...3 as ClosedRange<UInt64> {
            let response = self.response(exchange, of: 1, "/a") {
                $0.cookie = 0
                $0.response?.lineBytes = .max
                $0.response?.headerBytes = .max
                $0.response?.bodyBytes = .max
            }
            fixture.report([response], pid: 1)
        }
        #expect(self.own(fixture, 1)?.map(\.responses) == [3])
        #expect(self.own(fixture, 1)?.map(\.sent) == fixture.snapshot.endpoints?.map(\.sent.message))
    }
}

private func += (left: inout ProcessEndpoint, right: ProcessEndpoint) {
    left.requests += right.requests
    left.responses += right.responses
    left.failures += right.failures
    left.sent += right.sent
    left.received += right.received
}
