@testable import TrafficReport

extension Report.Record {
    static func random(_ random: inout some RandomNumberGenerator) -> Report.Record {
        Int.random(in: 0..<4, using: &random) == 0 ? .connection(.random(&random)) : .exchange(.random(&random))
    }
}

extension Report.Exchange {
    static func random(_ random: inout some RandomNumberGenerator) -> Report.Exchange {
        let (method, host, route) = randomNames(&random)
        var exchange = Report.Exchange(
            number: .random(in: 1 ... .max, using: &random),
            name: .init(method: method, host: host, route: route)
        )
        if Bool.random(using: &random) {
            exchange.chain = .random(in: 0 ... .max, using: &random)
            exchange.hop = .random(in: 0 ... .max, using: &random)
        }
        exchange.cookie = .random(in: 0 ... .max, using: &random)
        exchange.startedAt = .random(in: 0 ... .max, using: &random)
        exchange.role = .allCases.randomElement(using: &random)!
        while !exchange.hasParts {
            if Bool.random(using: &random) { exchange.request = .random(&random, since: exchange.startedAt) }
            if Bool.random(using: &random) { exchange.response = .random(&random, since: exchange.startedAt) }
            if Bool.random(using: &random) { exchange.outcome = .random(&random) }
        }
        return exchange
    }
}

extension Report.Exchange.Message {
    /// Most have small numbers, so that the short form can say them.
    fileprivate static func random(
        _ random: inout some RandomNumberGenerator,
        since start: UInt64
    ) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        let bits = UInt64([8, 15, 31, 32, 33, 63].randomElement(using: &random)!)
        let largest = Swift.min(bits, 15)
        let from = UInt64.random(in: 0...(.max >> 1), using: &random)
        message.startedAt = start &+ .random(in: 0..<1 << bits, using: &random)
        message.finishedAt = message.startedAt &+ .random(in: 0..<1 << bits, using: &random)
        message.bodyBytes = .random(in: 0..<1 << bits, using: &random)
        switch Int.random(in: 0..<3, using: &random) {
        case 0: break
        case 1: (message.decodedBodyBytes, message.declaredBodyBytes) = (message.bodyBytes, message.bodyBytes)
        default: (message.decodedBodyBytes, message.declaredBodyBytes) = (.random(in: 0..<(.max), using: &random), 7)
        }
        message.framingBytes = .random(in: 0..<1 << largest, using: &random)
        message.tlsBytes = .random(in: 0..<1 << largest, using: &random)
        message.lineBytes = .random(in: 0..<1 << largest, using: &random)
        message.headerBytes = .random(in: 0..<1 << largest, using: &random)
        message.cookieBytes = .random(in: 0...message.headerBytes, using: &random)
        let length = UInt64.random(in: 0..<1 << bits, using: &random)
        message.interval =
            switch Int.random(in: 0..<3, using: &random) {
            case 0: .init(from: from, to: from + length)
            case 1: .init(from: from, to: from + length, bytes: Swift.min(length, message.socketBytes))
            default: .init(from: from, to: from + length, bytes: .random(in: 0...length, using: &random))
            }
        message.status = .random(in: 0 ... .max, using: &random)
        message.version = .allCases.randomElement(using: &random)!
        message.quality = .allCases.randomElement(using: &random)!
        message.contentClass = .allCases.randomElement(using: &random)!
        message.isIncomplete = .random(using: &random)
        return message
    }
}

extension Report.Exchange.Outcome {
    fileprivate static func random(_ random: inout some RandomNumberGenerator) -> Report.Exchange.Outcome {
        var outcome = Report.Exchange.Outcome()
        outcome.duration = .random(in: 0 ... .max, using: &random)
        let phases: [WritableKeyPath<Report.Phases, UInt32?>] = [\.dns, \.connect, \.tls, \.send, \.wait, \.receive]
        for phase in phases where Bool.random(using: &random) {
            outcome.phases[keyPath: phase] = .random(in: 0..<(.max), using: &random)
        }
        outcome.ending = .allCases.randomElement(using: &random)!
        outcome.status = .random(in: 0 ... .max, using: &random)
        outcome.tlsEndedAt = Bool.random(using: &random) ? 0 : .random(in: 0 ... .max, using: &random)
        outcome.isFirst = .random(using: &random)
        return outcome
    }
}

extension Report.Connection {
    fileprivate static func random(_ random: inout some RandomNumberGenerator) -> Report.Connection {
        var connection = Report.Connection(cookie: .random(in: 1 ... .max, using: &random))
        for side in [\Report.Connection.sent, \.received] {
            connection[keyPath: side].tls = .random(in: 0 ... .max, using: &random)
            connection[keyPath: side].framing = .random(in: 0 ... .max, using: &random)
            connection[keyPath: side].opaque = .random(in: 0 ... .max, using: &random)
            connection[keyPath: side].excluded = .random(in: 0 ... .max, using: &random)
        }
        connection.role = .allCases.randomElement(using: &random)!
        connection.isOwn = .random(using: &random)
        return connection
    }
}

private func randomNames(_ random: inout some RandomNumberGenerator) -> (String, String, String) {
    (randomName(8, &random), randomName(60, &random), randomName(200, &random))
}

private func randomName(_ longest: Int, _ random: inout some RandomNumberGenerator) -> String {
    let letters = Array("abc/{}é€🦊-._")
    var name = ""
    for _ in 0..<Int.random(in: 0...longest, using: &random) { name.append(letters.randomElement(using: &random)!) }
    return name
}
