import Testing
import TrafficReport

@testable import TrafficKit

@Suite("HTTP/1.x scanner")
struct HTTP1ScannerTests {
    typealias Lengths = HTTP1Scanner.Lengths

    enum Event: Hashable {
        case between(UInt64)
        case began(at: UInt64)
        case head(MessageHead, of: MessageHead.Request)
        case ended(Lengths, at: UInt64, isComplete: Bool)
        case opaque(from: UInt64)
    }

    /// A scanner and what it has said.
    struct Recorder {
        var scanner: HTTP1Scanner
        /// The requests that wait for their response, oldest first.
        var methods: [String] = []
        var events: [Event] = []

        init(_ kind: HTTP1Scanner.Kind, methods: [String] = []) {
            (self.scanner, self.methods) = (HTTP1Scanner(kind), methods)
        }

        mutating func scan(_ bytes: Span<UInt8>) { self.pass(.bytes(bytes)) }

        mutating func close() { self.pass(.end(isClean: true)) }

        private mutating func pass(_ input: borrowing HTTP1Scanner.Input) {
            var index = 0
            while let event = self.scanner.next(input, &index, answering: self.methods.first.map { HTTP1Method($0) }) {
                switch event {
                case .lineEnd: self.events.append(.between(1))
                case .began(let position): self.events.append(.began(at: position))
                case .head:
                    self.events.append(.head(self.scanner.head, of: self.scanner.request))
                    if self.scanner.head.status >= 200, !self.methods.isEmpty { self.methods.removeFirst() }
                case .ended(let lengths, let isComplete):
                    self.events.append(.ended(lengths, at: self.scanner.position, isComplete: isComplete))
                case .opaque: self.events.append(.opaque(from: self.scanner.position))
                }
            }
        }
    }

    /// A stream of one direction and the bytes of its messages, counted by hand or by the lengths of their parts.
    struct Case: CustomTestStringConvertible, Sendable {
        var testDescription: String
        var kind = HTTP1Scanner.Kind.request
        var methods: [String] = []
        var stream: String
        var messages: [Lengths]
        /// Bytes that belong to no message.
        var between: UInt64 = 0
        var isComplete = true
        var opaqueFrom: UInt64?
    }

    private static let blank = String(repeating: " ", count: 300)
    /// Lengths of targets: around the limit of what the scanner keeps, and far beyond.
    private static let long = [8_170, 8_182, 8_183, 8_184, 8_185, 8_195, 30_000]

