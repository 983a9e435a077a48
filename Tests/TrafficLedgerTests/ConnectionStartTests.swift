import Testing
import TrafficEvents
import TrafficModel
import TrafficReport

@testable import TrafficLedger

/// What the kernel adds to the phases of a client's exchanges, in microseconds after an hour of uptime. The request's
/// first byte is at 1,000 and the response's last byte at 6,000.
@Suite("Connections in the ledger")
struct ConnectionStartTests {
    private static func time(_ microseconds: UInt64) -> UInt64 { 3_600_000_000_000 + microseconds * 1_000 }

    private static func connect(_ began: UInt64 = 100, _ ended: UInt64 = 400) -> ConnectTimes? {
        ConnectTimes(beganAt: Self.time(began), endedAt: Self.time(ended))
    }

    /// A client's socket 7 of process 1.
    private static func event(_ connect: ConnectTimes?, closed: UInt64? = nil) -> CaptureEvent {
        let owner = LedgerFixture.owner(LedgerFixture.process(1), sent: 1_000, received: 1_000, name: "web")
        return LedgerFixture.socket(7, [owner], closed: closed, connect: connect)
    }

    private static func fixture(_ connect: ConnectTimes?) -> LedgerFixture {
        var fixture = LedgerFixture()
        fixture.absorb(Self.event(connect), .details(LedgerFixture.process(1), .init(name: "web", uid: 33)))
        return fixture
    }

    private static func request(_ number: UInt64, from: UInt64) -> Report.Exchange {
        var exchange = Report.Exchange.request(number, from: from, to: from + 100)
        exchange.role = .client
        return exchange
    }

    private static func response(_ number: UInt64, from: UInt64) -> Report.Record {
        var exchange = Report.Exchange.response(number, from: from, to: from + 100)
        exchange.role = .client
        return .exchange(exchange)
    }

    private static func outcome(
        _ number: UInt64,
        _ change: (inout Report.Exchange) -> Void = { _ in }
    ) -> Report.Record {
        var exchange = Report.Exchange.outcome(number, status: 200)
        (exchange.role, exchange.startedAt) = (.client, Self.time(1_000))
        exchange.outcome?.phases.send = 100
        exchange.outcome?.phases.wait = 4_500
        exchange.outcome?.phases.receive = 400
        change(&exchange)
        return .exchange(exchange)
    }

    private static func messages(_ number: UInt64, from: UInt64 = 0) -> [Report.Record] {
        [.exchange(self.request(number, from: from)), self.response(number, from: from)]
    }

    /// Reports one whole exchange at once. Returns its connect phase, its TLS phase and its duration.
    private static func told(
        _ connect: ConnectTimes?,
        from: UInt64 = 0,
        _ change: (inout Report.Exchange) -> Void = { _ in }
    ) throws -> [UInt64?] {
        var fixture = Self.fixture(connect)
        fixture.report(self.messages(1, from: from) + [self.outcome(1, change)])
        let exchange = try #require(fixture.reading.exchanges.first)
        #expect(exchange.outcome == .ok)
        return [exchange.phases[.connect], exchange.phases[.tls], exchange.duration]
    }

