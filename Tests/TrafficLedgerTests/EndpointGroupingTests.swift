import TestSupport
import Testing
import TrafficModel
import TrafficReport

@testable import TrafficLedger

@Suite("Endpoints by host and by type")
struct EndpointGroupingTests {
    private func rows(_ fixture: LedgerFixture, by grouping: EndpointGrouping) -> [EndpointUsage] {
        fixture.reading.grouped(by: grouping).snapshot.endpoints ?? []
    }

    @Test("an exchange's type is unknown until its response names one, and none where no response came")
    func types() throws {
        var fixture = LedgerFixture.reporting()
        fixture.report([
            .request(1, from: 0, to: 100), .request(2, from: 100, to: 180),
        ])
        var types = self.rows(fixture, by: .type)
        #expect(types.map(\.contentClass) == [.unknown])
        #expect(types.first?.requests == 2 && types.first?.received.total == 180)
        #expect(types.first?.content == [.json: 80])

        fixture.report([.response(1, from: 0, to: 700)])
        types = self.rows(fixture, by: .type)
        #expect(types.map(\.contentClass) == [.json, .unknown])
        #expect(types[0].requests == 1 && types[0].responses == 1)
        #expect(types[0].received.total == 100 && types[0].sent.total == 700)
        #expect(types[1].requests == 1 && types[1].received.total == 80 && types[1].content == [.json: 30])

        var reset = Report.Exchange.outcome(2, status: 0)
        reset.outcome?.ending = .reset
        fixture.report([.outcome(1, status: 200), .exchange(reset)])
        types = self.rows(fixture, by: .type)
        #expect(types.map(\.contentClass) == [.json, ContentClass.none])
        #expect(types.map(\.outcomes) == [[.ok: 1], [.reset: 1]])
        #expect(types.map(\.waste.failed) == [0, 80])
        #expect(types.map(\.quality) == [.exact, .exact])
        #expect(types.map(\.decodedBody) == [700, 30])
    }

    @Test("a response decides the type also when it comes before its request; without its report the type is unknown")
    func order() throws {
        var fixture = LedgerFixture.reporting()
        fixture.report([
            .response(1, from: 0, to: 700), .request(1, from: 0, to: 100), .outcome(1, status: 200),
            // The server answered, but the response was not reported.
            .outcome(2, status: 404),
        ])
        let types = self.rows(fixture, by: .type)
        #expect(types.map(\.contentClass) == [.json, .unknown])
        #expect(types.map(\.requests) == [1, 0] && types.map(\.responses) == [1, 0])
        #expect(types.map(\.outcomes) == [[.ok: 1], [.http4xx: 1]])
    }

    @Test("what endpoints gained between two balances adds up to their rows, and an endpoint at rest gains nothing")
    func growth() throws {
        var fixture = LedgerFixture.reporting()
        var last: Balance?
        func growth() throws -> [ServiceEndpoint: EndpointCounts] {
            let balance = fixture.ledger.balance(countingSince: Timestamp(nanosecondsSinceEpoch: 0))
            defer { last = balance }
            return try #require(balance.growth(since: last)).byEndpoint
        }
        #expect(try growth() == [:])
        fixture.report([.request(1, from: 0, to: 100), .request(2, from: 100, to: 180)])
        let first = try #require(try growth().first)
        #expect(first.value.requests == 2 && first.value.ended == 0 && first.value.messageBytes == 180)
        #expect(try growth() == [:])
        fixture.report([.response(1, from: 0, to: 700), .outcome(1, status: 200), .outcome(2, status: 503)])
        let second = try #require(try growth().first)
        #expect(second.value.requests == 0 && second.value.ended == 2 && second.value.failures == 1)
        #expect(second.value.messageBytes == 700)
        let row = try #require(self.rows(fixture, by: .route).first)
        #expect(first.key.process == row.process && first.key.role == row.role && first.key == second.key)
        #expect(first.key.host == row.host && first.key.route == row.route)
        #expect(row.requests == 2 && row.failures == 1 && row.sent.message + row.received.message == 880)
        var sum = first.value
        sum += second.value
        for (parts, bytes) in [(sum.sent, row.sent), (sum.received, row.received)] {
            #expect(parts.header == bytes.header && parts.body == bytes.body)
            #expect(parts.rest == bytes.line + bytes.framing && parts.message == bytes.message)
        }
    }

    @Test("records that follow one another with the same name go to the row of their own role")
    func roles() throws {
        var fixture = LedgerFixture.reporting()
        let roles: [Report.Role] = [.server, .client, .server]
        fixture.report(
            roles.enumerated().map { index, role in
                let start = UInt64(index) * 100
                var exchange = Report.Exchange.response(UInt64(index) + 1, from: start, to: start + 100)
                exchange.role = role
                return .exchange(exchange)
            }
        )
        for grouping in [EndpointGrouping.route, .host, .type] {
            let rows = self.rows(fixture, by: grouping)
            #expect(rows.map(\.role) == [.client, .server] && rows.map(\.responses) == [1, 2])
        }
    }