    static let cases: [Case] = [
        Case(
            testDescription: "GET",
            stream: "GET /users/1?a=1 HTTP/1.1\r\nHost: api.example\r\n\r\n",
            messages: [Lengths(line: 27, header: 21)]
        ),
        Case(
            testDescription: "cookies, and a field like one",
            stream: "GET / HTTP/1.1\r\nCookie: a=b\r\nX-Cookie: 1\r\nCOOKIE:x\r\n\r\n",
            messages: [Lengths(line: 16, header: 13 + 13 + 10 + 2, cookie: 13 + 10)]
        ),
        Case(
            testDescription: "the last field is a cookie",
            stream: "GET / HTTP/1.1\r\nCookie: a\r\n\r\n",
            messages: [Lengths(line: 16, header: 13, cookie: 11)]
        ),
        Case(
            testDescription: "POST with a length, twice on a connection, an empty line between",
            stream:
                "POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello\r\nPOST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
            messages: [
                Lengths(line: 18, header: 21, body: 5), Lengths(line: 18, header: 21),
            ],
            between: 2
        ),
        Case(
            testDescription: "pipelined",
            stream: String(repeating: "GET / HTTP/1.1\r\n\r\n", count: 100),
            messages: Array(repeating: Lengths(line: 16, header: 2), count: 100)
        ),
        Case(
            testDescription: "chunks with extensions and trailers",
            stream:
                "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
            messages: [Lengths(line: 17, header: 34 + 2 + 6, body: 15, framing: 7 + 2 + 3 + 2 + 3 + 2)]
        ),
        Case(
            testDescription: "cut in the body",
            stream: "PUT / HTTP/1.1\r\nContent-Length: 9\r\n\r\nhell",
            messages: [Lengths(line: 16, header: 21, body: 4)],
            isComplete: false
        ),
        Case(
            testDescription: "cut in a field",
            stream: "GET / HTTP/1.1\r\nHos",
            messages: [Lengths(line: 16, header: 3)],
            isComplete: false
        ),
        Case(
            testDescription: "cut behind a cookie, which counts as one",
            stream: "GET / HTTP/1.1\r\nCookie: a\r\n",
            messages: [Lengths(line: 16, header: 11, cookie: 11)],
            isComplete: false
        ),
        Case(
            testDescription: "line ends before, between and behind messages",
            stream: "\r\n\n\rGET / HTTP/1.1\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n\r\n\r\n",
            messages: [Lengths(line: 16, header: 2), Lengths(line: 16, header: 2)],
            between: 4 + 4 + 2
        ),
        Case(
            testDescription: "lengths and codings behind more white space than any value that is kept",
            stream: "POST / HTTP/1.1\r\nTransfer-Encoding:\(blank)chunked\(blank)\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
                + "PUT / HTTP/1.1\r\nContent-Length:\(blank)5\(blank)\r\n\r\nhello",
            messages: [
                Lengths(line: 17, header: 18 + 300 + 7 + 300 + 2 + 2, body: 5, framing: 3 + 2 + 3 + 2),
                Lengths(line: 16, header: 15 + 300 + 1 + 300 + 2 + 2, body: 5),
            ]
        ),
        Case(
            testDescription: "request lines that are longer than what is kept",
            stream: long.map { "GET /\(String(repeating: "a", count: $0)) HTTP/1.1\r\nHost: h\r\n\r\n" }.joined(),
            messages: long.map { Lengths(line: UInt64(16 + $0), header: 11) }
        ),
        Case(
            testDescription: "a reason that is longer than what is kept",
            kind: .response,
            methods: ["GET"],
            stream: "HTTP/1.1 200 \(String(repeating: "o k", count: 5_000))\r\nContent-Length: 1\r\n\r\nx",
            messages: [Lengths(line: 15_015, header: 21, body: 1)]
        ),
        Case(
            testDescription: "a field without a name",
            stream: "GET / HTTP/1.1\r\n: a\r\n\r\n",
            messages: [Lengths(line: 16, header: 5)],
            isComplete: false,
            opaqueFrom: 21
        ),
        Case(
            testDescription: "a field that is longer than anything that is kept, and has its colon behind that",
            stream: "GET / HTTP/1.1\r\n" + String(repeating: "n", count: 9_000) + ": 1\r\n\r\n",
            messages: [Lengths(line: 16, header: 9_005 + 2)]
        ),
        Case(
            testDescription: "TLS where HTTP was expected",
            stream: "\u{16}\u{03}\u{01}\n\u{02}\u{00}",
            messages: [Lengths(line: 1)],
            isComplete: false,
            opaqueFrom: 1
        ),
        Case(
            testDescription: "lengths that contradict each other",
            stream: "POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
            messages: [Lengths(line: 17, header: 40)],
            isComplete: false,
            opaqueFrom: 57
        ),
        Case(
            testDescription: "response with a length, two cookies",
            kind: .response,
            methods: ["GET"],
            stream: "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\nContent-Length: 3\r\n\r\nabc",
            messages: [Lengths(line: 17, header: 17 + 17 + 19 + 2, cookie: 34, body: 3)]
        ),
        Case(
            testDescription: "no body: HEAD, 204, 304; then one",
            kind: .response,
            methods: ["HEAD", "DELETE", "GET", "GET"],
            stream: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"
                + "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.0 200 \r\nContent-Length: 1\r\n\r\nx",
            messages: [
                Lengths(line: 17, header: 21), Lengths(line: 25, header: 2), Lengths(line: 27, header: 30),
                Lengths(line: 15, header: 21, body: 1),
            ]
        ),
        Case(
            testDescription: "interim responses are part of the one that follows",
            kind: .response,
            methods: ["POST"],
            stream:
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            messages: [Lengths(line: 23 + 26 + 17, header: 2 + 11 + 21, body: 2)]
        ),
        Case(
            testDescription: "until the connection closes",
            kind: .response,
            methods: ["GET"],
            stream: "HTTP/1.0 200 OK\r\n\r\nall there is\r\n\r\n",
            messages: [Lengths(line: 17, header: 2, body: 16)]
        ),
        Case(
            testDescription: "an upgrade, then another protocol",
            kind: .response,
            methods: ["GET"],
            stream: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            messages: [Lengths(line: 34, header: 22)],
            opaqueFrom: 56
        ),
        Case(
            testDescription: "a tunnel",
            kind: .response,
            methods: ["CONNECT"],
            stream: "HTTP/1.1 200 OK\r\n\r\n\u{16}\u{03}",
            messages: [Lengths(line: 17, header: 2)],
            opaqueFrom: 19
        ),
    ]