    @Test("the first exchange has the connection's phases, and is longer by them; the next ones have none")
    func first() throws {
        var fixture = Self.fixture(Self.connect())
        fixture.report(Self.messages(1) + [Self.outcome(1) { $0.outcome?.tlsEndedAt = Self.time(900) }])
        fixture.report(Self.messages(2, from: 100) + [Self.outcome(2)])
        let exchanges = fixture.reading.exchanges
        #expect(exchanges.map { $0.phases[.connect] } == [300, nil])
        #expect(exchanges.map { $0.phases[.tls] } == [500, nil])
        #expect(exchanges.map(\.duration) == [5_800, 5_000])
        for exchange in exchanges { #expect(exchange.phases.values.reduce(0, +) == exchange.duration) }
        #expect(exchanges.allSatisfy { $0.phases[.dns] == nil && $0.startedAt == exchanges[0].startedAt })

        fixture.tick()
        for grouping in [.route, .host, .type] as [EndpointGrouping] {
            let endpoint = try #require(fixture.reading.grouped(by: grouping).snapshot.endpoints?.first)
            #expect(endpoint.phases[.connect] == .init(count: 1, sum: 300, max: 300))
            #expect(endpoint.phases[.tls] == .init(count: 1, sum: 500, max: 500))
            #expect(endpoint.phases[.wait]?.count == 2)
            let duration = try #require(endpoint.duration)
            #expect(abs(Double(duration.max) / 5_800 - 1) < 0.01 && abs(Double(duration.p50) / 5_000 - 1) < 0.01)
        }
    }

    @Test("with TLS the first exchange is the one that reports the handshake; without TLS, the one with the first byte")
    func whichIsFirst() throws {
        #expect(try Self.told(Self.connect()) == [300, nil, 5_300])
        // The messages come after a handshake of 500 bytes.
        #expect(try Self.told(Self.connect(), from: 500) == [nil, nil, 5_000])
        #expect(
            try Self.told(Self.connect(), from: 500) { $0.outcome?.tlsEndedAt = Self.time(900) } == [300, 500, 5_800]
        )
        // The messages come after HTTP/2's preface: a library that saw the connection begin sets `isFirst`.
        #expect(try Self.told(Self.connect(), from: 24) { $0.outcome?.isFirst = true } == [300, nil, 5_300])
        #expect(try Self.told(nil, from: 24) { $0.outcome?.isFirst = true } == [nil, nil, 5_000])
        #expect(
            try Self.told(Self.connect(1_001, 1_002), from: 24) { $0.outcome?.isFirst = true } == [nil, nil, 5_000]
        )
        // The request's report was lost.
        var fixture = Self.fixture(Self.connect())
        fixture.report([Self.response(1, from: 0), Self.outcome(1)])
        #expect(fixture.reading.exchanges.first?.phases[.connect] == 300)
        // The library did not know the socket.
        var nowhere = Self.request(2, from: 0)
        nowhere.cookie = 0
        nowhere.request?.quality = .inferred
        fixture.report([.exchange(nowhere), Self.outcome(2) { $0.outcome?.tlsEndedAt = Self.time(900) }])
        #expect(fixture.reading.exchanges.last?.phases[.connect] == nil)
        #expect(fixture.reading.exchanges.last?.duration == 5_000)
    }

    @Test("a report may come before the kernel's first record of the socket, and an outcome after its last record")
    func order() throws {
        var early = LedgerFixture()
        let other = LedgerFixture.owner(LedgerFixture.process(1), name: "web")
        early.absorb(
            LedgerFixture.socket(8, [other]),
            .details(LedgerFixture.process(1), .init(name: "web", uid: 33))
        )
        early.report(Self.messages(1) + [Self.outcome(1) { $0.outcome?.tlsEndedAt = Self.time(900) }])
        #expect(early.reading.exchanges.isEmpty == true && early.snapshot.capture.reports.early == 3)
        early.absorb(Self.event(Self.connect()))
        early.report([])
        #expect(early.reading.exchanges.map { $0.phases[.connect] } == [300])
        #expect(early.reading.exchanges.map { $0.phases[.tls] } == [500])

        var late = Self.fixture(Self.connect())
        late.report([.exchange(Self.request(1, from: 0))])
        // The socket connects again, closes and is forgotten.
        late.absorb(Self.event(Self.connect(7_000, 8_000)), Self.event(Self.connect(7_000, 8_000), closed: late.now))
        late.report([Self.response(1, from: 0)])
        late.tick()
        late.tick(after: 60)
        #expect(late.socket(7) == nil)
        late.report([Self.outcome(1)])
        let exchange = try #require(late.reading.exchanges.first)
        #expect(exchange.outcome == .ok && exchange.phases[.connect] == 300 && exchange.duration == 5_300)
    }

    @Test("unseen connections and impossible times give no phase and leave the duration as it is")
    func impossible() throws {
        let untouched = [nil, nil, 5_000] as [UInt64?]
        // The socket was accepted, or is older than the daemon.
        #expect(try Self.told(nil) { $0.outcome?.tlsEndedAt = Self.time(900) } == untouched)
        // The connection is established after the request's first byte, or after the response's last byte,
        // or begins after both.
        #expect(try Self.told(Self.connect(100, 1_001)) == untouched)
        #expect(try Self.told(Self.connect(5_900, 6_001)) == untouched)
        #expect(try Self.told(Self.connect(8_000, 9_000)) { $0.outcome?.tlsEndedAt = Self.time(900) } == untouched)
        // The handshake ends before it can begin, or after the request's first byte.
        for time in [1, Self.time(399), Self.time(1_001), Self.time(1 << 40), .max] {
            #expect(try Self.told(Self.connect()) { $0.outcome?.tlsEndedAt = time } == [300, nil, 5_300])
            #expect(try Self.told(Self.connect(), from: 500) { $0.outcome?.tlsEndedAt = time } == untouched)
        }
        // A phase of an hour has room; a phase of 5,000 seconds has none.
        #expect(
            try Self.told(Self.connect()) {
                $0.startedAt = .max
                $0.outcome?.tlsEndedAt = .max
            } == [300, nil, 5_300]
        )
        #expect(
            try Self.told(ConnectTimes(beganAt: 1_000, endedAt: Self.time(400))) == [3_600_000_399, nil, 3_600_005_399]
        )
        #expect(
            try Self.told(ConnectTimes(beganAt: 1, endedAt: 5_000_000_000_000)) {
                $0.startedAt = 5_000_000_000_000
            } == untouched
        )
        // The longest duration does not overflow.
        #expect(try Self.told(Self.connect()) { $0.outcome?.duration = .max } == [300, nil, UInt64.max / 1_000])
        // A server's exchange gets no connection phase, even where its socket has connect times.
        #expect(try Self.told(Self.connect()) { $0.role = .server } == untouched)
    }

    @Test("a socket has its last connection's time, also after it closed, and none while the time is unknown")
    func socket() throws {
        var fixture = Self.fixture(nil)
        #expect(try #require(fixture.socket(7)).connectMicroseconds == nil)
        fixture.absorb(Self.event(Self.connect()))
        #expect(fixture.socket(7)?.connectMicroseconds == 300)
        // It connects again.
        fixture.absorb(Self.event(nil))
        #expect(try #require(fixture.socket(7)).connectMicroseconds == nil)
        fixture.absorb(Self.event(ConnectTimes(beganAt: 1_000, endedAt: 1_999)))
        #expect(fixture.socket(7)?.connectMicroseconds == 0)
        let last = ConnectTimes(beganAt: 1_000, endedAt: 1_002_999)
        fixture.absorb(Self.event(last), Self.event(last, closed: fixture.now))
        #expect(fixture.socket(7)?.connectMicroseconds == 1_001)
    }

    @Test("phases that the library reports itself stay as they are")
    func told() throws {
        let all = try Self.told(Self.connect()) {
            $0.outcome?.phases.connect = 120
            $0.outcome?.phases.tls = 130
            $0.outcome?.tlsEndedAt = Self.time(900)
        }
        #expect(all == [120, 130, 5_000])
        let half = try Self.told(Self.connect()) {
            $0.outcome?.phases.tls = 130
            $0.outcome?.tlsEndedAt = Self.time(900)
        }
        #expect(half == [300, 130, 5_300])
    }

    @Test("a duration that began before the connection already includes the connection's time")
    func within() throws {
        let untouched = [nil, nil, 5_000] as [UInt64?]
        let unseen = { (exchange: inout Report.Exchange) -> Void in exchange.outcome?.phases = .init() }
        #expect(try Self.told(Self.connect(1_200, 2_000), unseen) == [800, nil, 5_000])
        #expect(try Self.told(Self.connect(1_000, 6_000), unseen) == [5_000, nil, 5_000])
        #expect(try Self.told(Self.connect(1_200, 6_001), unseen) == untouched)
        #expect(try Self.told(Self.connect(999, 2_000), unseen) == untouched)
        // This is not the connection's first exchange.
        #expect(try Self.told(Self.connect(1_200, 2_000), from: 100, unseen) == untouched)
        // The reported phases already fill the whole duration.
        #expect(try Self.told(Self.connect(1_200, 2_000)) == untouched)
    }
}
