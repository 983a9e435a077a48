import Glibc
import NIOCore
import NIOHPACK
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitNIO

@Suite("HTTP/2 exchanges")
final class HTTP2ExchangesTests {
    private var encoders = (requests: HPACKEncoder(allocator: .init()), responses: HPACKEncoder(allocator: .init()))
    private var records: [Report.Record] = []
    private var bytes = (sent: UInt64(0), received: UInt64(0))
    /// Must be set before the first byte.
    private var routes: TrafficRoutes?
    private let naming = NumberedExchanges(excluding: "/private")
    private lazy var exchanges = HTTP2Exchanges(
        role: .client,
        cookie: 5,
        sent: SocketStream(base: 1_000),
        received: SocketStream(base: 2_000),
        routes: self.routes,
        naming: self.naming
    )

    private func frame(_ type: UInt8, _ flags: UInt8, _ stream: UInt32, _ payload: [UInt8] = []) -> [UInt8] {
        let length = payload.count
        return [UInt8(length >> 16), UInt8(length >> 8 & 0xff), UInt8(length & 0xff), type, flags]
            + (0..<4).map { UInt8(truncatingIfNeeded: stream >> (24 - 8 * $0)) } + payload
    }

    private func head(_ fields: [(String, String)], isRequest: Bool) throws -> [UInt8] {
        var buffer = ByteBuffer()
        let headers = HPACKHeaders(fields)
        if isRequest {
            try self.encoders.requests.encode(headers: headers, to: &buffer)
        } else {
            try self.encoders.responses.encode(headers: headers, to: &buffer)
        }
        return Array(buffer.readableBytesView)
    }

    private func pass(_ body: (inout HTTP2Exchanges, inout RecordBatch) -> Void) {
        var found = RecordBatch()
        body(&self.exchanges, &found)
        self.records += found
    }

    private func send(_ bytes: [UInt8], at time: UInt64 = 10) {
        self.bytes.sent += UInt64(bytes.count)
        self.pass { $0.sent(bytes.span, at: time, &$1) }
    }

    private func receive(_ bytes: [UInt8], at time: UInt64 = 20) {
        self.bytes.received += UInt64(bytes.count)
        self.pass { $0.received(bytes.span, at: time, &$1) }
    }

