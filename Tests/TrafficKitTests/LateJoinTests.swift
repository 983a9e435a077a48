import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("Joining a connection late")
struct LateJoinTests {
    @Test("a request begins where a method comes after an answer, and nowhere else")
    func turns() {
        let begins = { (pieces: [String]) in
            var join = LateJoin()
            var last = false
            for piece in pieces {
                let bytes = Array(piece.dropFirst().utf8)
                if piece.first == ">" { last = join.begins(with: bytes.span) } else { join.answered(bytes.span) }
            }
            return last
        }
        let get = ">GET / HTTP/1.1\r\n\r\n"
        #expect(begins(["<HTTP/1.1 200 OK\r\n\r\n", get]))
        #expect(begins(["<HTTP/1.1 200 OK\r\n\r\n", "<body", ">PATCH /a HTTP/1.1"]))
        // The rest of a request that had begun earlier.
        #expect(!begins([get]))
        #expect(!begins(["<HTTP/1.1 100 Continue\r\n\r\n", get]))
        #expect(!begins(["<HTTP/1.1 200 OK\r\n\r\n", ">\r\n", get]))
        // Part of a body, another protocol, or the rest of a line.
        for piece in [
            ">body", ">XGET / HTTP/1.1", ">GE", ">T / HTTP/1.1", ">PRI * HTTP/2.0", ">CONNECT a:1 HTTP/1.1", ">",
        ] {
            #expect(!begins(["<HTTP/1.1 200 OK\r\n\r\n", piece]), "\(piece)")
        }
    }

    /// A server's connection, seen from some place on.
    private struct Late {
        var exchanges = HTTP1Exchanges(
            role: .server,
            cookie: 7,
            sent: SocketStream(base: 100),
            received: SocketStream(base: 200),
            naming: NumberedExchanges()
        )
        var trial = LateTrial(sent: 100, received: 200)
        var told: [Report.Record] = []

        mutating func receive(_ text: String) {
            self.trial.goesOn(self.exchanges)
            self.pass { $0.received(Array(text.utf8).span, at: 1, &$1) }
        }

        mutating func send(_ text: String) { self.pass { $0.sent(Array(text.utf8).span, at: 2, &$1) } }

        mutating func close() {
            self.trial.goesOn(self.exchanges)
            self.pass(isLast: true) { $0.close(at: 3, &$1) }
        }

        private mutating func pass(isLast: Bool = false, _ body: (inout HTTP1Exchanges, inout RecordBatch) -> Void) {
            var found = RecordBatch()
            body(&self.exchanges, &found)
            self.trial.take(&found, of: self.exchanges, isLast: isLast)
            self.told += found
        }

        var messages: [MessagePart] { self.told.messages }
    }

    private static let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
    private static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

    @Test(
        "an exchange in step is reported when the next request begins, or at the end, as inferred",
        arguments: [false, true]
    )
    func inStep(isLast: Bool) {
        var late = Late()
        for _ in 0..<3 { late.receive(Self.get) }  // one after the other, without waiting
        for _ in 0..<3 { late.send(Self.ok) }
        #expect(late.told.isEmpty && !late.trial.hasFailed)
        if isLast { late.close() } else { late.receive(Self.get) }
        #expect(late.messages.count == (isLast ? 6 : 7) && late.messages.allSatisfy { $0.quality == .inferred })
        let (get, ok) = (UInt64(Self.get.utf8.count), UInt64(Self.ok.utf8.count))
        let requests = late.messages.filter { $0.status == 0 }.map(\.interval)
        #expect(requests.prefix(2) == [.init(from: 200, to: 200 + get), .init(from: 200 + get, to: 200 + 2 * get)])
        #expect(late.messages.first { $0.status == 200 }?.interval == .init(from: 100, to: 100 + ok))
    }

    @Test("exchanges that are out of step are never reported")
    func outOfStep() {
        // A body that looks like a request, and the rest of that body. An answer to an earlier request. An answer that
        // is cut off. Another protocol.
        let answers: [(inout Late) -> Void] = [
            { $0.receive("and the rest of a body\r\n") },
            { $0.send("rest of a body\r\n") },
            { $0.send(Self.ok + Self.ok) },
            { $0.close() },
            {
                $0.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"); $0.close()
            },
            { $0.send("HTTP/1.1 101 Switching Protocols\r\n\r\n") },
        ]
        for (index, answer) in answers.enumerated() {
            var late = Late()
            late.receive(Self.get)
            answer(&late)
            #expect(late.trial.hasFailed, "\(index)")
            late.receive(Self.get)
            late.send(Self.ok)
            late.close()
            #expect(late.told.isEmpty, "\(index)")
        }
    }

    @Test("a connection of a client that never waits for an answer is not joined, and little of it is kept")
    func impatient() {
        var late = Late()
        for _ in 0..<LateTrial.longest { late.receive(Self.get) }
        #expect(!late.trial.hasFailed)
        late.receive(Self.get)
        #expect(late.trial.hasFailed && late.told.isEmpty)
    }

    @Test("bytes that TLS had moved before do not count as bytes of the joined part")
    func before() {
        var trial = LateTrial(sent: 100, received: 200)
        let exchanges = HTTP1Exchanges(role: .server, naming: NumberedExchanges())
        for _ in 0..<2 { trial.goesOn(exchanges) }
        var connection = Report.Connection(cookie: 7)
        (connection.sent.tls, connection.received.tls) = (130, 200)
        var records: RecordBatch = [.connection(connection)]
        trial.take(&records, of: exchanges, isLast: false)
        (connection.sent.tls, connection.received.tls) = (30, 0)
        #expect(records.connections == [connection])
    }
}