    @Test("a host is one row for each role, whatever the routes")
    func hosts() throws {
        var fixture = LedgerFixture.reporting()
        for index in 0..<4 as Range<UInt64> {
            var exchange = Report.Exchange.response(index + 1, from: index * 100, to: index * 100 + 100)
            exchange.host = index == 3 ? "b.example" : "a.example"
            exchange.route = "/\(index)"
            fixture.report([.exchange(exchange)])
        }
        let hosts = self.rows(fixture, by: .host)
        #expect(hosts.map(\.host) == ["a.example", "b.example"] && hosts.allSatisfy { $0.route == nil })
        #expect(hosts.map(\.sent.total) == [300, 100])
    }

    @Test(
        "whatever is reported in whatever order, the rows of each grouping add up to the same",
        arguments: 0..<20 as Range<UInt64>
    )
    func sums(seed: UInt64) throws {
        var random = Seeded(seed)
        var fixture = LedgerFixture.reporting(sent: 1 << 40, received: 1 << 40)
        var position: UInt64 = 0
        var records: [Report.Record] = []
        for number in 1...300 as ClosedRange<UInt64> {
            let start = position
            func change(_ message: inout Report.Exchange.Message?) {
                message?.contentClass = Report.ContentClass.allCases.randomElement(using: &random) ?? .none
                if Bool.random(using: &random) { message?.decodedBodyBytes = nil }
            }
            let ends = (0..<2).map { _ in
                position += UInt64.random(in: 50...500, using: &random)
                return position
            }
            var request = Report.Exchange.request(number, from: start, to: ends[0])
            change(&request.request)
            var response = Report.Exchange.response(number, from: ends[0], to: ends[1])
            change(&response.response)
            let status: UInt16 = [0, 200, 302, 404, 503].randomElement(using: &random) ?? 0
            for var exchange in [request, response, .outcome(number, status: status)]
            where Int.random(in: 0..<5, using: &random) > 0 {
                exchange.role = number.isMultiple(of: 3) ? .client : .server
                (exchange.host, exchange.route) = ("h\(number % 5)", "/\(number % 50)")
                records.append(.exchange(exchange))
            }
        }
        // Records move only a few places: a record after its exchange's end counts in no grouping.
        for _ in 0..<200 {
            let first = Int.random(in: 0..<records.count - 3, using: &random)
            records.swapAt(first, first + Int.random(in: 1...3, using: &random))
        }
        while !records.isEmpty {
            fixture.report(Array(records.prefix(17)))
            records.removeFirst(min(17, records.count))
            let whole = Sum(self.rows(fixture, by: .route))
            #expect(Sum(self.rows(fixture, by: .host)) == whole)
            #expect(Sum(self.rows(fixture, by: .type)) == whole)
        }
        #expect(self.rows(fixture, by: .host).count == 10)
    }

    @Test("hosts beyond the limit have a row for the rest, and types always have room")
    func limits() throws {
        let fixture = Self.responses { $1.host = "h\($0)" }
        let hosts = self.rows(fixture, by: .host)
        #expect(hosts.count == 2_001 && hosts.first { $0.host == EndpointUsage.other }?.responses == 1_000)
        #expect(self.rows(fixture, by: .type).map(\.responses) == [3_000])
    }

    @Test("routes that have no row of their own still count for their hosts")
    func hostsOfTheRest() throws {
        let fixture = Self.responses { index, exchange in
            exchange.host = index.isMultiple(of: 3) ? "a" : "b"
            exchange.route = "/\(index)"
        }
        #expect(self.rows(fixture, by: .route).first { $0.route == EndpointUsage.other }?.responses == 1_000)
        let hosts = self.rows(fixture, by: .host)
        #expect(hosts.map(\.host) == ["a", "b"] && hosts.map(\.responses) == [1_000, 2_000])
    }

    /// Reports 3,000 responses, more than a service has rows.
    private static func responses(_ change: (Int, inout Report.Exchange) -> Void) -> LedgerFixture {
        var fixture = LedgerFixture.reporting(sent: 1 << 30)
        fixture.report(
            (0..<3_000).map { index in
                let start = UInt64(index) * 100
                var exchange = Report.Exchange.response(UInt64(index) + 1, from: start, to: start + 100)
                change(index, &exchange)
                return .exchange(exchange)
            }
        )
        return fixture
    }

    /// The parts of a row that can be added up.
    private struct Sum: Equatable {
        var requests: UInt64 = 0
        var responses: UInt64 = 0
        var outcomes: [ExchangeOutcome: UInt64] = [:]
        var sent = MessageBytes()
        var received = MessageBytes()
        var wire: UInt64 = 0
        var waste = EndpointUsage.Waste()
        var content: [ContentClass: UInt64] = [:]
        var durations: UInt64 = 0
        var phases: [ExchangePhase: UInt64] = [:]
        var quality = JoinQuality.exact

        init(_ rows: [EndpointUsage]) {
            for row in rows {
                self.requests += row.requests
                self.responses += row.responses
                self.outcomes.merge(row.outcomes, uniquingKeysWith: +)
                self.sent += row.sent
                self.received += row.received
                self.wire += row.wireEstimated
                self.waste.failed += row.waste.failed
                self.waste.throttled += row.waste.throttled
                self.waste.redirected += row.waste.redirected
                self.content.merge(row.content, uniquingKeysWith: +)
                self.durations += row.duration?.count ?? 0
                self.phases.merge(row.phases.mapValues(\.sum), uniquingKeysWith: +)
                self.quality = max(self.quality, row.quality)
            }
        }
    }
}
