import TestSupport
import Testing
import TrafficEvents
import TrafficLimits
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// Datagrams of a sender that may write anything into them, from the reader to the snapshot.
@Suite("Hostile reports")
struct HostileReportTests {
    /// Numbers at which sums and comparisons go wrong.
    private static let extremes: [UInt64] = [
        0, 1, 49, 50, 100, 700, 1_000, 1_001, 1 << 31, 1 << 32, 1 << 62, 1 << 63 - 1, 1 << 63, .max - 100, .max - 1,
        .max,
    ]

    private func number(_ random: inout Seeded) -> UInt64 {
        Self.extremes.randomElement(using: &random) ?? 0
    }

    private func message(_ random: inout Seeded) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        let (from, to) = (self.number(&random), self.number(&random))
        message.interval = .init(from: min(from, to), to: max(from, to))
        if Bool.random(using: &random) { message.interval.bytes = min(message.interval.bytes, self.number(&random)) }
        (message.startedAt, message.finishedAt) = (self.number(&random), self.number(&random))
        (message.lineBytes, message.headerBytes) = (.random(in: 0...50, using: &random), 50)
        message.cookieBytes = .random(in: 0...50, using: &random)
        message.bodyBytes = self.number(&random)
        message.tlsBytes = self.number(&random)
        // Half of the messages agree with their interval, so that the code behind that check runs, too.
        if Bool.random(using: &random) {
            message.framingBytes =
                message.interval.bytes &- UInt64(message.lineBytes) &- 50 &- message.bodyBytes &- message.tlsBytes
        }
        message.decodedBodyBytes = Bool.random(using: &random) ? nil : self.number(&random)
        message.status = .random(in: 0...UInt16.max, using: &random)
        message.quality = Report.Quality.allCases.randomElement(using: &random) ?? .exact
        message.contentClass = Report.ContentClass.allCases.randomElement(using: &random) ?? .json
        return message
    }

    private func name(_ random: inout Seeded) -> Report.Name {
        let length = [0, 1, 32, 253, 256, 1_024].randomElement(using: &random) ?? 0
        let host = String(repeating: ["h", "é", "\u{0}", "👩‍👩‍👧"].randomElement(using: &random) ?? "h", count: length)
        return Report.Name(method: host, host: host, route: "/\(Int.random(in: 0...5, using: &random))")
    }

    private func outcome(_ random: inout Seeded) -> Report.Exchange.Outcome {
        var outcome = Report.Exchange.Outcome()
        outcome.duration = self.number(&random)
        outcome.tlsEndedAt = self.number(&random)
        outcome.phases.dns = .random(in: 0...UInt32.max, using: &random)
        outcome.phases.wait = Bool.random(using: &random) ? .max - 1 : nil
        outcome.isFirst = Bool.random(using: &random)
        outcome.ending = Report.Ending.allCases.randomElement(using: &random) ?? .ok
        outcome.status = .random(in: 0...UInt16.max, using: &random)
        return outcome
    }

    private func connection(_ random: inout Seeded) -> Report.Connection {
        var connection = Report.Connection(cookie: [7, 8, 9].randomElement(using: &random) ?? 7)
        (connection.sent.tls, connection.sent.opaque) = (self.number(&random), self.number(&random))
        (connection.received.framing, connection.received.excluded) = (self.number(&random), self.number(&random))
        return connection
    }

    private func record(_ random: inout Seeded) -> Report.Record {
        var exchange = Report.Exchange(number: .random(in: 1...50, using: &random), name: self.name(&random))
        exchange.cookie = [0, 7, 7, 7, 8, 9].randomElement(using: &random) ?? 7
        exchange.startedAt = self.number(&random)
        exchange.hop = .random(in: 0...UInt16.max, using: &random)
        exchange.role = Report.Role.allCases.randomElement(using: &random) ?? .server
        switch Int.random(in: 0..<7, using: &random) {
        case 0, 1: exchange.request = self.message(&random)
        case 2, 3: exchange.response = self.message(&random)
        case 4: exchange.outcome = self.outcome(&random)
        case 5:
            exchange.request = self.message(&random)
            (exchange.response, exchange.outcome) = (self.message(&random), self.outcome(&random))
        default: return .connection(self.connection(&random))
        }
        return .exchange(exchange)
    }

    /// Process 1 owns both sockets. Socket 7 was seen from its creation and has 1,300 bytes.
    /// Socket 8 is older than the daemon.
    private func fixture() -> LedgerFixture {
        var fixture = LedgerFixture.reporting()
        let connect = ConnectTimes(beganAt: 900_000_000, endedAt: 950_000_000)
        let owner = LedgerFixture.owner(LedgerFixture.process(1), sent: 1_000, received: 300, name: "web")
        fixture.absorb(LedgerFixture.socket(8, [owner], connect: connect, preexisting: true))
        return fixture
    }

    /// Checks what has to hold, whatever was reported.
    private func expectSound(_ fixture: LedgerFixture, _ comment: Comment) {
        let reading = fixture.reading
        let snapshot = reading.snapshot
        let process = fixture.process(1)
        #expect(process?.explained ?? .max <= process?.bytes.payload.total ?? 0, comment)
        for socket in snapshot.sockets ?? [] {
            #expect(socket.explained <= socket.bytes.payload.total, comment)
            #expect(socket.explained + socket.unattributed == socket.bytes.payload.total, comment)
        }
        #expect(snapshot.sockets?.reduce(0) { $0 + $1.explained } == process?.explained, comment)
        let rows = snapshot.endpoints ?? []
        for grouping in [EndpointGrouping.host, .type] {
            let others = reading.grouped(by: grouping).snapshot.endpoints ?? []
            #expect(others.reduce(0) { $0 + $1.requests } == rows.reduce(0) { $0 + $1.requests }, comment)
            #expect(others.reduce(0) { $0 + $1.responses } == rows.reduce(0) { $0 + $1.responses }, comment)
            #expect(others.reduce(0) { $0 &+ $1.sent.total } == rows.reduce(0) { $0 &+ $1.sent.total }, comment)
        }
        #expect(rows.count <= ReportLimits.Rows().ofUser + 2, comment)
        let reports = snapshot.capture.reports
        #expect(reports.records >= reports.joined + reports.inferred, comment)
        #expect(reading.exchanges.count <= 1_000 + ReportLimits.openExchanges.process, comment)
    }

    @Test(
        "records with any numbers explain no byte that the kernel did not count, and trap nowhere",
        arguments: 0..<20 as Range<UInt64>
    )
    func numbers(seed: UInt64) {
        var random = Seeded(seed)
        var fixture = self.fixture()
        for round in 0..<30 {
            var records: [Report.Record] = []
            for _ in 0..<20 { records.append(self.record(&random)) }
            var header = Report.Header()
            (header.sequence, header.droppedRecords) = (
                UInt32(truncatingIfNeeded: self.number(&random)), .random(in: 0 ... .max, using: &random)
            )
            header.sentAt = self.number(&random)
            fixture.absorb(.reports([received(Array(records.prefix(3)), header)], dropped: 0))
            fixture.report(records)
            if round % 10 == 9 { self.expectSound(fixture, "seed \(seed), round \(round)") }
        }
        for _ in 0..<4 { fixture.report([]) }
        self.expectSound(fixture, "seed \(seed)")
    }

    @Test("datagrams with any bytes explain no uncounted byte, and trap nowhere", arguments: 0..<20 as Range<UInt64>)
    func bytes(seed: UInt64) {
        var random = Seeded(seed)
        var fixture = self.fixture()
        for _ in 0..<100 {
            var reports: [ReceivedReport] = []
            for _ in 0..<5 {
                var bytes = datagram([
                    .request(1, from: 0, to: 100), .response(1, from: 0, to: 700), .outcome(1, status: 200),
                    .connection(.init(cookie: 7)), self.record(&random),
                ])
                for _ in 0..<Int.random(in: 0...6, using: &random) {
                    bytes[.random(in: 0..<bytes.count, using: &random)] = .random(in: 0...255, using: &random)
                }
                if Bool.random(using: &random) { bytes.removeLast(.random(in: 0...bytes.count, using: &random)) }
                reports.append(ReceivedReport(pid: 1, uid: 0, startTicks: 0, datagram: bytes))
            }
            fixture.absorb(.reports(reports, dropped: 0))
        }
        for _ in 0..<4 { fixture.report([]) }
        #expect(fixture.snapshot.capture.reports.datagrams >= 500)
        self.expectSound(fixture, "seed \(seed)")
    }
}
