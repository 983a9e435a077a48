import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("Report sender")
struct ReportSenderTests {
    /// - Parameter count: How many exchanges, each with a route of its own of some 100 bytes.
    private static func exchanges(_ count: Int) -> RecordBatch {
        let exchanges = (1...UInt64(count)).map { number in
            let route = "/\(number)" + String(repeating: "a", count: 100)
            var exchange = Report.Exchange(number: number, name: .init(method: "GET", host: "h", route: route))
            exchange.outcome = Report.Exchange.Outcome()
            return Report.Record.exchange(exchange)
        }
        return RecordBatch(exchanges)
    }

    @Test("a datagram that the kernel refuses for its size is dropped and counted, and those after it go")
    func tooLarge() async throws {
        let daemon = try ReportReceiver()
        // The kernel makes its least of this: 4,608 bytes on amd64.
        let sender = ReportSender(path: daemon.path, sendBuffer: 1)
        sender.send(Self.exchanges(2))
        sender.flush()
        for _ in 0..<2 {
            sender.send(Self.exchanges(100))
            sender.flush()
        }
        sender.send(Self.exchanges(3))
        sender.flush()
        let (records, sequences) = try await daemon.everything()
        #expect(records == Array(Self.exchanges(2)) + Array(Self.exchanges(3)))
        #expect(sequences == [0, 3])
        #expect(sender.droppedRecords == 200)
    }

    @Test("a host with a small default lets the largest datagram pass, and would not without more")
    func smallDefault() throws {
        let daemon = try ReportReceiver()
        let datagram = [UInt8](repeating: 0, count: Report.largestDatagram)
        // The kernel doubles both. The first is one byte less than a datagram needs: docs/troubleshooting.md.
        for (buffer, outcome) in [(24_591, .tooLarge), (24_592, .sent)] as [(Int32, ReportSocket.Outcome)] {
            let socket = try ReportSocket.made(sendBuffer: buffer)
            #expect(socket.send(datagram.span, to: daemon.path) == outcome)
        }
        let socket = try ReportSocket.made(sendBuffer: ReportSocket.bufferToAsk(over: 4_608))
        #expect(socket.send(datagram.span, to: daemon.path) == .sent)
        #expect(ReportSocket.bufferToAsk(over: 212_992) == nil)
    }

    @Test("a datagram that is too large says nothing of the daemon")
    func tooLargeForNobody() {
        let clock = TestClock()
        let sender = ReportSender(path: ReportReceiver.freshPath(), sendBuffer: 1) { clock.now }
        sender.send(Self.exchanges(100))
        clock.advance(by: ReportSender.patienceNanoseconds)
        #expect(!sender.hasDaemon)
        sender.send(Self.exchanges(100))
        sender.flush()
        #expect(!sender.hasDaemon && sender.droppedRecords == 200)
    }
}

extension ReportSocket {
    private struct NoDescriptor: Error {}

    fileprivate static func made(sendBuffer: Int32?) throws -> ReportSocket {
        guard let socket = ReportSocket(sendBuffer: sendBuffer) else { throw NoDescriptor() }
        return socket
    }
}
