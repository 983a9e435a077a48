import Foundation
import Testing

@testable import TrafficReport

/// A datagram of `Golden/`, and what it says.
struct Golden: Sendable, CustomTestStringConvertible {
    let name: String
    let header: Report.Header
    let records: [Report.Record]

    var testDescription: String { self.name }

    static let all = [Self.request, Self.exchange, Self.parts, Self.connection]

    /// Pairs of hexadecimal digits; what follows a `#` is for people.
    func bytes() throws -> [UInt8] {
        let file = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "Golden/\(self.name).hex")
        let text = try String(contentsOf: file, encoding: .utf8)
        return text.split(separator: "\n").flatMap { line in
            line.prefix { $0 != "#" }.split(separator: " ").compactMap { UInt8($0, radix: 16) }
        }
    }

    /// A server's request: 38 bytes of line, 155 of fields, 40 of them cookies, no body.
    private static func request(from: UInt64, startedAt: UInt64, duration: UInt64) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = .init(from: from, to: from + 193)
        (message.startedAt, message.finishedAt) = (startedAt, startedAt + duration)
        message.decodedBodyBytes = 0
        message.declaredBodyBytes = 0
        (message.lineBytes, message.headerBytes, message.cookieBytes) = (38, 155, 40)
        (message.version, message.quality, message.contentClass) = (.http1_1, .exact, .none)
        return message
    }

    private static func exchange(_ number: UInt64, startedAt: UInt64) -> Report.Exchange {
        let name = Report.Name(method: "GET", host: "api.example", route: "/users/{id}")
        var exchange = Report.Exchange(number: number, name: name)
        (exchange.cookie, exchange.startedAt, exchange.role) = (4_242, startedAt, .server)
        return exchange
    }

    static let request: Golden = {
        var exchange = Self.exchange(7, startedAt: 123_456_000_000)
        exchange.request = Self.request(from: 1_000, startedAt: 123_456_000_000, duration: 500)
        return Golden(
            name: "request",
            header: .init(sequence: 3, sentAt: 123_456_789_012),
            records: [.exchange(exchange)]
        )
    }()

    static let exchange: Golden = {
        var first = Self.exchange(7, startedAt: 123_456_000_000)
        first.request = Self.request(from: 0, startedAt: first.startedAt, duration: 500)
        var response = Report.Exchange.Message()
        response.interval = .init(from: 0, to: 1_260)
        (response.startedAt, response.finishedAt) = (first.startedAt + 2_000, first.startedAt + 2_700)
        (response.bodyBytes, response.decodedBodyBytes, response.framingBytes) = (1_000, 1_000, 12)
        (response.lineBytes, response.headerBytes, response.status) = (17, 231, 200)
        (response.version, response.quality, response.contentClass) = (.http1_1, .exact, .json)
        first.response = response
        var outcome = Report.Exchange.Outcome()
        (outcome.duration, outcome.ending, outcome.status, outcome.isFirst) = (2_700, .ok, 200, true)
        (outcome.phases.send, outcome.phases.wait, outcome.phases.receive) = (0, 1, 0)
        first.outcome = outcome

        var second = Self.exchange(8, startedAt: 123_456_400_000)
        second.request = Self.request(from: 193, startedAt: second.startedAt, duration: 0)
        second.request?.declaredBodyBytes = nil
        response.interval = .init(from: 1_260, to: 1_410)
        (response.startedAt, response.finishedAt) = (second.startedAt + 900, second.startedAt + 900)
        (response.bodyBytes, response.decodedBodyBytes, response.declaredBodyBytes) = (0, 0, 0)
        (response.framingBytes, response.lineBytes, response.headerBytes) = (0, 26, 124)
        (response.status, response.contentClass) = (404, .none)
        second.response = response
        (outcome.duration, outcome.ending, outcome.status, outcome.isFirst) = (900, .http4xx, 404, false)
        (outcome.phases.send, outcome.phases.wait, outcome.phases.receive) = (0, 0, 0)
        second.outcome = outcome
        return Golden(
            name: "exchange",
            header: .init(sequence: 3, sentAt: 123_456_789_012),
            records: [.exchange(first), .exchange(second)]
        )
    }()

    static let parts: Golden = {
        let name = Report.Name(method: "POST", host: "bücher.example", route: "/a/{id}/b")
        var early = Report.Exchange(number: 256, name: name)
        (early.cookie, early.startedAt, early.role) = (1 << 40, 20, .client)
        var message = Report.Exchange.Message()
        message.interval = .init(from: 1 << 33, to: 1 << 33 + 70_000, bytes: 1_157)
        (message.startedAt, message.finishedAt) = (30, 35)
        (message.bodyBytes, message.framingBytes, message.tlsBytes) = (1_000, 27, 22)
        (message.lineBytes, message.headerBytes, message.status) = (8, 100, 206)
        (message.version, message.quality, message.contentClass) = (.http2, .exact, .other)
        message.isIncomplete = true
        early.response = message

        var failed = Report.Exchange(
            number: 257,
            name: .init(method: "GET", host: "none.example", route: "/")
        )
        (failed.startedAt, failed.role) = (30, .client)
        var outcome = Report.Exchange.Outcome()
        (outcome.duration, outcome.ending) = (4_000, .refused)
        failed.outcome = outcome

        var last = Report.Exchange(number: 258, name: name)
        (last.chain, last.hop, last.cookie, last.startedAt, last.role) = (257, 1, 1 << 40, 40, .client)
        message.interval = .init(from: 1 << 33, to: 1 << 33 + 70_000, bytes: 65_536)
        (message.startedAt, message.finishedAt) = (50, 90)
        (message.bodyBytes, message.decodedBodyBytes, message.declaredBodyBytes) = (60_000, 180_000, 61_000)
        (message.framingBytes, message.tlsBytes, message.lineBytes, message.headerBytes) = (45, 131, 0, 5_360)
        (message.status, message.contentClass) = (503, .json)
        last.response = message
        (outcome.duration, outcome.ending, outcome.status) = (52_000_000, .truncated, 503)
        (outcome.phases.send, outcome.phases.wait, outcome.phases.receive) = (20, 31_000, 20_980)
        (outcome.phases.connect, outcome.tlsEndedAt, outcome.isFirst) = (700, 39, true)
        last.outcome = outcome
        return Golden(
            name: "parts",
            header: .init(sequence: .max, droppedRecords: 5, sentAt: 99),
            records: [.exchange(early), .exchange(failed), .exchange(last)]
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
