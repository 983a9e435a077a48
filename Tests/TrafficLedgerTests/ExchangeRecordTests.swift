import TestSupport
import Testing
import TrafficEvents
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// An exchange may be one record or several. What counts is the same.
@Suite("Exchange records in the ledger")
struct ExchangeRecordTests {
    private static func exchange(_ number: UInt64, status: UInt16 = 200) -> Report.Exchange {
        let from = (number - 1) * 100
        var exchange = Report.Exchange.request(number, from: from, to: from + 100)
        exchange.merge(.response(number, from: from, to: from + 100))
        exchange.merge(.outcome(number, status: status))
        return exchange
    }

    @Test("one record of an exchange counts as its three parts do, in either order of the messages")
    func parts() throws {
        let name = Report.Name(method: "GET", host: "h", route: "/b")
        for isReversed in [false, true] {
            var (whole, split) = (
                LedgerFixture.reporting(sent: 10_000, received: 10_000),
                LedgerFixture.reporting(sent: 10_000, received: 10_000)
            )
            for number in 1...20 as ClosedRange<UInt64> {
                var exchange = Self.exchange(number, status: number % 5 == 0 ? 503 : 200)
                if number % 3 == 0 { exchange.name = name }
                if number % 4 == 0 { exchange.response?.contentClass = .html }
                if number % 7 == 0 { exchange.request = nil }
                if number % 6 == 0 { exchange.response = nil }
                whole.report([.exchange(exchange)])
                // An outcome ends its exchange: a message after it is a duplicate.
                let (messages, outcome) = (exchange.parts.dropLast(), exchange.parts.suffix(1))
                for part in (isReversed ? messages.reversed() : Array(messages)) + outcome { split.report([part]) }
            }
            #expect(whole.snapshot.endpoints == split.snapshot.endpoints)
            let (one, other) = (whole.reading.grouped(by: .type).snapshot, split.reading.grouped(by: .type).snapshot)
            #expect(one.endpoints == other.endpoints)
            #expect(whole.reading.exchanges == split.reading.exchanges)
            #expect(whole.reading.exchanges.count == 20)
            #expect(whole.process(1)?.explained == split.process(1)?.explained)
            #expect(whole.snapshot.capture.reports.joined == split.snapshot.capture.reports.joined)
        }
    }

    @Test("an answer is repeated if its status and the length of its body are those of the one before")
    func repeated() throws {
        var fixture = LedgerFixture.reporting(sent: 100_000, received: 100_000)
        var from: UInt64 = 0
        var number: UInt64 = 0
        func answer(status: UInt16 = 200, bytes: UInt64? = 100) {
            number += 1
            var exchange = Report.Exchange.request(number, from: number * 100, to: number * 100 + 100)
            if let bytes {
                exchange.merge(.response(number, from: from, to: from + bytes))
                exchange.response?.status = status
                from += bytes
            }
            exchange.merge(.outcome(number, status: status))
            fixture.report([.exchange(exchange)])
        }
        func repeated() -> UInt64? { fixture.snapshot.endpoints?.first?.repeated }
        answer()
        #expect(repeated() == 0)
        answer()
        answer()
        #expect(repeated() == 2)
        answer(bytes: 101)
        answer(status: 404, bytes: 101)
        #expect(repeated() == 2)
        answer(status: 404, bytes: 101)
        #expect(repeated() == 3)
        // A response that never came is none, and the next has nothing to repeat.
        answer(status: 0, bytes: nil)
        answer(status: 0, bytes: nil)
        answer(status: 404, bytes: 101)
        #expect(repeated() == 3)
        // Nobody knows how long these bodies are, so they may be two.
        for _ in 0..<2 {
            number += 1
            var exchange = Report.Exchange.response(number, from: from, to: from + 50)
            from += 50
            exchange.response?.decodedBodyBytes = nil
            exchange.merge(.outcome(number, status: 200))
            fixture.report([.exchange(exchange)])
        }
        #expect(repeated() == 3)
        answer(status: 404, bytes: 101)
        // A response that comes before the end counts when the exchange ends.
        number += 1
        fixture.report([.request(number, from: number * 100, to: number * 100 + 100)])
        var response = Report.Exchange.response(number, from: from, to: from + 101)
        response.response?.status = 404
        fixture.report([.exchange(response)])
        #expect(repeated() == 3)
        fixture.report([.outcome(number, status: 404)])
        #expect(repeated() == 4)
        let responses = fixture.snapshot.endpoints?.first?.responses
        let sum = try #require(fixture.ledger.balance(countingSince: .init(nanosecondsSinceEpoch: 0)).endpoints.first)
        #expect(sum.counts.repeated == 4 && sum.counts.ended == 13 && responses == 11)
    }

