import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// Compares programs' reports with the kernel's counts. The events are made up, so that every disagreement can occur.
@Suite("Reports in the ledger")
struct ReportTests {
    @Test("a report within the kernel's counts is joined and explains its bytes once; the rest stays unattributed")
    func joined() throws {
        var fixture = LedgerFixture.reporting()
        fixture.report([
            .request(1, from: 0, to: 100), .response(1, from: 0, to: 700), .outcome(1, status: 200),
        ])
        let process = try #require(fixture.process(1))
        #expect(process.explained == 800 && process.unattributed == 500)
        #expect(fixture.socket(7)?.explained == 800 && fixture.socket(7)?.unattributed == 500)
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        #expect(endpoint.process == ProcessGroup(name: "web", executable: "/bin/web", uid: 33))
        #expect(endpoint.role == .server && endpoint.host == "api.example" && endpoint.route == "/users/{id}")
        #expect(endpoint.requests == 1 && endpoint.responses == 1 && endpoint.outcomes == [.ok: 1])
        #expect(endpoint.received.total == 100 && endpoint.sent.total == 700)
        #expect(endpoint.sent == MessageBytes(line: 20, header: 30, cookie: 5, body: 650))
        #expect(endpoint.quality == .exact && endpoint.duration?.count == 1 && endpoint.waste.total == 0)
        #expect(fixture.snapshot.capture.reports.joined == 2 && fixture.snapshot.capture.reports.rejected == 0)
    }

