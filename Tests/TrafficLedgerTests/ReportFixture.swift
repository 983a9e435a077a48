import TrafficEvents
import TrafficModel
import TrafficReport

@testable import TrafficLedger

extension LedgerFixture {
    /// A server's socket 7 that moved bytes for process 1.
    static func reporting(sent: UInt64 = 1_000, received: UInt64 = 300, preexisting: Bool = false) -> LedgerFixture {
        var fixture = LedgerFixture()
        fixture.move(sent: sent, received: received, preexisting: preexisting)
        fixture.absorb(.details(LedgerFixture.process(1), .init(name: "web", executable: "/bin/web", uid: 33)))
        return fixture
    }

    mutating func move(sent: UInt64, received: UInt64, preexisting: Bool = false, closed: UInt64? = nil) {
        let owner = Self.owner(Self.process(1), sent: sent, received: received, name: "web")
        self.absorb(Self.socket(7, [owner], closed: closed, preexisting: preexisting))
    }

    /// - Parameter startTicks: 0 for the fixture's processes, which began 5 ns after the boot.
    mutating func report(
        _ records: [Report.Record],
        pid: Int32 = 1,
        uid: UInt32 = 0,
        startTicks: UInt64? = 0
    ) {
        let reports = records.isEmpty ? [] : datagrams(records)
        self.absorb(
            .reports(
                reports.map { ReceivedReport(pid: pid, uid: uid, startTicks: startTicks, datagram: $0) },
                dropped: 0
            )
        )
        self.tick()
    }
}

func datagrams(_ records: [Report.Record]) -> [[UInt8]] {
    var (writer, result) = (ReportWriter(), [[UInt8]]())
    func finish(_ writer: inout ReportWriter) -> [UInt8] {
        writer.finish(.init()) { bytes in bytes.indices.map { bytes[$0] } }
    }
    for record in records where !writer.append(record) {
        result.append(finish(&writer))
        _ = writer.append(record)
    }
    return result + [finish(&writer)]
}

func received(_ records: [Report.Record], _ header: Report.Header) -> ReceivedReport {
    var writer = ReportWriter()
    for record in records { _ = writer.append(record) }
    let datagram = writer.finish(header) { bytes in bytes.indices.map { bytes[$0] } }
    return ReceivedReport(pid: 1, uid: 0, startTicks: 0, datagram: datagram)
}

func datagram(_ records: [Report.Record]) -> [UInt8] { datagrams(records)[0] }

extension Report.Exchange {
    /// A server's request on socket 7.
    static func request(_ number: UInt64, from: UInt64, to: UInt64) -> Self {
        var exchange = Self.sample(number)
        (exchange.cookie, exchange.request) = (7, .sample(from: from, to: to, status: 0))
        return exchange
    }

    /// A server's response on socket 7.
    static func response(_ number: UInt64, from: UInt64, to: UInt64) -> Self {
        var exchange = Self.sample(number)
        (exchange.cookie, exchange.response) = (7, .sample(from: from, to: to, status: 200))
        return exchange
    }

    static func outcome(_ number: UInt64, status: UInt16) -> Self {
        var exchange = Self.sample(number)
        var outcome = Outcome()
        outcome.duration = 5_000_000
        outcome.status = status
        outcome.ending = status >= 500 ? .http5xx : status >= 400 ? .http4xx : .ok
        exchange.outcome = outcome
        return exchange
    }

    private static func sample(_ number: UInt64) -> Self {
        let name = Report.Name(method: "GET", host: "api.example", route: "/users/{id}")
        var exchange = Report.Exchange(number: number, name: name)
        (exchange.startedAt, exchange.role) = (1_000_000_000, .server)
        return exchange
    }
}

extension Report.Exchange.Message {
    /// 20 bytes of line, 30 of header, 5 of them cookies, the rest body.
    fileprivate static func sample(from: UInt64, to: UInt64, status: UInt16) -> Self {
        var message = Self()
        message.interval = .init(from: from, to: to)
        message.startedAt = 1_000_000_000
        message.finishedAt = 1_000_000_100
        (message.lineBytes, message.headerBytes, message.cookieBytes) = (20, 30, 5)
        message.bodyBytes = to - from - 50
        message.decodedBodyBytes = message.bodyBytes
        message.status = status
        message.version = .http1_1
        message.quality = .exact
        message.contentClass = .json
        return message
    }
}

extension Report.Record {
    static func request(_ number: UInt64, from: UInt64, to: UInt64) -> Self {
        .exchange(.request(number, from: from, to: to))
    }

    static func response(_ number: UInt64, from: UInt64, to: UInt64) -> Self {
        .exchange(.response(number, from: from, to: to))
    }

    static func outcome(_ number: UInt64, status: UInt16) -> Self { .exchange(.outcome(number, status: status)) }
}

extension Report.Exchange {
    /// All parts of the record, as if all of them count.
    var share: ExchangeShare {
        var share = ExchangeShare()
        share.request = self.request.map { MessageShare($0, isRequest: true, wire: 0, quality: .exact) }
        share.response = self.response.map { MessageShare($0, isRequest: false, wire: 0, quality: .exact) }
        share.outcome = self.outcome
        return share
    }
}

extension ExchangeTable {
    mutating func add(
        _ exchange: Report.Exchange,
        of sender: ReportSender,
        _ group: EndpointTotals.Group
    ) -> (share: ExchangeShare, content: ContentPlace) {
        var share = exchange.share
        let startedAt = Timestamp(nanosecondsSinceEpoch: 0)
        let content = self.add(exchange, &share, of: sender, group, startedAt: startedAt)
        return (share, content)
    }
}