    private func request(_ stream: UInt32, _ path: String = "/a", isLast: Bool = true) throws {
        let block = try self.head(
            [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "h"), ("cookie", "k=v")],
            isRequest: true
        )
        self.send(self.frame(1, isLast ? 0x5 : 0x4, stream, block))
    }

    private func respond(_ stream: UInt32, _ status: Int, isLast: Bool = true) throws {
        let fields = [(":status", "\(status)"), ("content-length", "3"), ("content-type", "application/json")]
        self.receive(self.frame(1, isLast ? 0x5 : 0x4, stream, try self.head(fields, isRequest: false)))
    }

    private var messages: [MessagePart] { self.records.messages }

    private var endings: [Report.Ending] { self.records.outcomes.map(\.ending) }

    private func close(_ ending: Report.Ending = .truncated) {
        self.pass { $0.close(ending, at: 30, &$1) }
    }

    /// After the end: the messages and the connection's own record have all bytes.
    private func expectEveryByte() {
        let connection = self.records.connections.last ?? Report.Connection(cookie: 5)
        let sum = { (rest: Report.Connection.Remainder) in rest.framing + rest.opaque + rest.excluded + rest.tls }
        let sent = self.records.requests.reduce(sum(connection.sent)) { $0 + $1.interval.bytes }
        let received = self.records.responses.reduce(sum(connection.received)) { $0 + $1.interval.bytes }
        #expect(sent == self.bytes.sent && received == self.bytes.received)
        for message in self.messages {
            #expect(message.interval.isPossible && message.interval.bytes == message.messageBytes)
        }
    }

    /// Preface and settings of a client.
    private var beginning: [UInt8] {
        Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8) + self.frame(4, 0, 0)
    }

    @Test("frames of stream 0 that only streams may have end nothing and begin nothing", arguments: [true, false])
    func streamZero(hasStream: Bool) throws {
        self.send(self.beginning)
        if hasStream {
            try self.request(1)
            try self.respond(1, 200)
        }
        // A promise on stream 1 for stream 2, with an empty block, and a reset of stream 0.
        self.receive(self.frame(5, 4, 1, [0, 0, 0, 2]))
        self.receive(self.frame(3, 0, 0, [0, 0, 0, 8]))
        self.send(self.frame(5, 4, 1, [0, 0, 0, 2]))
        self.send(self.frame(3, 0, 0, [0, 0, 0, 8]))
        self.close()
        #expect(self.endings == (hasStream ? [.ok] : []))
        self.expectEveryByte()
    }

    @Test("what comes behind the end of a message is of no message, and no byte is lost", arguments: [true, false])
    func behindTheEnd(isRequest: Bool) throws {
        self.send(self.beginning)
        try self.request(1, isLast: isRequest)
        // The message is told before the other frames come.
        if !isRequest { try self.respond(1, 503) }
        for flags: UInt8 in [0, 1, 0] {
            let data = self.frame(0, flags, 1, [1, 2, 3])
            if isRequest { self.send(data) } else { self.receive(data) }
        }
        if isRequest { try self.request(1, "/b") } else { try self.respond(1, 200) }
        if isRequest { try self.respond(1, 503) } else { self.send(self.frame(0, 1, 1)) }
        self.close()
        #expect(self.messages.map(\.route) == ["/a", "/a"] && self.messages.map(\.bodyBytes) == [0, 0])
        #expect(self.endings == [.http5xx])
        self.expectEveryByte()
    }

    @Test("an exchange that is excluded at its head stays excluded, even with trailers")
    func trailersOfExcluded() throws {
        try self.request(1, "/private/x", isLast: false)
        self.naming.excluded = nil
        self.send(self.frame(1, 0x5, 1, try self.head([("checksum", "1")], isRequest: true)))
        try self.respond(1, 200)
        self.close()
        #expect(self.messages.isEmpty && self.endings.isEmpty)
        self.expectEveryByte()
    }

    @Test("after a head that can't be decoded that direction has no names, but every byte is counted")
    func latched() throws {
        try self.request(1)
        try self.respond(1, 200)
        self.send(self.frame(1, 0x5, 3, [0xff, 0xff, 0x07]))
        try self.request(5, "/secret")
        try self.respond(5, 200)
        self.close()
        #expect(self.messages.map(\.route) == ["/a", "/a"])
        self.expectEveryByte()
    }

    @Test("on a connection joined late no request has a name, because the table is unknown", arguments: [false, true])
    func late(hasSettings: Bool) throws {
        // The connection is seen from its start if the client's settings are the first thing that passes.
        if hasSettings { self.send(self.frame(4, 0, 0)) }
        self.send(self.frame(0, 0, 3, [1, 2, 3]))
        try self.request(5)
        try self.respond(5, 200)
        try self.request(7)
        self.close()
        #expect(self.messages.count == (hasSettings ? 3 : 0) && self.endings.count == (hasSettings ? 2 : 0))
        self.expectEveryByte()
    }

    @Test("a body that is sent from a file")
    func file() throws {
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock", observers: [Records()]))
        var traffic = ConnectionTraffic(
            role: .server,
            reporter: TrafficReporter(monitor, role: .server),
            routes: nil,
            hasTLS: false,
            socket: SocketFacts()
        )
        traffic.becomeHTTP2(SocketFacts())
        let fields = [(":method", "GET"), (":path", "/a"), (":authority", "h")]
        let blocks = [try self.head(fields, isRequest: true), try self.head(fields, isRequest: true)]
        let answer = try self.head([(":status", "200")], isRequest: false)
        let again = try self.head([(":status", "200")], isRequest: false)
        let file = NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: dup(0))
        defer { try? file.close() }
        for stream: UInt32 in [1, 3] {
            let bytes = self.frame(1, 0x5, stream, blocks[stream == 1 ? 0 : 1])
            _ = traffic.received(bytes.span, at: 1)
        }
        let send = { (bytes: [UInt8]) in
            _ = traffic.sent(.byteBuffer(ByteBuffer(bytes: bytes)), at: 2)
        }
        send(self.frame(1, 0x4, 1, answer) + [0, 0x03, 0xe8, 0, 1, 0, 0, 0, 1])
        for region in [0..<400, 400..<1_000] {
            let part = FileRegion(fileHandle: file, readerIndex: region.lowerBound, endIndex: region.upperBound)
            _ = traffic.sent(.fileRegion(part), at: 3)
        }
        send(self.frame(1, 0x5, 3, again))
        self.records = Array(traffic.takeRecords())
        let responses = self.messages.filter { $0.status == 200 }
        #expect(responses.map(\.bodyBytes) == [1_000, 0] && responses.allSatisfy { !$0.isIncomplete })
    }

    @Test("a request has its own method, target and authority, or the first host if there is no authority")
    func requests() throws {
        let heads: [[(String, String)]] = [
            [(":method", "GET"), (":path", "/a"), (":authority", "h"), ("host", "other")],
            [(":method", "PUT"), (":path", "/a"), (":authority", "h")],
            [(":method", "PUT"), (":path", "/b"), (":authority", "h")],
            [(":method", "PUT"), (":path", "/b"), ("host", "i"), ("host", "j")],
            [(":method", "PUT"), (":path", "/b?k=1"), (":authority", "i")],
            [(":method", "PUT"), (":path", "/b"), (":authority", "i")],
        ]
        for (index, fields) in heads.enumerated() {
            self.send(self.frame(1, 0x5, UInt32(2 * index + 1), try self.head(fields, isRequest: true)))
        }
        self.close()
        let names = self.messages.map { "\($0.method) \($0.host)\($0.route)" }
        #expect(names == ["GET h/a", "PUT h/a", "PUT h/b", "PUT i/b", "PUT i/b", "PUT i/b"])
        self.expectEveryByte()
    }

    @Test("interim responses and trailers belong to their message, which has the values of the final head")
    func interim() throws {
        try self.request(1, isLast: false)
        self.send(self.frame(0, 0x1, 1, [1, 2, 3]))
        self.receive(self.frame(1, 0x4, 1, try self.head([(":status", "103"), ("link", "x")], isRequest: false)))
        try self.respond(1, 200, isLast: false)
        self.receive(self.frame(0, 0, 1, [1, 2, 3]), at: 25)
        self.receive(self.frame(1, 0x5, 1, try self.head([("checksum", "1")], isRequest: false)), at: 29)
        self.close()
        let (request, response) = (self.messages[0], self.messages[1])
        #expect(request.bodyBytes == 3 && request.method == "POST" && request.framingBytes == 18)
        #expect(request.interval.from == 1_000 && request.interval.to == 1_000 + self.bytes.sent)
        #expect(response.status == 200 && response.bodyBytes == 3 && response.declaredBodyBytes == 3)
        #expect(response.contentClass == .json && response.framingBytes == 4 * 9 && response.finishedAt == 29)
        #expect(self.endings == [.ok])
        self.expectEveryByte()
    }

    @Test("a client that cancels, a server that resets, a server that needs no more of the request")
    func resets() throws {
        for stream: UInt32 in [1, 3, 5, 7] { try self.request(stream, isLast: stream < 5) }
        self.receive(self.frame(3, 0, 3, [0, 0, 0, 7]))  // REFUSED_STREAM
        self.send(self.frame(3, 0, 1, [0, 0, 0, 8]))  // CANCEL
        try self.respond(5, 413)
        self.receive(self.frame(3, 0, 5, [0, 0, 0, 0]))
        self.receive(self.frame(0, 0x1, 3, [1, 2, 3]))  // was on its way when the stream was reset
        self.close(.timeout)
        #expect(self.endings == [.reset, .cancelled, .http4xx, .timeout])
        #expect(self.messages.map(\.number) == [1, 2, 3, 3, 4])
        #expect(self.messages.filter { $0.status == 413 }.map(\.isIncomplete) == [false])
        self.expectEveryByte()
    }

    @Test(
        "if known, the first stream is marked and has the end of the handshake, even if another stream ends first",
        arguments: [0, 7],
        [false, true]
    )
    func first(tlsEndedAt: UInt64, isFromStart: Bool) throws {
        (self.exchanges.start.tlsEndedAt, self.exchanges.start.isFromStart) = (tlsEndedAt, isFromStart)
        for stream: UInt32 in [1, 3, 5] { try self.request(stream) }
        for stream: UInt32 in [3, 1, 5] { try self.respond(stream, 200) }
        self.close()
        let outcomes = self.records.outcomes
        #expect(outcomes.map(\.number) == [2, 1, 3] && outcomes.map(\.tlsEndedAt) == [0, tlsEndedAt, 0])
        #expect(outcomes.map(\.isFirst) == [false, tlsEndedAt != 0 || isFromStart, false])
    }

    @Test("each body of a connection has the class of its own media type")
    func mediaTypes() throws {
        for (index, type) in ["application/json", "text/html", "text/html", "application/json", nil].enumerated() {
            let stream = UInt32(2 * index + 1)
            try self.request(stream)
            let fields = [(":status", "200")] + (type.map { [("content-type", $0)] } ?? [])
            self.receive(self.frame(1, 0x4, stream, try self.head(fields, isRequest: false)))
            self.receive(self.frame(0, 0x1, stream, [1, 2, 3]))
        }
        let responses = self.messages.filter { $0.status == 200 }
        #expect(responses.map(\.contentClass) == [.json, .html, .html, .json, .unknown])
    }

    @Test("a request has its route with or without an answer, and the routes keep nothing of it")
    func routed() throws {
        let routes = TrafficRoutes()
        self.routes = routes
        for stream in [1, 3, 5] {
            routes.name("/\(stream)/{id}", ofStream: stream)
            try self.request(UInt32(stream), "/\(stream)/x")
        }
        #expect(self.records.isEmpty)
        try self.respond(1, 200, isLast: false)
        #expect(self.messages.map(\.route) == ["/1/{id}"])
        self.receive(self.frame(0, 0x1, 1, [1, 2, 3]))
        self.receive(self.frame(3, 0, 3, [0, 0, 0, 8]))
        self.close()
        #expect(self.messages.map(\.route) == ["/1/{id}", "/1/{id}", "/3/{id}", "/5/{id}"])
        let outcomes = self.records.outcomes.map(\.route)
        #expect(outcomes == ["/1/{id}", "/3/{id}", "/5/{id}"])
        #expect(self.endings == [.ok, .reset, .truncated])
        for stream in [1, 3, 5] { #expect(routes.takeRoute(ofRequest: stream) == .unmatched) }
        self.expectEveryByte()
    }

    @Test("excluded exchanges, pushed responses and bytes that are no HTTP/2 count for the connection")
    func others() throws {
        try self.request(1, "/private/x")
        try self.respond(1, 200)
        let promised = try self.head([(":method", "GET"), (":path", "/p")], isRequest: false)
        self.receive(self.frame(5, 0x4, 1, [0, 0, 0, 2] + promised))
        try self.respond(2, 200)
        try self.request(3)
        try self.respond(3, 404)
        self.receive(self.frame(9, 0, 3, [1, 2, 3]))  // continues nothing
        self.receive([UInt8](repeating: 7, count: 100))
        self.close()
        #expect(self.messages.map(\.host) == ["h", "h"] && self.endings == [.http4xx])
        var last = Report.Connection(cookie: 0)
        for case .connection(let connection) in self.records { last = connection }
        #expect(last.sent.excluded > 9 && last.received.excluded > 9 && last.received.opaque == 112)
        #expect(last.received.framing > 9 + 4 + 9)
        self.expectEveryByte()
    }

    @Test("1,000 exchanges may be open; further exchanges count for the connection, even after others end")
    func flood() throws {
        let open = 1_000
        for index in 0..<open + 20 { try self.request(UInt32(2 * index + 1), isLast: false) }
        #expect(self.exchanges.pending == open)
        // An exchange that was kept, and the rest of an exchange that was not kept.
        self.send(self.frame(0, 0x1, 1, [1]))
        try self.respond(1, 200)
        self.send(self.frame(0, 0x1, UInt32(2 * open + 3), [1]))
        try self.respond(UInt32(2 * open + 3), 200)
        try self.request(UInt32(2 * open + 99))
        try self.respond(UInt32(2 * open + 99), 200)
        self.close()
        #expect(self.endings.count == open + 1 && self.endings.count { $0 == .ok } == 2)
        self.expectEveryByte()
    }

    @Test("a header block that can't be decoded: no message, and no byte is lost")
    func undecodable() throws {
        self.send(self.frame(1, 0x5, 1, [0xff, 0xff, 0xff, 0x7f]))
        try self.respond(1, 200)
        try self.request(3)
        try self.respond(3, 200)
        self.close()
        self.expectEveryByte()
    }

    @Test("a response waits if its request is not yet known to be sent")
    func early() throws {
        try self.respond(1, 503)
        #expect(self.records.isEmpty)
        try self.request(1)
        self.close()
        #expect(self.messages.map(\.status) == [0, 503] && self.messages.allSatisfy { $0.host == "h" })
        #expect(self.endings == [.http5xx])
        self.expectEveryByte()
    }
}
