import Foundation
import Testing

@testable import TrafficReport

/// A datagram of `Golden/`, and what it says.
struct Golden: Sendable, CustomTestStringConvertible {
    let name: String
    let header: Report.Header
    let records: [Report.Record]

    var testDescription: String { self.name }

    static let all = [Self.request, Self.exchange, Self.connection]

    /// Pairs of hexadecimal digits; what follows a `#` is for people.
    func bytes() throws -> [UInt8] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Golden/\(self.name).hex")
        let text = try String(contentsOf: file, encoding: .utf8)
        return text.split(separator: "\n").flatMap { line in
            line.prefix { $0 != "#" }.split(separator: " ").compactMap { UInt8($0, radix: 16) }
        }
    }

    static let request: Golden = {
        var message = Report.Message(exchange: 7)
        message.cookie = 4_242
        message.interval = .init(from: 1_000, to: 1_193)
        message.startedAt = 123_456_000_000
        message.finishedAt = 123_456_000_500
        message.decodedBodyBytes = 0
        message.declaredBodyBytes = 0
        message.lineBytes = 38
        message.headerBytes = 155
        message.cookieBytes = 40
        message.role = .server
        message.version = .http1_1
        message.quality = .exact
        message.contentClass = .none
        (message.method, message.host, message.route) = ("GET", "api.example", "/users/{id}")
        return Golden(
            name: "request",
            header: .init(sequence: 3, sentAt: 123_456_789_012),
            records: [.request(message)]
        )
    }()

    static let exchange: Golden = {
        var message = Report.Message(exchange: 258)
        message.chain = 257
        message.cookie = 1 << 40
        message.interval = .init(from: 1 << 33, to: 1 << 33 + 70_000, bytes: 65_536)
        message.startedAt = 50
        message.finishedAt = 90
        message.bodyBytes = 60_000
        message.decodedBodyBytes = 180_000
        message.declaredBodyBytes = 61_000
        message.framingBytes = 45
        message.tlsBytes = 131
        message.headerBytes = 5_360
        message.status = 503
        message.hop = 1
        message.role = .client
        message.version = .http2
        message.quality = .exact
        message.contentClass = .json
        message.isIncomplete = true
        (message.method, message.host, message.route) = ("POST", "bücher.example", "/a/{id}/b")
        var outcome = Report.Outcome(exchange: 258)
        outcome.chain = 257
        outcome.startedAt = 40
        outcome.duration = 52_000_000
        outcome.phases.send = 20
        outcome.phases.wait = 31_000
        outcome.phases.receive = 20_980
        outcome.role = .client
        outcome.ending = .truncated
        outcome.status = 503
        outcome.tlsEndedAt = 39
        outcome.isFirst = true
        (outcome.method, outcome.host, outcome.route) = ("POST", "bücher.example", "/a/{id}/b")
        return Golden(
            name: "exchange",
            header: .init(sequence: .max, droppedRecords: 5, sentAt: 99),
            records: [.response(message), .outcome(outcome)]
        )
    }()

    static let connection: Golden = {
        var connection = Report.Connection(cookie: 77)
        connection.sent.tls = 517
        connection.sent.framing = 64
        connection.received.tls = 2_900
        connection.received.framing = 51
        connection.received.opaque = 1 << 32
        connection.received.excluded = 300
        connection.role = .client
        connection.isOwn = true
        return Golden(name: "connection", header: .init(), records: [.connection(connection)])
    }()
}
