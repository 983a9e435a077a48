import Foundation
import FoundationNetworking
import Testing
import TrafficKit
import TrafficKitTestSupport
import TrafficReport

@testable import TrafficKitURLSession

@Suite("The messages that are derived from a socket's bytes")
struct HopTests {
    private static func messages(
        _ request: URLRequest,
        _ fields: [String: String],
        delivered: UInt64,
        sent: UInt64 = 5_000,
        received: UInt64 = 8_000,
        isRepeated: Bool = false
    ) throws -> (request: MessagePart, response: MessagePart) {
        let monitor = TrafficMonitor()
        try monitor.start(.init(socketPath: "/nowhere/report.sock"))
        let url = try #require(request.url)
        let hop = Hop(request, body: UInt64(request.httpBody?.count ?? 0), index: 0, monitor)
        _ = hop.end()
        let response = HTTPURLResponse(url: url, statusCode: 200, httpVersion: "HTTP/1.1", headerFields: fields)
        let end = HopResponse(
            response: try #require(response),
            deliveredBytes: delivered,
            isComplete: true,
            startedAt: 1,
            finishedAt: 2
        )
        let growth = SocketGrowth(
            cookie: 7,
            sent: .init(from: 100, to: 100 + sent),
            received: .init(from: 200, to: 200 + received)
        )
        let record = try #require(hop.record(answeredBy: end, growth, isRepeated: isRepeated))
        let records = [Report.Record.exchange(record)]
        for message in records.messages {
            let isSum = message.interval.bytes == message.messageBytes + message.tlsBytes
            #expect(isSum || message.cookie == 0 && message.interval.isEmpty)
        }
        return (try #require(records.requests.first), try #require(records.responses.first))
    }

    @Test(
        "TLS: known bodies are reported, and the rest is not divided",
        arguments: [
            ([:], 1_000, 1_000), (["Content-Encoding": "gzip", "Content-Length": "300"], 1_000, 300),
            (["Content-Encoding": "br"], 1_000, 0), (["Transfer-Encoding": "chunked"], 1_000, 1_000),
        ] as [([String: String], UInt64, UInt64)]
    )
    func tls(fields: [String: String], delivered: UInt64, body: UInt64) throws {
        let request = try SerialTests.request("https://localhost:1/a", "POST", body: Data(count: 900))
        let (sent, received) = try Self.messages(request, fields, delivered: delivered)
        #expect(sent.bodyBytes == 900 && sent.tlsBytes == 4_100 && sent.cookie == 7 && sent.quality == .inferred)
        #expect(received.bodyBytes == body && received.tlsBytes == 8_000 - body && received.quality == .inferred)
        #expect(received.decodedBodyBytes == delivered && received.interval == .init(from: 200, to: 8_200))
    }

    @Test("a body has its class even if its encoded length is unknown", arguments: [0, 1_000] as [UInt64])
    func contentClass(delivered: UInt64) throws {
        let request = try SerialTests.request("https://localhost:1/a")
        let fields = ["Content-Encoding": "br", "Content-Type": "application/json"]
        let (_, received) = try Self.messages(request, fields, delivered: delivered)
        #expect(received.bodyBytes == 0 && received.contentClass == (delivered == 0 ? .none : .json))
    }

    @Test(
        "a socket that grew by less than the exchange, or is already closed, belongs to another exchange",
        arguments: [(5_000, 1_015, [:]), (1_000, 8_000, [:]), (5_000, 8_000, ["Connection": "close"])]
            as [(UInt64, UInt64, [String: String])]
    )
    func impossible(sent: UInt64, received: UInt64, fields: [String: String]) throws {
        let request = try SerialTests.request("http://localhost:1/a", "POST", body: Data(count: 980))
        let fields = fields.merging(["Content-Length": "1000"]) { $1 }
        let messages = try Self.messages(request, fields, delivered: 1_000, sent: sent, received: received)
        for message in [messages.request, messages.response] {
            #expect(message.cookie == 0 && message.interval.isEmpty && message.quality == .inferred)
        }
        #expect(messages.request.bodyBytes == 980 && messages.response.bodyBytes == 1_000)
        #expect(messages.request.lineBytes == 18)
    }

    @Test(
        "a request that the session repeats with credentials is several requests on the wire",
        arguments: [false, true]
    )
    func repeated(isRepeated: Bool) throws {
        let request = try SerialTests.request("http://localhost:1/a", "POST", body: Data(count: 980))
        let fields = ["Content-Length": "1000"]
        let (sent, received) = try Self.messages(request, fields, delivered: 1_000, isRepeated: isRepeated)
        for message in [sent, received] { #expect(message.quality == (isRepeated ? .inferred : .exact)) }
        #expect(sent.headerBytes == 5_000 - 18 - 980 && received.headerBytes == 7_000)
    }

    @Test(
        "a body that only the end of the connection ends: its socket is closed, and a socket that grew is another's",
        arguments: [
            [:], ["Content-Length": "18446744073709551615"], ["Content-Length": "9223372036854775808"],
            ["Content-Length": "-1"],
        ] as [[String: String]]
    )
    func untilClose(fields: [String: String]) throws {
        let request = try SerialTests.request("http://localhost:1/a")
        for fields in [fields, fields.merging(["Content-Encoding": "gzip"]) { $1 }] {
            let (sent, received) = try Self.messages(request, fields, delivered: 1_000)
            for message in [sent, received] {
                #expect(message.cookie == 0 && message.interval.isEmpty && message.quality != .exact)
            }
        }
    }

    @Test(
        "a URL's target and port",
        arguments: [
            ("http://a.example", "/", 80), ("https://a.example?q", "/?q", 443),
            ("http://u:p@[::1]:8080/b%20c/?d=%2F#e", "/b%20c/?d=%2F", 8_080),
        ]
    )
    func target(url: String, target: String, port: UInt16) throws {
        let request = try SerialTests.request(url)
        #expect(request.target == target && request.url?.remotePort == port)
    }
}
