import Testing
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKit

@Suite("HTTP/1.x exchanges")
struct HTTP1ExchangesTests {
    /// One end of a connection: what this end sends and receives, and what the monitor reports about it.
    struct End {
        private var exchanges: HTTP1Exchanges
        private let role: Report.Role
        private(set) var records: [Report.Record] = []
        private(set) var sent: UInt64
        private(set) var received: UInt64
        private let base: (sent: UInt64, received: UInt64)
        let naming: NumberedExchanges
        var now: UInt64 = 1_000_000

        init(
            _ role: Report.Role,
            sent: UInt64 = 0,
            received: UInt64 = 0,
            excluding: String? = nil,
            routes: Routes? = nil
        ) {
            self.role = role
            self.base = (sent, received)
            (self.sent, self.received) = (sent, received)
            self.naming = NumberedExchanges(excluding: excluding)
            self.exchanges = HTTP1Exchanges(
                role: role,
                cookie: 77,
                sent: SocketStream(base: sent),
                received: SocketStream(base: received),
                routes: routes,
                naming: self.naming
            )
        }

        mutating func send(_ text: String) {
            let bytes = Array(text.utf8)
            self.sent += UInt64(bytes.count)
            self.now += 1_000
            var found = RecordBatch()
            self.exchanges.sent(bytes.span, at: self.now, &found)
            self.records += found
        }

        mutating func receive(_ text: String) {
            let bytes = Array(text.utf8)
            self.received += UInt64(bytes.count)
            self.now += 1_000
            var found = RecordBatch()
            self.exchanges.received(bytes.span, at: self.now, &found)
            self.records += found
        }

        mutating func close(_ ending: Report.Ending = .truncated) {
            var found = RecordBatch()
            self.exchanges.close(ending, at: self.now, &found)
            self.records += found
        }

        var requests: [MessagePart] { self.records.requests }
        var responses: [MessagePart] { self.records.responses }
        var outcomes: [OutcomePart] { self.records.outcomes }
        var connections: [Report.Connection] { self.records.connections }

        /// At the end every byte is in a message or in the connection's own record.
        func expectEveryByte() {
            let (out, back) = self.role == .client ? (self.requests, self.responses) : (self.responses, self.requests)
            let rest = self.connections.last ?? Report.Connection(cookie: 77)
            #expect(out.reduce(0) { $0 + $1.interval.bytes } + Self.sum(rest.sent) == self.sent - self.base.sent)
            #expect(
                back.reduce(0) { $0 + $1.interval.bytes } + Self.sum(rest.received) == self.received
                    - self.base.received
            )
            for message in out + back { #expect(message.messageBytes == message.interval.bytes) }
        }

        private static func sum(_ remainder: Report.Connection.Remainder) -> UInt64 {
            remainder.tls + remainder.framing + remainder.opaque + remainder.excluded
        }
    }