    @Test("every byte has its class: in one piece, cut in two at every place, and one by one", arguments: Self.cases)
    func lengths(_ test: Case) {
        let bytes = Array(test.stream.utf8)
        let whole = Self.events(test, [bytes])
        let ended = whole.compactMap {
            if case .ended(let lengths, _, let isComplete) = $0 { (lengths, isComplete) } else { nil }
        }
        #expect(ended.map(\.0) == test.messages)
        #expect(ended.last?.1 == test.isComplete)
        #expect(!ended.dropLast().contains { !$0.1 })
        let opaque = whole.compactMap { if case .opaque(let position) = $0 { position } else { nil } }
        #expect(opaque == [test.opaqueFrom].compactMap(\.self))
        // Messages follow each other, and together with the opaque bytes they are the whole stream.
        var (end, between) = (UInt64(0), UInt64(0))
        for event in whole {
            switch event {
            case .between(let count):
                between += count
                end += count
            case .began(let position): #expect(position == end)
            case .ended(let lengths, let position, _):
                #expect(position == end + lengths.total)
                end = position
            case .head, .opaque: break
            }
        }
        #expect(end == test.opaqueFrom ?? UInt64(bytes.count))
        #expect(between == test.between)
        for split in bytes.indices where bytes.count < 1_000 || split % 100 == 0 {
            #expect(Self.events(test, [Array(bytes[..<split]), Array(bytes[split...])]) == whole)
        }
        #expect(Self.events(test, bytes.map { [$0] }) == whole)
    }

    private static func events(_ test: Case, _ pieces: [[UInt8]]) -> [Event] {
        var recorder = Recorder(test.kind, methods: test.methods)
        for piece in pieces { recorder.scan(piece.span) }
        recorder.close()
        #expect(recorder.scanner.position == UInt64(pieces.joined().count))
        return recorder.events
    }

    @Test("the scanner keeps the known fields of a head, whatever their case and spaces, and nothing else")
    func head() throws {
        var recorder = Recorder(.request)
        let blank = String(repeating: " ", count: 300)
        let text =
            "PATCH /a?b=c HTTP/1.1\r\nhOsT:\t\(blank) api.example:8080 \r\nContent-Type: application/JSON; charset=utf-8\r\n"
            + "content-encoding: br\r\nContent-Length: 2\r\nAuthorization: secret\r\n\r\n{}"
        recorder.scan(Array(text.utf8).span)
        let heads = recorder.events.compactMap {
            if case .head(let head, let request) = $0 { (head, request) } else { nil }
        }
        let (head, request) = try #require(heads.first)
        #expect(request == .init(method: "PATCH", target: "/a?b=c", host: "api.example:8080"))
        #expect(head.contentClass == .json && head.isEncoded && head.contentLength == 2 && !head.isChunked)
        // The whole scanner, with everything that it refers to.
        var memory = ""
        dump(recorder.scanner, to: &memory)
        #expect(!memory.contains("secret") && !memory.contains("b=c"))
    }

    @Test("a head that never ends takes a limited amount of memory")
    func endless() {
        let letters = [UInt8](repeating: UInt8(ascii: "a"), count: 1 << 20)
        var recorder = Recorder(.request)
        for _ in 0..<4 { recorder.scan(letters.span) }
        #expect("\(recorder.scanner)".utf8.count < 100_000)
        recorder.scan(Array(" / HTTP/1.1\r\n".utf8).span)
        #expect(recorder.events.last == .opaque(from: (4 << 20) + 13))
    }

    @Test("mutated streams end in events and count every byte")
    func mutations() {
        var random = SystemRandomNumberGenerator()
        for round in 0..<20_000 {
            let test = Self.cases[round % Self.cases.count]
            var bytes = Array(test.stream.utf8)
            for _ in 0..<3 where !bytes.isEmpty {
                let index = Int.random(in: bytes.indices, using: &random)
                if Bool.random(using: &random) {
                    bytes[index] = .random(in: 0...127, using: &random)
                } else {
                    bytes.remove(at: index)
                }
            }
            var recorder = Recorder(test.kind)
            recorder.scan(bytes.span)
            recorder.close()
            var total: UInt64 = 0
            var opaque: UInt64?
            for event in recorder.events {
                if case .ended(let lengths, _, _) = event { total += lengths.total }
                if case .between(let count) = event { total += count }
                if case .opaque(let position) = event { opaque = position }
            }
            #expect(total == opaque ?? UInt64(bytes.count))
        }
    }
}