    @Test("a claim that comes before the kernel's count waits for it; one that never fits is impossible")
    func early() {
        var fixture = LedgerFixture.reporting()
        fixture.report([
            .request(1, from: 0, to: 100), .response(1, from: 0, to: 1_500), .outcome(1, status: 200),
        ])
        #expect(fixture.process(1)?.explained == 100)
        // The outcome does not overtake the response that waits.
        #expect(fixture.snapshot.endpoints?.first?.outcomes == [:])
        fixture.move(sent: 1_500, received: 300)
        fixture.report([])
        #expect(fixture.process(1)?.explained == 1_600)
        #expect(fixture.snapshot.endpoints?.first?.outcomes == [.ok: 1])
        #expect(fixture.snapshot.capture.reports.early == 2)

        fixture.report([.request(2, from: 200, to: 301)])
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.process(1)?.explained == 1_600)
        #expect(fixture.snapshot.capture.reports.impossible == 1)
        #expect(fixture.snapshot.capture.loss.reportsRejected == 1)
    }

    @Test("a process can't claim another process's socket, whatever it reports")
    func foreign() {
        var fixture = LedgerFixture.reporting()
        let other = LedgerFixture.process(2)
        fixture.absorb(
            LedgerFixture.socket(8, [LedgerFixture.owner(other, sent: 10)]),
            .details(other, .init(name: "evil", uid: 9))
        )
        for _ in 0..<4 {
            fixture.report([.response(1, from: 0, to: 700), .connection(.init(cookie: 7))], pid: 2)
        }
        fixture.report([.response(1, from: 0, to: 700)], pid: 99)
        for _ in 0..<3 { fixture.report([]) }
        let reports = fixture.snapshot.capture.reports
        #expect(reports.foreign == 8 && reports.unknownProcess == 1 && reports.joined == 0)
        #expect(fixture.snapshot.endpoints?.isEmpty == true)
        #expect(fixture.process(1)?.explained == 0 && fixture.process(2)?.explained == 0)
        // A later process with the pid of the owner is not the owner.
        fixture.report([.response(1, from: 0, to: 700)], startTicks: 77)
        #expect(fixture.snapshot.capture.reports.unknownProcess == 2)
    }

    @Test("a report that is read when its sender is gone is of a process that ran as the sender's user")
    func gone() {
        var fixture = LedgerFixture()
        let process = LedgerFixture.process(1)
        func use(_ serial: UInt64, as uid: UInt32) {
            var owner = LedgerFixture.owner(process, sent: 1_000, received: 3_000, name: "web")
            owner.uid = uid
            fixture.absorb(LedgerFixture.socket(serial, [owner]))
        }
        use(7, as: 33)
        fixture.absorb(.details(process, .init(name: "web", uid: 33)))
        func joined(_ number: UInt64, as uid: UInt32, startTicks: UInt64? = nil) -> Bool {
            let reports = { (fixture: LedgerFixture) in fixture.snapshot.capture.reports }
            let before = reports(fixture)
            fixture.report(
                [.request(number, from: number * 100, to: number * 100 + 100)],
                uid: uid,
                startTicks: startTicks
            )
            let after = reports(fixture)
            // Decided at once: a report of nobody does not wait.
            #expect(after.joined + after.unknownProcess == before.joined + before.unknownProcess + 1)
            return after.joined > before.joined
        }
        // Another user's process had the pid.
        #expect(!joined(1, as: 9))
        #expect(joined(2, as: 33))
        // Before it used a socket as 33, and after.
        #expect(!joined(3, as: 0) && !joined(4, as: 34))
        use(8, as: 0)
        #expect(joined(3, as: 0))
        // As 34 it was still there when its report was read. So later reports as 34 are its own too.
        #expect(joined(5, as: 34, startTicks: 0) && joined(6, as: 34))
        #expect(!joined(7, as: 9))
    }

    @Test("bytes claimed twice count once: the same record, a copy under another number, an overlap")
    func duplicates() {
        var fixture = LedgerFixture.reporting()
        fixture.report([.response(1, from: 0, to: 400), .response(1, from: 0, to: 400)])
        fixture.report([.response(2, from: 0, to: 400), .response(3, from: 399, to: 500)])
        fixture.report([.outcome(1, status: 200), .outcome(1, status: 200)])
        let reports = fixture.snapshot.capture.reports
        #expect(reports.duplicate == 3 && reports.overlapping == 1 && reports.joined == 1)
        #expect(fixture.process(1)?.explained == 400)
        #expect(fixture.snapshot.endpoints?.first?.responses == 1)
        #expect(fixture.snapshot.endpoints?.first?.outcomes == [.ok: 1])
    }

    @Test("a message whose lengths do not add up to its interval is rejected")
    func contradiction() {
        var fixture = LedgerFixture.reporting()
        var exchange = Report.Exchange.response(1, from: 0, to: 400)
        exchange.response?.bodyBytes += 1
        fixture.report([.exchange(exchange)])
        #expect(fixture.snapshot.capture.reports.malformedRecords == 1)
        #expect(fixture.process(1)?.explained == 0)
    }

    @Test("a request without a response stays a request")
    func noResponse() throws {
        var fixture = LedgerFixture.reporting()
        fixture.report([.request(1, from: 0, to: 100)])
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        #expect(endpoint.requests == 1 && endpoint.responses == 0 && endpoint.sent == MessageBytes())
        let exchange = try #require(fixture.reading.exchanges.first)
        #expect(
            exchange.request != nil && exchange.response == nil && exchange.status == nil && exchange.outcome == nil
        )
        #expect(exchange.cookie == SocketCookie(rawValue: 7) && exchange.processName == "web")
    }

    @Test("on a socket older than the daemon reports explain only counted bytes, and no row is exact")
    func preexisting() {
        var fixture = LedgerFixture.reporting(preexisting: true)
        fixture.report([
            .response(1, from: 5_000_000, to: 5_000_700), .response(2, from: 6_000_000, to: 6_000_700),
        ])
        #expect(fixture.process(1)?.explained == 1_000)
        #expect(fixture.snapshot.endpoints?.first?.quality == .inferred)
        #expect(fixture.snapshot.capture.reports.inferred == 2)
    }

    @Test("bytes beside messages are explained too: cumulative, and no more than the connection moved")
    func beside() {
        var fixture = LedgerFixture.reporting()
        var connection = Report.Connection(cookie: 7)
        connection.sent.tls = 100
        connection.received.opaque = 50
        fixture.report([.connection(connection)])
        connection.sent.tls = 150
        fixture.report([.connection(connection), .connection(connection)])
        #expect(fixture.process(1)?.explained == 200)
        connection.sent.tls = .max
        for _ in 0..<5 { fixture.report([.connection(connection)]) }
        #expect((fixture.process(1)?.explained ?? .max) <= 1_050)
    }

    @Test("a socket that is forgotten can't be claimed any more")
    func late() {
        var fixture = LedgerFixture.reporting()
        fixture.move(sent: 1_000, received: 300, closed: fixture.now)
        fixture.tick()
        fixture.tick(after: 60)
        fixture.report([.response(1, from: 0, to: 700)])
        for _ in 0..<3 { fixture.report([]) }
        #expect(fixture.snapshot.capture.reports.late == 1)
        #expect(fixture.process(1)?.explained == 0)
    }

    @Test("wasted bytes are counted by reason: failed, throttled, redirected")
    func waste() throws {
        var fixture = LedgerFixture.reporting(sent: 1_000)
        for (index, status) in [200, 302, 304, 404, 429, 503, 500].enumerated() {
            let from = UInt64(index) * 100
            fixture.report([
                .response(UInt64(index + 1), from: from, to: from + 100),
                .outcome(UInt64(index + 1), status: UInt16(status)),
            ])
        }
        var cancelled = Report.Exchange.outcome(99, status: 0)
        cancelled.outcome?.ending = .cancelled
        fixture.report([.exchange(cancelled)])
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        #expect(endpoint.waste == .init(failed: 200, throttled: 200, redirected: 100))
        #expect(endpoint.outcomes == [.ok: 3, .http4xx: 2, .http5xx: 2, .cancelled: 1])
        #expect(endpoint.failures == 4)
        #expect(endpoint.content == [.json: 350])
    }

    @Test("percentiles are those of the durations, to two digits")
    func durations() throws {
        var fixture = LedgerFixture.reporting()
        for index in 1...1_000 {
            var exchange = Report.Exchange.outcome(UInt64(index), status: 200)
            exchange.outcome?.duration = UInt64(index) * 1_000_000
            exchange.outcome?.phases.wait = UInt32(index)
            fixture.report([.exchange(exchange)])
        }
        fixture.tick()
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        let duration = try #require(endpoint.duration)
        #expect(duration.count == 1_000)
        for (value, exact) in [
            (duration.p50, 500_000), (duration.p90, 900_000), (duration.p99, 990_000), (duration.max, 1_000_000),
        ] {
            #expect(abs(Double(value) / Double(exact) - 1) < 0.01)
        }
        #expect(endpoint.phases == [.wait: .init(count: 1_000, sum: 500_500, max: 1_000)])
    }

    @Test("a sender's drop count only grows, in any order of datagrams; an impossible count is ignored")
    func dropped() {
        var fixture = LedgerFixture.reporting()
        for (dropped, sum) in [(5, 5), (5, 5), (12, 12), (9, 12), (12, 12), (4_000_000_000, 12), (13, 13)]
            as [(UInt32, UInt64)]
        {
            fixture.absorb(.reports([received([], .init(droppedRecords: dropped))], dropped: 3))
            #expect(fixture.snapshot.capture.reports.droppedBySenders == sum)
        }
        #expect(fixture.snapshot.capture.reports.droppedDatagrams == 3)
        #expect(fixture.snapshot.capture.loss.reportsDropped == 16)
    }

    @Test("what a sender dropped before the daemon began is not counted, however much it is")
    func droppedBefore() {
        var fixture = LedgerFixture.reporting()
        for (sequence, dropped, sum) in [(900, 3_000_000, 0), (901, 3_000_007, 7)] as [(UInt32, UInt32, UInt64)] {
            fixture.absorb(
                .reports([received([], .init(sequence: sequence, droppedRecords: dropped))], dropped: 0)
            )
            #expect(fixture.snapshot.capture.reports.droppedBySenders == sum)
        }
    }

    @Test("another version, a later library's record and a datagram that is no report are counted separately")
    func others() {
        var fixture = LedgerFixture.reporting()
        let whole = received([.response(1, from: 0, to: 400)], .init())
        var (version, type, noReport) = (whole, whole, whole)
        version.datagram[4] = 2
        // The record after the name.
        type.datagram[24 + Int(type.datagram[26])] = 77
        noReport.datagram[0] = 0
        var cut = whole
        cut.datagram.removeLast()
        fixture.absorb(.reports([version, type, noReport, cut], dropped: 0))
        let reports = fixture.snapshot.capture.reports
        #expect(reports.unknownVersion == 1 && reports.skippedRecords == 1 && reports.malformedDatagrams == 2)
        #expect(reports.datagrams == 4 && reports.joined == 0 && reports.rejected == 3)
    }

    @Test("a cookie that several sockets share identifies none of them")
    func sharedCookie() {
        var fixture = LedgerFixture.reporting()
        let owner = LedgerFixture.owner(LedgerFixture.process(1), sent: 1_000, name: "web")
        guard case .socket(var twin) = LedgerFixture.socket(7, [owner]) else { return }
        twin.serial = 4_711
        fixture.absorb(.socket(twin))
        fixture.report([.response(1, from: 0, to: 700)])
        for _ in 0..<3 { fixture.report([]) }
        #expect(fixture.snapshot.capture.reports.late == 1)
        #expect(fixture.process(1)?.explained == 0)
    }

    @Test("an endpoint gets its share of the socket's wire bytes, in proportion to payload")
    func wire() throws {
        var fixture = LedgerFixture()
        let owner = LedgerFixture.owner(LedgerFixture.process(1), sent: 1_000, received: 1_000, name: "web")
        let wire = SocketWire(
            sent: WireBytes(payload: 1_000, headers: 300),
            received: WireBytes(payload: 1_000, headers: 100),
            quality: .exact
        )
        fixture.absorb(LedgerFixture.socket(7, [owner], wire: wire))
        fixture.absorb(.details(LedgerFixture.process(1), .init(name: "web", uid: 33)))
        fixture.report([
            .response(1, from: 0, to: 500), .request(1, from: 0, to: 1_000),
        ])
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        // 2,400 bytes on the wire for 2,000 of payload.
        #expect(endpoint.wireEstimated == 600 + 1_200)
        // Later claims share only the wire bytes without a claim so far: 900 for the last 800 bytes of payload.
        var later = fixture
        later.absorb(
            LedgerFixture.socket(
                7,
                [LedgerFixture.owner(LedgerFixture.process(1), sent: 1_300, received: 1_000, name: "web")],
                wire: SocketWire(
                    sent: WireBytes(payload: 1_300, headers: 300),
                    received: WireBytes(payload: 1_000, headers: 100),
                    quality: .exact
                )
            )
        )
        later.report([.response(2, from: 500, to: 1_300)])
        #expect(later.snapshot.endpoints?.first?.wireEstimated == 2_700)
    }

    @Test("services and endpoints beyond the limits count in rows for the rest, and all rows add up")
    func limits() {
        var limits = ReportLimits.Rows()
        (limits.ofService, limits.all) = (3, 7)
        var accounts = EndpointAccounts(limits: limits)
        for service in 0..<10 {
            let group = accounts.group(ProcessGroup(name: "s\(service)", uid: 1))
            for route in 0..<5 {
                let row = accounts.row(of: .init(.server, .route(host: "h", route: "/\(route)")), in: group)
                accounts.add(Report.Exchange.response(1, from: 0, to: 100).share, to: row)
            }
        }
        accounts.summarize()
        let usages = accounts.usages
        #expect(usages.reduce(0) { $0 + $1.responses } == 50)
        #expect(usages.filter { $0.process.name == "s0" }.map(\.route) == [EndpointUsage.other, "/0", "/1", "/2"])
        let rest = usages.first { $0.process == .other(of: 1) }
        #expect(rest?.route == EndpointUsage.other)
        #expect(usages.count <= 7 + 10)
    }

    @Test("the newest exchanges are kept, among the open ones and among the ended ones")
    func exchangeLimits() {
        var table = ExchangeTable(
            open: Allowance(process: 4, user: 4, all: 8),
            ended: Allowance(process: 3, user: 3, all: 6)
        )
        let sender = ReportSender(identity: LedgerFixture.process(1), name: "web")
        var totals = EndpointTotals()
        let group = totals.group(ProcessGroup(name: "web"))
        for exchange in 1...20 as ClosedRange<UInt64> {
            let response = Report.Exchange.response(exchange, from: 0, to: 100)
            #expect(table.add(response, of: sender, group).content.contentClass == .json)
            if exchange.isMultiple(of: 2) {
                let outcome = Report.Exchange.outcome(exchange, status: 200)
                let (share, content) = table.add(outcome, of: sender, group)
                #expect(share.bytes == 100 && content.contentClass == .json)
            }
        }
        #expect(table.snapshot.map(\.exchange) == [16, 18, 20, 15, 17, 19])
        #expect(table.parts(of: 20, sender.identity).outcome)
        #expect(!table.parts(of: 2, sender.identity).outcome)
    }

    @Test("five thousand paths take the room of two thousand, and add up")
    func manyPaths() throws {
        var fixture = LedgerFixture.reporting(sent: 1_000_000)
        var records: [Report.Record] = []
        for index in 0..<5_000 {
            let from = UInt64(index) * 100
            var exchange = Report.Exchange.response(UInt64(index + 1), from: from, to: from + 100)
            exchange.route = "/\(index)" + String(repeating: "é", count: 400)
            records.append(.exchange(exchange))
        }
        fixture.report(records)
        let endpoints = try #require(fixture.snapshot.endpoints)
        #expect(endpoints.count == 2_001)
        #expect(endpoints.allSatisfy { $0.route.map { $0.utf8.count <= 256 } == true })
        #expect(endpoints.reduce(0) { $0 + $1.sent.total } == 500_000)
        #expect(endpoints.first { $0.route == EndpointUsage.other }?.responses == 3_000)
        #expect(fixture.process(1)?.explained == 500_000)
    }
}
