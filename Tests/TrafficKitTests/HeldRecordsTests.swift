import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("Held records")
struct HeldRecordsTests {
    private static func exchange(_ number: UInt64) -> Report.Exchange {
        var exchange = Report.Exchange.request(number)
        (exchange.cookie, exchange.startedAt) = (7, 10)
        exchange.request?.startedAt = 10
        exchange.request?.lineBytes = 1
        var response = Report.Exchange.Message()
        (response.startedAt, response.status) = (20, 200)
        exchange.response = response
        var outcome = Report.Exchange.Outcome()
        outcome.ending = .ok
        exchange.outcome = outcome
        return exchange
    }

    private static func parts(_ number: UInt64) -> [Report.Record] { self.exchange(number).parts }

    /// A sender that sends when the test says so. With the usual delay it could also send between two parts.
    private static func sender(to daemon: ReportReceiver) -> ReportSender {
        ReportSender(path: daemon.path, delay: .seconds(3_600))
    }

    @Test("an exchange that ends before the next datagram is one record, in whatever calls its parts come")
    func whole() async throws {
        let daemon = try ReportReceiver()
        let sender = Self.sender(to: daemon)
        sender.send(RecordBatch(Self.parts(1)))
        for part in Self.parts(2) { sender.send([part]) }
        sender.flush()
        #expect(try await daemon.everything().records == [.exchange(Self.exchange(1)), .exchange(Self.exchange(2))])
    }

    @Test("the request of an exchange that stays open goes ahead, and the rest follows without it")
    func open() async throws {
        let daemon = try ReportReceiver()
        let sender = Self.sender(to: daemon)
        let parts = Self.parts(1)
        sender.send([parts[0]])
        sender.flush()
        #expect(try await daemon.everything().records == [parts[0]])
        sender.send([parts[1]])
        sender.send([parts[2]])
        sender.flush()
        var rest = Self.exchange(1)
        rest.request = nil
        #expect(try await daemon.everything().records == [.exchange(rest)])
    }

    @Test("of a connection's records between two datagrams only the last is sent, because they are cumulative")
    func connections() async throws {
        let daemon = try ReportReceiver()
        let sender = Self.sender(to: daemon)
        for bytes in 1...5 as ClosedRange<UInt64> {
            for cookie in [7, 8] as [UInt64] {
                var connection = Report.Connection(cookie: cookie)
                connection.sent.framing = bytes * cookie
                sender.send([.connection(connection)])
            }
        }
        sender.flush()
        let records = try await daemon.everything().records
        #expect(
            Set(records.connections.map { [$0.cookie, $0.sent.framing] }) == [[7, 35], [8, 40]] && records.count == 2
        )
    }

    @Test("beyond the limit what is held goes ahead: the memory is limited and nothing is lost")
    func full() {
        var held = HeldRecords()
        var written = 0
        for number in 1...UInt64(HeldRecords.most) {
            #expect(!held.isFull)
            let whole = held.take(.request(number))
            #expect(whole == nil)
        }
        #expect(held.isFull)
        held.removeExchanges { _ in written += 1 }
        #expect(held.isEmpty && written == HeldRecords.most)
        // The exchange was written, so its end is a record of its own.
        var outcome = Self.exchange(5)
        (outcome.request, outcome.response) = (nil, nil)
        let end = held.take(outcome)
        #expect(end?.request == nil && end?.outcome?.ending == .ok)
    }
}
