import Testing

@testable import TrafficKit

/// Messages that two parsers may read differently. The scanner must not become a third parser with its own reading.
@Suite("Ambiguous HTTP/1.x")
struct HTTP1AmbiguityTests {
    private static let smuggled = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"

    /// Fields of a request. The body would be one chunk, or `0\r\n\r\n`.
    static let fields: [String] = [
        "Transfer-Encoding : chunked",
        "Transfer-Encoding\t: chunked",
        "Content-Length : 5",
        "X: a\r\n Transfer-Encoding: chunked",
        "Transfer-Encoding:\r\n chunked",
        "Content-Length:\r\n\t5",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5, 5", "Content-Length: 5, 6", "Content-Length: 5 5",
        "Content-Length: +5", "Content-Length: -5", "Content-Length: 0x5", "Content-Length:", "Content-Length: five",
        "Content-Length: 18446744073709551616",
        "Content-Length: " + String(repeating: "0", count: 9_000) + "5",
        "Transfer-Encoding: chunked, gzip", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: gzip",
        "Transfer-Encoding: identity", "Transfer-Encoding: xchunked", "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chun\u{212a}ed", "Transfer-Encoding: gzip, chun\u{212a}ed",
        "Transfer-Encoding: chunked;q=1", "Transfer-Encoding: ,chunked", "Transfer-Encoding: chunked,",
        "Transfer-Encoding:", "Transfer-Encoding: gzip chunked",
        "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip",
        "Transfer-Encoding: \u{b}chunked", "Transfer-Encoding: chunked\0", "Transfer-Encoding: chunked\u{7f}",
        "Transfer-Encoding\0: chunked", "\u{b}Transfer-Encoding: chunked", "Transfer-Encoding\u{a0}: chunked",
        "Transfer-Encoding:" + String(repeating: " ", count: 9_000) + "chunked",
        "X: a\nTransfer-Encoding: chunked", "X: a\rTransfer-Encoding: chunked", "X: a\r\r\nTransfer-Encoding: chunked",
        "X: a\n\r\nTransfer-Encoding: chunked", "X: \0\r\nTransfer-Encoding: chunked",
        "Content-Length: 5\t", "Content-Length: 5 \t ", "Transfer-Encoding: chunked\t",
        "no colon", ": no name", "(name): x", "na me: x",
    ]

    @Test("fields", arguments: Self.fields)
    func refuses(fields: String) {
        Self.expectNothingBehind("POST / HTTP/1.1\r\nHost: h\r\n\(fields)\r\n\r\n0\r\n\r\n")
    }

    /// Bodies after `Transfer-Encoding: chunked`.
    static let chunks: [String] = [
        "5 \r\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "\r\n0\r\n\r\n", ";a=b\r\n0\r\n\r\n",
        "10000000000000005\r\nhello\r\n0\r\n\r\n", "5;\r\nhello\r\n0\r\n\r\n", "5;a b\r\nhello\r\n0\r\n\r\n",
        "5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n", "5;a\nhello\r\n0\r\n\r\n", "5;=b\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n", "5\r\nhello\n0\r\n\r\n", "5\r\nhello\r\r\n0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n",
        "0\r\nContent-Length: 5\r\n\r\n", "0\r\nTransfer-Encoding: chunked\r\n\r\n", "0\r\n x: y\r\n\r\n",
        "0\r\nX: y\n\r\n",
        "0\r\nX\r\n\r\n", "0\n\n", "0\r\n\n",
    ]

    @Test("chunks and trailers", arguments: Self.chunks)
    func refuses(chunks: String) {
        Self.expectNothingBehind("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\(chunks)")
    }

    static let lines: [String] = [
        "GET / HTTP/1.1\n\n", "GET / HTTP/1.1\r\r\n\r\n", "GET /\0 HTTP/1.1\r\n\r\n", "GET /\rx HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 \r\n\r\n", "GET / HTTP/1.1\r\n x: y\r\n\r\n", "G\tET / HTTP/1.1\r\n\r\n",
        " GET / HTTP/1.1\r\n\r\n",
        "GET / /" + String(repeating: "a", count: 9_000) + " HTTP/1.1\r\n\r\n",
        "GET /" + String(repeating: "a", count: 9_000) + " /b HTTP/1.1\r\n\r\n",
        "GET /" + String(repeating: "a", count: 9_000) + "\r\n\r\n",
    ]

    @Test("lines", arguments: Self.lines)
    func refuses(lines: String) {
        Self.expectNothingBehind(lines)
    }

    private static func expectNothingBehind(_ stream: String) {
        let bytes = Array((stream + Self.smuggled).utf8)
        let whole = Self.scan([bytes])
        #expect(whole.opaqueFrom.map { $0 <= stream.utf8.count } == true)
        #expect(!whole.targets.contains("/smuggled"))
        #expect(Self.scan(bytes.map { [$0] }) == whole)
        for split in bytes.indices where bytes.count < 1_000 || split % 100 == 0 {
            #expect(Self.scan([Array(bytes[..<split]), Array(bytes[split...])]) == whole)
        }
    }

    private struct Scanned: Hashable {
        var targets: [String] = []
        var opaqueFrom: UInt64?
    }

    private static func scan(_ pieces: [[UInt8]]) -> Scanned {
        var recorder = HTTP1ScannerTests.Recorder(.request)
        for piece in pieces { recorder.scan(piece.span) }
        recorder.close()
        var scanned = Scanned()
        for event in recorder.events {
            switch event {
            case .head(_, let request): scanned.targets.append(request.target)
            case .opaque(let position): scanned.opaqueFrom = position
            default: break
            }
        }
        return scanned
    }

    @Test("responses: the same, and a body with another coding than chunked lasts until the stream ends")
    func responses() {
        for (fields, isOpaque) in [
            ("Transfer-Encoding: gzip", false), ("Transfer-Encoding: gzip\r\nContent-Length: 5", true),
            ("Transfer-Encoding: chunked\r\nContent-Length: 5", true), ("Content-Length: 5, 5", true),
        ] {
            var recorder = HTTP1ScannerTests.Recorder(.response, methods: ["GET"])
            recorder.scan(Array("HTTP/1.1 200 OK\r\n\(fields)\r\n\r\nHTTP/1.1 200 OK\r\n\r\n".utf8).span)
            #expect(recorder.scanner.isOpaque == isOpaque)
            recorder.close()
            let heads = recorder.events.count { if case .head = $0 { true } else { false } }
            #expect(heads == 1)
        }
    }
}