    @Test("a request that goes ahead is listed at once and counts once, also if the later record says it again")
    func ahead() throws {
        var fixture = LedgerFixture.reporting()
        let whole = Self.exchange(1)
        var (request, rest) = (whole, whole)
        (request.response, request.outcome) = (nil, nil)
        fixture.report([.exchange(request)])
        var listed = try #require(fixture.reading.exchanges.first)
        #expect(listed.request != nil && listed.response == nil && listed.outcome == nil)
        #expect(fixture.process(1)?.explained == 100)

        rest.request = nil
        var again = fixture
        fixture.report([.exchange(rest)])
        again.report([.exchange(whole)])
        #expect(fixture.snapshot.capture.reports.duplicate == 0)
        #expect(again.snapshot.capture.reports.duplicate == 1)
        for fixture in [fixture, again] {
            listed = try #require(fixture.reading.exchanges.first)
            #expect(listed.request != nil && listed.response != nil && listed.outcome == .ok)
            #expect(fixture.process(1)?.explained == 200)
            let endpoint = try #require(fixture.snapshot.endpoints?.first)
            #expect(endpoint.requests == 1 && endpoint.responses == 1)
        }
        fixture.report([.exchange(whole)])
        #expect(fixture.snapshot.capture.reports.duplicate == 3)
    }

    @Test("a record waits as a whole; when its time ends, only the message that the kernel did not count is rejected")
    func waits() throws {
        var fixture = LedgerFixture.reporting(sent: 50, received: 300)
        fixture.report([.exchange(Self.exchange(1))])
        #expect(fixture.reading.exchanges.isEmpty == true)
        #expect(fixture.snapshot.capture.reports.early == 1)
        var late = fixture
        late.move(sent: 100, received: 300)
        late.report([])
        #expect(late.snapshot.capture.reports.joined == 2 && late.process(1)?.explained == 200)

        for _ in 0..<3 { fixture.report([]) }
        let reports = fixture.snapshot.capture.reports
        #expect(reports.joined == 1 && reports.impossible == 1 && reports.unwaited == 0)
        let listed = try #require(fixture.reading.exchanges.first)
        #expect(listed.request != nil && listed.response == nil && listed.outcome == .ok)
        #expect(fixture.process(1)?.explained == 100)
    }

    @Test("a message with bytes that another message has does not count, and the rest of its exchange does")
    func overlapping() throws {
        var fixture = LedgerFixture.reporting()
        var second = Self.exchange(2)
        second.response?.interval = .init(from: 50, to: 150)
        fixture.report([.exchange(Self.exchange(1)), .exchange(second)])
        #expect(fixture.snapshot.capture.reports.overlapping == 1)
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        #expect(endpoint.requests == 2 && endpoint.responses == 1 && endpoint.outcomes == [.ok: 2])
        #expect(fixture.process(1)?.explained == 300)
    }

    @Test("an exchange on a socket that its process has not used is rejected, message by message")
    func foreign() throws {
        var fixture = LedgerFixture.reporting()
        let other = LedgerFixture.process(2)
        fixture.absorb(
            LedgerFixture.socket(8, [LedgerFixture.owner(other, sent: 5, name: "other")]),
            .details(other, .init(name: "other", executable: "/bin/other", uid: 34))
        )
        fixture.report([.exchange(Self.exchange(1))], pid: 2)
        for _ in 0..<3 { fixture.report([]) }
        #expect(fixture.snapshot.capture.reports.foreign == 2)
        #expect(fixture.process(1)?.explained == 0 && fixture.process(2)?.explained == 0)
        let endpoint = try #require(fixture.snapshot.endpoints?.first)
        #expect(endpoint.requests == 0 && endpoint.responses == 0 && endpoint.outcomes == [.ok: 1])
    }

    @Test("names are told apart by their texts, however many there are and whoever sends them")
    func names() throws {
        var fixture = LedgerFixture.reporting(sent: 1_000_000, received: 1_000_000)
        for _ in 0..<2 {
            var records: [Report.Record] = []
            for number in 1...2_000 as ClosedRange<UInt64> {
                var exchange = Report.Exchange.outcome(number + (fixture.now << 20), status: 200)
                exchange.route = "/\(number % 1_500)"
                records.append(.exchange(exchange))
            }
            fixture.report(records)
        }
        let endpoints = try #require(fixture.snapshot.endpoints)
        #expect(endpoints.count == 1_500)
        for endpoint in endpoints {
            let index = endpoint.route.flatMap { Int($0.dropFirst()) } ?? -1
            #expect(endpoint.outcomes == [.ok: index > 0 && index <= 500 ? 4 : 2], "\(index)")
        }
    }
}
