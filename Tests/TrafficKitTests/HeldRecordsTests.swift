import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("Held records")
struct HeldRecordsTests {
    private static func parts(_ number: UInt64) -> [Report.Record] {
        var (request, response) = (Report.Message(exchange: number), Report.Message(exchange: number))
        (request.cookie, request.startedAt, request.lineBytes) = (7, 10, 1)
        (response.cookie, response.startedAt, response.status) = (7, 20, 200)
        var outcome = Report.Outcome(exchange: number)
        (outcome.startedAt, outcome.ending) = (10, .ok)
        return [.request(request), .response(response), .outcome(outcome)]
    }

    @Test("an exchange that ends before the next datagram is one record, in whatever calls its parts come")
    func whole() async throws {
        let daemon = try ReportReceiver()
        let sender = ReportSender(path: daemon.path)
        sender.send(Self.parts(1))
        for part in Self.parts(2) { sender.send([part]) }
        sender.flush()
        let records = try await daemon.datagrams().records
        #expect(records.count == 2)
        for (record, number) in zip(records, [1, 2] as [UInt64]) {
            guard case .exchange(let exchange) = record else { continue }
            #expect(exchange.number == number && exchange.cookie == 7 && exchange.startedAt == 10)
            #expect(exchange.parts.count == 3 && exchange.outcome?.ending == .ok)
        }
    }

    @Test("the request of an exchange that stays open goes ahead, and the rest follows without it")
    func open() async throws {
        let daemon = try ReportReceiver()
        let sender = ReportSender(path: daemon.path)
        let parts = Self.parts(1)
        sender.send([parts[0]])
        sender.flush()
        let ahead = try await daemon.datagrams().records
        sender.send([parts[1]])
        sender.send([parts[2]])
        sender.flush()
        let rest = try await daemon.datagrams().records
        let all = (ahead + rest).compactMap { if case .exchange(let exchange) = $0 { exchange } else { nil } }
        #expect(all.count == 2)
        #expect(all.map { $0.request != nil } == [true, false])
        #expect(all.map { $0.response != nil && $0.outcome != nil } == [false, true])
        #expect(all.flatMap(\.parts) == parts)
    }

    @Test("of a connection's records between two datagrams only the last is sent, because they are cumulative")
    func connections() async throws {
        let daemon = try ReportReceiver()
        let sender = ReportSender(path: daemon.path)
        for bytes in 1...5 as ClosedRange<UInt64> {
            for cookie in [7, 8] as [UInt64] {
                var connection = Report.Connection(cookie: cookie)
                connection.sent.framing = bytes * cookie
                sender.send([.connection(connection)])
            }
        }
        sender.flush()
        let records = try await daemon.datagrams().records
        let last = records.compactMap { if case .connection(let it) = $0 { it } else { nil } }
        #expect(Set(last.map { [$0.cookie, $0.sent.framing] }) == [[7, 35], [8, 40]] && records.count == 2)
    }

    @Test("beyond the limit what is held goes ahead: the memory is limited and nothing is lost")
    func full() {
        var held = HeldRecords()
        var written = 0
        for number in 1...UInt64(HeldRecords.most) {
            #expect(!held.isFull)
            let whole = held.take(Self.request(number))
            #expect(whole == nil)
        }
        #expect(held.isFull)
        held.removeExchanges { _ in written += 1 }
        #expect(held.isEmpty && written == HeldRecords.most)
        // The exchange was written, so its end is a record of its own.
        var outcome = Report.Outcome(exchange: 5)
        outcome.ending = .ok
        let end = held.take(Report.Exchange(outcome: outcome))
        #expect(end?.request == nil && end?.outcome?.ending == .ok)
    }

    private static func request(_ number: UInt64) -> Report.Exchange { .init(request: .init(exchange: number)) }
}
