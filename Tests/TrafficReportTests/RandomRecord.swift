@testable import TrafficReport

extension Report.Record {
    static func random(_ random: inout some RandomNumberGenerator) -> Report.Record {
        switch Int.random(in: 0..<4, using: &random) {
        case 0: .request(.random(&random))
        case 1: .response(.random(&random))
        case 2: .outcome(.random(&random))
        default: .connection(.random(&random))
        }
    }
}

extension Report.Message {
    fileprivate static func random(_ random: inout some RandomNumberGenerator) -> Report.Message {
        var message = Report.Message(exchange: .random(in: 1 ... .max, using: &random))
        message.chain = .random(in: 0 ... .max, using: &random)
        message.cookie = .random(in: 0 ... .max, using: &random)
        let from = UInt64.random(in: 0 ... .max, using: &random)
        let to = UInt64.random(in: from ... .max, using: &random)
        message.interval = .init(from: from, to: to, bytes: .random(in: 0...(to - from), using: &random))
        message.startedAt = .random(in: 0 ... .max, using: &random)
        message.finishedAt = .random(in: 0 ... .max, using: &random)
        message.bodyBytes = .random(in: 0 ... .max, using: &random)
        message.decodedBodyBytes = Bool.random(using: &random) ? nil : .random(in: 0..<(.max), using: &random)
        message.declaredBodyBytes = Bool.random(using: &random) ? nil : .random(in: 0..<(.max), using: &random)
        message.framingBytes = .random(in: 0 ... .max, using: &random)
        message.tlsBytes = .random(in: 0 ... .max, using: &random)
        message.lineBytes = .random(in: 0 ... .max, using: &random)
        message.headerBytes = .random(in: 0 ... .max, using: &random)
        message.cookieBytes = .random(in: 0...message.headerBytes, using: &random)
        message.status = .random(in: 0 ... .max, using: &random)
        message.hop = .random(in: 0 ... .max, using: &random)
        message.role = .allCases.randomElement(using: &random)!
        message.version = .allCases.randomElement(using: &random)!
        message.quality = .allCases.randomElement(using: &random)!
        message.contentClass = .allCases.randomElement(using: &random)!
        message.isIncomplete = .random(using: &random)
        (message.method, message.host, message.route) = randomNames(&random)
        return message
    }
}

extension Report.Outcome {
    fileprivate static func random(_ random: inout some RandomNumberGenerator) -> Report.Outcome {
        var outcome = Report.Outcome(exchange: .random(in: 1 ... .max, using: &random))
        outcome.chain = .random(in: 0 ... .max, using: &random)
        outcome.startedAt = .random(in: 0 ... .max, using: &random)
        outcome.duration = .random(in: 0 ... .max, using: &random)
        let phases: [WritableKeyPath<Report.Phases, UInt32?>] = [\.dns, \.connect, \.tls, \.send, \.wait, \.receive]
        for phase in phases where Bool.random(using: &random) {
            outcome.phases[keyPath: phase] = .random(in: 0..<(.max), using: &random)
        }
        outcome.role = .allCases.randomElement(using: &random)!
        outcome.ending = .allCases.randomElement(using: &random)!
        outcome.status = .random(in: 0 ... .max, using: &random)
        outcome.tlsEndedAt = .random(in: 0 ... .max, using: &random)
        outcome.isFirst = .random(using: &random)
        (outcome.method, outcome.host, outcome.route) = randomNames(&random)
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