    static let get = "GET /users/1?q=1 HTTP/1.1\r\nHost: api.example\r\n\r\n"
    static let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}"

    @Test("keep-alive: intervals follow each other on the socket's own stream")
    func keepAlive() {
        var end = End(.client, sent: 517, received: 3_000)
        for _ in 0..<3 {
            end.send(Self.get)
            end.receive(Self.ok)
        }
        end.close()
        #expect(end.requests.map(\.number) == [1, 2, 3])
        #expect(end.requests.map(\.interval.from) == [517, 565, 613])
        #expect(end.requests.map(\.interval.to) == [565, 613, 661])
        #expect(end.responses.map(\.interval.from) == [3_000, 3_072, 3_144])
        #expect(
            end.responses.allSatisfy {
                $0.status == 200 && $0.contentClass == .json && $0.cookie == 77 && $0.role == .client
            }
        )
        #expect(
            end.responses.allSatisfy { $0.method == "GET" && $0.host == "api.example" && $0.route == "/users/{id}" }
        )
        #expect(end.outcomes.map(\.ending) == [.ok, .ok, .ok])
        #expect(end.outcomes.allSatisfy { $0.phases.send == 0 && $0.phases.wait == 1 && $0.phases.receive == 0 })
        #expect(end.outcomes.allSatisfy { $0.phases.connect == nil && $0.phases.dns == nil })
        end.expectEveryByte()
    }

    @Test("a line end after a request belongs to no message, and starts no clock")
    func strayLineEnds() throws {
        var end = End(.server)
        end.receive(Self.get + "\r\n")
        end.send(Self.ok)
        end.now += 5_000_000_000
        end.receive("\r\n")
        end.now += 5_000_000_000
        end.receive(Self.get)
        end.send(Self.ok + "\r\n")
        end.close()
        #expect(end.requests.map(\.interval.from) == [0, 52])
        #expect(end.requests.map(\.framingBytes) == [0, 0] && end.outcomes.allSatisfy { $0.duration == 1_000 })
        #expect(end.connections.last?.received.framing == 4 && end.connections.last?.sent.framing == 2)
        end.expectEveryByte()
    }

    @Test("a repeated value stays the same, and a missing value is not copied from the message before")
    func repeatedHeads() {
        var end = End(.client)
        for request in ["GET /a", "GET /a", "PUT /a", "PUT /b", "GET /a"] {
            for (host, type) in [
                ("Host: h\r\n", "Content-Type: text/html\r\n"), ("", ""),
                ("Host: k\r\n", "Content-Type: text/plain\r\n"),
            ] {
                end.send("\(request) HTTP/1.1\r\n\(host)\r\n")
                end.receive("HTTP/1.1 200 OK\r\n\(type)Content-Length: 1\r\n\r\nx")
            }
        }
        end.close()
        let names = ["GET /a", "GET /a", "PUT /a", "PUT /b", "GET /a"].flatMap { request in
            ["h", "", "k"].map { "\(request) \($0)" }
        }
        for messages in [end.requests, end.responses] {
            #expect(messages.map { "\($0.method) \($0.route) \($0.host)" } == names)
        }
        #expect(end.responses.map(\.contentClass) == (0..<5).flatMap { _ in [.html, .unknown, .text] })
        end.expectEveryByte()
    }

    @Test("pipelined requests and their answers, as a server sees them, cut at arbitrary places")
    func pipelined() {
        var end = End(.server)
        let requests = (0..<100).map { "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n\($0 % 10)ab" }.joined()
        let answers = (0..<100).map { "HTTP/1.1 \($0 % 3 == 0 ? 200 : 503) X\r\nContent-Length: 1\r\n\r\nx" }.joined()
        for piece in Self.pieces(of: requests, 7) { end.receive(piece) }
        for piece in Self.pieces(of: answers, 11) { end.send(piece) }
        end.close()
        #expect(end.requests.count == 100 && end.responses.count == 100 && end.outcomes.count == 100)
        #expect(end.responses.map(\.number) == Array(1...100))
        #expect(end.outcomes.map(\.ending) == (0..<100).map { $0 % 3 == 0 ? .ok : .http5xx })
        end.expectEveryByte()
    }

    @Test(
        "an answer to HEAD never has a body; after an answer to CONNECT there is no more HTTP",
        arguments: [false, true]
    )
    func methods(isServer: Bool) {
        var end = End(isServer ? .server : .client)
        let ask = { (text: String) in if isServer { end.receive(text) } else { end.send(text) } }
        let answer = { (text: String) in if isServer { end.send(text) } else { end.receive(text) } }
        let (head, get) = ("HEAD /a HTTP/1.1\r\n\r\n", "GET /a HTTP/1.1\r\n\r\n")
        let none = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
        ask(head + get + head)
        answer("HTTP/1.1 100 Continue\r\n\r\n" + none + none + "xy" + none)
        // The answer comes before the request ends. The request then has no other answer.
        ask("PUT /a HTTP/1.1\r\nContent-Length: 3\r\n\r\na")
        answer("HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        ask("bc" + get)
        answer(none + "xy")
        // The request that this answers is not known yet.
        ask("HEAD /a")
        answer("HTTP/1.1 408 Late\r\nContent-Length: 2\r\n\r\nxy")
        ask(" HTTP/1.1\r\n\r\nCONNECT h:1 HTTP/1.1\r\n\r\n")
        answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxyz")
        end.close()
        #expect(end.responses.map(\.bodyBytes) == [0, 2, 0, 0, 2, 0])
        #expect(end.requests.map(\.method) == ["HEAD", "GET", "HEAD", "PUT", "GET", "HEAD", "CONNECT"])
        let rest = end.connections.map { isServer ? $0.sent : $0.received }
        #expect(rest.map(\.opaque) == [3] && rest.map(\.framing) == [42] && rest.map(\.excluded) == [0])
        end.expectEveryByte()
    }

    @Test("an early response does not end the exchange before the request is over")
    func early() {
        var end = End(.client)
        end.send("PUT /f HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc")
        end.receive("HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
        #expect(end.responses.count == 1 && end.outcomes.isEmpty)
        end.send("def")
        #expect(end.requests.count == 1)
        #expect(end.outcomes.map(\.ending) == [.http4xx])
        end.close()
        end.expectEveryByte()
    }

    @Test("a request without a response is reported, with how it ended")
    func unanswered() {
        var end = End(.client)
        end.send(Self.get)
        end.close(.reset)
        #expect(end.requests.count == 1 && end.responses.isEmpty)
        #expect(end.outcomes.map(\.ending) == [.reset])
        #expect(end.outcomes[0].status == 0 && end.outcomes[0].phases.wait == nil)
        end.expectEveryByte()
    }

    @Test(
        "a response with a body that is cut off is incomplete, and has the declared length",
        arguments: [Report.Ending.truncated, .reset, .timeout]
    )
    func cut(ending: Report.Ending) {
        var end = End(.client)
        end.send(Self.get)
        end.receive("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + String(repeating: "x", count: 100))
        end.close(ending)
        #expect(end.responses.map(\.bodyBytes) == [100])
        #expect(end.responses.map(\.declaredBodyBytes) == [1_000])
        #expect(end.responses.map(\.isIncomplete) == [true])
        #expect(end.outcomes.map(\.ending) == [ending])
        end.expectEveryByte()
    }

    @Test("a body without a length ends when the connection closes, not when it is reset", arguments: [false, true])
    func untilClose(isReset: Bool) {
        var end = End(.client)
        end.send(Self.get)
        end.receive("HTTP/1.1 200 OK\r\n\r\n" + String(repeating: "x", count: 100))
        end.close(isReset ? .reset : .truncated)
        #expect(end.responses.map(\.bodyBytes) == [100] && end.responses.map(\.isIncomplete) == [isReset])
        #expect(end.outcomes.map(\.ending) == [isReset ? .reset : .ok])
        end.expectEveryByte()
    }

    @Test("exchanges that the app excludes are not reported, but their bytes count")
    func excluded() {
        var end = End(.client, excluding: "/private")
        end.send("GET /private HTTP/1.1\r\n\r\n")
        end.receive(Self.ok)
        end.send(Self.get)
        end.receive(Self.ok)
        end.close()
        #expect(end.requests.map(\.number) == [2] && end.outcomes.map(\.number) == [2])
        #expect(end.connections.map(\.sent.excluded) == [25] && end.connections.map(\.received.excluded) == [72])
        end.expectEveryByte()
    }

    /// A router that knows one request's path.
    final class Routes: RouteSource {
        private let template: (number: Int, text: String)

        init(_ number: Int, _ text: String) {
            self.template = (number, text)
        }

        func takeRoute(ofRequest number: Int) -> RouteAnswer {
            number == self.template.number ? .template(self.template.text) : .unmatched
        }
    }

    @Test(
        "a server's request gets its route with the answer; without an answer, or before the router runs, there is none"
    )
    func namedLate() {
        var end = End(.server, excluding: "/private", routes: Routes(1, "/users/{user}"))
        end.receive("GET /users/1 HTTP/1.1\r\nHost: h\r\n\r\n")
        #expect(end.records.isEmpty)
        end.send(Self.ok)
        end.receive("GET /private/1 HTTP/1.1\r\n\r\n")
        end.send(Self.ok)
        // The line is too long: the answer does not wait until the line ends.
        end.receive("GET /users/3 HTTP/1.1\r\n")
        end.send("HTTP/1.1 414 URI Too Long\r\nContent-Length: 0\r\n\r\n")
        end.receive("Host: h\r\n\r\n")
        end.receive("GET /users/4 HTTP/1.1\r\nHost: h\r\n\r\n")
        end.send("HTTP/1.1 100 Continue\r\n\r\n")
        end.close(.reset)
        #expect(end.requests.map(\.route) == ["/users/{user}", "_unmatched", "_unmatched"])
        #expect(end.requests.map(\.number) == [1, 3, 4])
        #expect(end.outcomes.map(\.number) == [1, 3, 4])
        #expect(end.connections.map(\.received.excluded) == [27])
        end.expectEveryByte()
    }

    @Test("a request that the app excludes only when it is answered is excluded")
    func refusedLate() {
        var end = End(.server, routes: Routes(1, "/users/{user}"))
        end.receive("GET /users/1 HTTP/1.1\r\nHost: h\r\n\r\n")
        end.naming.excluded = "/users"
        end.send(Self.ok)
        end.close()
        #expect(end.requests.isEmpty && end.responses.isEmpty && end.outcomes.isEmpty)
        #expect(end.connections.map(\.received.excluded) == [34])
        end.expectEveryByte()
    }

    @Test("only a limited number of unanswered requests is kept, and the rest is opaque", arguments: [0, 1])
    func unanswered(more: Int) {
        var end = End(.server)
        let most = HTTP1Exchanges.mostPending
        for _ in 0..<most + more { end.receive(Self.get) }
        end.receive(Self.get)
        for _ in 0..<most { end.send(Self.ok) }
        end.receive(Self.get)
        end.close()
        // The head of the request beyond the limit shows that there are too many.
        #expect(end.requests.count == most + 1 && end.responses.count == most)
        let get = UInt64(Self.get.utf8.count)
        #expect(end.connections.map(\.received.opaque) == [get * UInt64(more + 1)])
        end.expectEveryByte()
    }

    @Test("after an upgrade both directions are opaque")
    func upgrade() {
        var end = End(.server)
        end.receive("GET /chat HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n")
        end.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nframes")
        end.receive("GET / HTTP/1.1\r\n\r\n")
        end.send("more")
        end.close()
        #expect(end.requests.count == 1 && end.responses.map(\.status) == [101])
        #expect(end.outcomes.map(\.ending) == [.ok])
        #expect(end.connections.map(\.sent.opaque) == [10] && end.connections.map(\.received.opaque) == [18])
        end.expectEveryByte()
    }

    /// For a server. NIO's decoder reads nothing after the last request; the answer to that request still counts.
    @Test(
        "what a client sends after its last request is no request",
        arguments: [
            "Connection: Upgrade\r\nUpgrade: h2c", "upgrade: x\r\nconnection: keep-alive , UPGRADE",
            "Proxy-Connection: upgrade\r\nUpgrade: x", "Connection: close", "connection:\tfoo,\t Close \t",
            "Proxy-Connection: close", "Connection: " + String(repeating: "x", count: 9_000),
        ]
    )
    func behindLastRequest(_ fields: String) {
        for body in ["", "hello"] {
            let length = body.isEmpty ? "" : "Content-Length: 5\r\n"
            var server = End(.server)
            server.receive("GET /a HTTP/1.1\r\n\(fields)\r\n\(length)\r\n\(body)")
            server.receive("\r\nGET /b HTTP/1.1\r\n\r\n")
            server.receive("GET /b HTTP/1.1\r\n\r\n")
            server.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            server.close()
            #expect(server.requests.count == 1 && server.responses.count == 1)
            #expect(server.outcomes.map(\.ending) == [.ok])
            #expect(
                server.connections.map(\.received.framing) == [2] && server.connections.map(\.received.opaque) == [38]
            )
            server.expectEveryByte()
        }
    }

    @Test("HTTP/1.0, `close` in trailers and CONNECT end the requests; `keep-alive` and half an upgrade do not")
    func whatCloses() {
        // The scanner does not keep the middle of a line this long, and the two ends together make no option.
        let cut = "," + String(repeating: "x", count: 8_173) + ",keep-" + String(repeating: "z", count: 9) + "alive,aaa"
        for (stream, count) in [
            ("GET / HTTP/1.0\r\n\r\n", 1), ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 2),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\t\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\nConnection: closed\r\n\r\n", 2),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\t ,x\r\n\r\n", 1),
            ("GET / HTTP/1.0\r\nConnection: \(cut)\r\n\r\n", 1),
            ("GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade:\t\r\n\r\n", 2),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n", 1),
            ("CONNECT a:1 HTTP/1.1\r\nContent-Length: 9\r\n\r\n", 1), ("GET / HTTP/1.1\r\nUpgrade: h2c\r\n\r\n", 2),
            ("GET / HTTP/1.1\r\nConnection: upgrade\r\n\r\n", 2),
        ] {
            var server = End(.server)
            server.receive(stream + "GET /b HTTP/1.1\r\n\r\n")
            server.close()
            #expect(server.requests.count == count, "\(stream)")
            server.expectEveryByte()
        }
    }

    /// Other servers, unlike a server of this process, may refuse a protocol and continue to read.
    @Test(
        "a client whose upgrade or tunnel is refused goes on",
        arguments: ["GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\n\r\n"]
    )
    func refusedUpgrade(_ request: String) {
        var client = End(.client)
        for _ in 0..<2 {
            client.send(request)
            client.receive("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno")
        }
        client.close()
        #expect(client.requests.count == 2 && client.outcomes.count == 2)
        client.expectEveryByte()
    }

    @Test("nothing after a response with `close` is a response, not even after an interim one")
    func closingResponses() {
        var client = End(.client)
        client.send(Self.get + Self.get)
        client.receive("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok" + Self.ok)
        client.close()
        #expect(client.responses.count == 1)
        #expect(client.connections.map(\.received.opaque) == [UInt64(Self.ok.utf8.count)])
        client.expectEveryByte()
        for role in [Report.Role.client, .server] {
            var end = End(role)
            let interim = "HTTP/1.0 100 Continue\r\n\r\n"
            if role == .client {
                end.send(Self.get)
                end.receive(interim + Self.ok)
            } else {
                end.receive(Self.get)
                end.send(interim + Self.ok)
            }
            end.close()
            // What this process itself sends is meant as sent: its final response counts.
            #expect(end.responses.map(\.status) == (role == .client ? [100] : [200]))
            end.expectEveryByte()
        }
    }

    @Test("another protocol is opaque from its first line, and a response without a request is framing")
    func strange() {
        var other = End(.server)
        other.receive("SSH-2.0-OpenSSH\r\nwhatever")
        other.send("SSH-2.0-x\r\n")
        other.close()
        #expect(other.requests.isEmpty && other.responses.isEmpty && other.outcomes.isEmpty)
        other.expectEveryByte()
        var idle = End(.client)
        idle.receive("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        idle.close()
        #expect(idle.responses.isEmpty && idle.connections.map(\.received.framing) == [51])
        idle.expectEveryByte()
    }

    @Test("for any input, cut anywhere, every byte is counted somewhere")
    func anything() {
        var random = SystemRandomNumberGenerator()
        let requests = HTTP1ScannerTests.cases.filter { $0.kind == .request }.map(\.stream)
        let responses = HTTP1ScannerTests.cases.filter { $0.kind == .response }.map(\.stream)
        for round in 0..<2_000 {
            var end = End(round.isMultiple(of: 2) ? .client : .server, excluding: "/")
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                let isRequest = Bool.random(using: &random)
                let text = (isRequest ? requests : responses).randomElement(using: &random)!
                let pieces = Self.pieces(of: text, .random(in: 1...40, using: &random))
                for piece in pieces.dropLast(Int.random(in: 0...1, using: &random)) {
                    if isRequest == round.isMultiple(of: 2) { end.send(piece) } else { end.receive(piece) }
                }
            }
            end.close()
            end.expectEveryByte()
            #expect(Set(end.outcomes.map(\.number)).count == end.outcomes.count)
        }
    }

    private static func pieces(of text: String, _ size: Int) -> [String] {
        let scalars = Array(text.unicodeScalars)
        return stride(from: 0, to: scalars.count, by: size).map { start in
            var piece = String.UnicodeScalarView()
            piece.append(contentsOf: scalars[start..<min(start + size, scalars.count)])
            return String(piece)
        }
    }
}
