// The parts of an exchange as the libraries make them, each with what the exchange has once. A datagram has exchanges.

extension Report.Exchange {
    /// An exchange of which only the request is known.
    public init(request: Report.Message) {
        self.init(request)
        self.request = .init(request)
    }

    public init(response: Report.Message) {
        self.init(response)
        self.response = .init(response)
    }

    public init(outcome: Report.Outcome) {
        self.init(number: outcome.exchange, name: outcome.name)
        self.chain = outcome.chain
        self.startedAt = outcome.startedAt
        self.role = outcome.role
        var end = Outcome()
        end.duration = outcome.duration
        end.phases = outcome.phases
        end.tlsEndedAt = outcome.tlsEndedAt
        end.isFirst = outcome.isFirst
        end.ending = outcome.ending
        end.status = outcome.status
        self.outcome = end
    }

    private init(_ message: Report.Message) {
        self.init(number: message.exchange, name: message.name)
        self.chain = message.chain
        self.cookie = message.cookie
        self.startedAt = message.startedAt
        self.hop = message.hop
        self.role = message.role
    }
}

extension Report.Exchange.Message {
    fileprivate init(_ message: Report.Message) {
        self.init()
        self.interval = message.interval
        self.startedAt = message.startedAt
        self.finishedAt = message.finishedAt
        self.bodyBytes = message.bodyBytes
        self.decodedBodyBytes = message.decodedBodyBytes
        self.declaredBodyBytes = message.declaredBodyBytes
        self.framingBytes = message.framingBytes
        self.tlsBytes = message.tlsBytes
        self.lineBytes = message.lineBytes
        self.headerBytes = message.headerBytes
        self.cookieBytes = message.cookieBytes
        self.status = message.status
        self.version = message.version
        self.quality = message.quality
        self.contentClass = message.contentClass
        self.isIncomplete = message.isIncomplete
    }
}

extension Report.Exchange {
    /// The parts as records of their own.
    public var parts: [Report.Record] {
        var parts: [Report.Record] = []
        if let request = self.request { parts.append(.request(.init(request, of: self))) }
        if let response = self.response { parts.append(.response(.init(response, of: self))) }
        if let outcome = self.outcome { parts.append(.outcome(.init(outcome, of: self))) }
        return parts
    }
}

extension Report.Message {
    fileprivate init(_ message: Report.Exchange.Message, of exchange: Report.Exchange) {
        self.init(exchange: exchange.number, name: exchange.name)
        self.chain = exchange.chain
        self.cookie = exchange.cookie
        self.hop = exchange.hop
        self.role = exchange.role
        self.interval = message.interval
        self.startedAt = message.startedAt
        self.finishedAt = message.finishedAt
        self.bodyBytes = message.bodyBytes
        self.decodedBodyBytes = message.decodedBodyBytes
        self.declaredBodyBytes = message.declaredBodyBytes
        self.framingBytes = message.framingBytes
        self.tlsBytes = message.tlsBytes
        self.lineBytes = message.lineBytes
        self.headerBytes = message.headerBytes
        self.cookieBytes = message.cookieBytes
        self.status = message.status
        self.version = message.version
        self.quality = message.quality
        self.contentClass = message.contentClass
        self.isIncomplete = message.isIncomplete
    }
}

extension Report.Outcome {
    fileprivate init(_ end: Report.Exchange.Outcome, of exchange: Report.Exchange) {
        self.init(exchange: exchange.number, name: exchange.name)
        self.chain = exchange.chain
        self.startedAt = exchange.startedAt
        self.role = exchange.role
        self.duration = end.duration
        self.phases = end.phases
        self.tlsEndedAt = end.tlsEndedAt
        self.isFirst = end.isFirst
        self.ending = end.ending
        self.status = end.status
    }
}
