import TrafficReport

/// Makes the records of one HTTP/1.x connection out of what the scanners of its directions tell.
struct HTTP1Records {
    private struct Exchange {
        let id: UInt64
        let startedAt: UInt64
        var method = ""
        var name: (host: String, route: String)?
        var hasHead = false
        var requestEndedAt: UInt64?
        var responseBeganAt: UInt64?
        var responseEndedAt: UInt64?
        var status: UInt16 = 0
    }

    /// One direction.
    private struct Direction {
        /// Bytes of the socket's stream that had passed before the first one that was scanned.
        let base: UInt64
        var head: HTTP1Head?
        var beganAt: UInt64 = 0
        var beganPosition: UInt64 = 0
        var opaqueFrom: UInt64?
        var remainder = Report.Connection.Remainder()

        func start(_ scanner: HTTP1Scanner) -> UInt64 {
            scanner.isInMessage ? self.beganPosition : scanner.position
        }

        mutating func close(at position: UInt64) {
            guard let opaqueFrom else { return }
            self.remainder.opaque += position - opaqueFrom
        }
    }

    let role: Report.Role
    /// Of the socket; 0: unknown.
    var cookie: UInt64
    /// Of exchanges with a message that is cut off.
    var ending = Report.Ending.truncated
    private let naming: HTTP1Exchanges.Naming
    private let makeExchange: () -> UInt64
    private var requests: Direction
    private var responses: Direction
    /// Whose response has not ended, oldest first.
    private var exchanges: [Exchange] = []

    init(
        role: Report.Role,
        cookie: UInt64,
        sent: UInt64,
        received: UInt64,
        makeExchange: @escaping () -> UInt64,
        naming: @escaping HTTP1Exchanges.Naming
    ) {
        self.role = role
        self.cookie = cookie
        self.naming = naming
        self.makeExchange = makeExchange
        let isClient = role == .client
        self.requests = Direction(base: isClient ? sent : received)
        self.responses = Direction(base: isClient ? received : sent)
    }

    func starts(_ requests: HTTP1Scanner, _ responses: HTTP1Scanner) -> (sent: UInt64, received: UInt64) {
        let (requests, responses) = (self.requests.start(requests), self.responses.start(responses))
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// Both scanners are at their end, at these positions.
    mutating func close(
        requests: UInt64,
        responses: UInt64,
        _ time: UInt64,
        _ report: (Report.Record) -> Void
    ) {
        for exchange in self.exchanges {
            self.end(exchange, self.ending, time, report)
        }
        self.exchanges = []
        self.requests.close(at: requests)
        self.responses.close(at: responses)
        let (sent, received) = self.remainders
        guard sent != .init() || received != .init(), self.cookie != 0 else { return }
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        (connection.sent, connection.received) = (sent, received)
        report(.connection(connection))
    }

    // MARK: Requests

    mutating func request(_ event: HTTP1Scanner.Event, _ time: UInt64, _ report: (Report.Record) -> Void) {
        switch event {
        case .began(let position):
            self.requests.beganAt = time
            self.requests.beganPosition = position
            self.exchanges.append(Exchange(id: self.makeExchange(), startedAt: time))
        case .head(let head):
            self.requests.head = head
            let name = self.naming(head.host, head.target)
            self.changeNewest { exchange in
                exchange.method = head.method
                exchange.name = name
                exchange.hasHead = true
            }
        case .ended(let lengths, let position, let isComplete):
            defer { self.requests.head = nil }
            guard let head = self.requests.head, let exchange = self.newest else {
                // Bytes that are no request: empty lines, or another protocol's.
                self.requests.remainder.framing += lengths.total
                if self.newest?.hasHead == false { self.exchanges.removeLast() }
                return
            }
            self.changeNewest { $0.requestEndedAt = time }
            self.report(
                .init(self.requests, head, lengths, position, isComplete),
                exchange,
                time,
                report,
                isRequest: true
            )
            if exchange.responseEndedAt != nil {
                let whole = self.exchanges.removeLast()
                self.end(whole, isComplete ? .init(status: whole.status) : self.ending, time, report)
            }
        case .opaque(let position):
            self.requests.opaqueFrom = position
        }
    }

    private var newest: Exchange? { self.exchanges.last { $0.requestEndedAt == nil } }

    private mutating func changeNewest(_ change: (inout Exchange) -> Void) {
        guard let index = self.exchanges.lastIndex(where: { $0.requestEndedAt == nil }) else { return }
        change(&self.exchanges[index])
    }

    // MARK: Responses

    mutating func response(_ event: HTTP1Scanner.Event, _ time: UInt64, _ report: (Report.Record) -> Void) {
        switch event {
        case .began(let position):
            self.responses.beganAt = time
            self.responses.beganPosition = position
            if !self.exchanges.isEmpty { self.exchanges[0].responseBeganAt = time }
        case .head(let head):
            self.responses.head = head
            if !self.exchanges.isEmpty { self.exchanges[0].status = head.status }
        case .ended(let lengths, let position, let isComplete):
            defer { self.responses.head = nil }
            guard let head = self.responses.head, let exchange = self.exchanges.first else {
                // Nobody asked: a server's last word on an idle connection (408).
                self.responses.remainder.framing += lengths.total
                return
            }
            self.report(
                .init(self.responses, head, lengths, position, isComplete),
                exchange,
                time,
                report,
                isRequest: false
            )
            self.exchanges[0].responseEndedAt = time
            // An early response: the request goes on.
            guard exchange.requestEndedAt != nil else { return }
            let whole = self.exchanges.removeFirst()
            self.end(whole, isComplete ? .init(status: head.status) : self.ending, time, report)
        case .opaque(let position):
            self.responses.opaqueFrom = position
        }
    }

    // MARK: Reports

    /// A message that has ended.
    private struct Ended {
        let head: HTTP1Head
        let lengths: HTTP1Scanner.Lengths
        let interval: Report.Interval
        let startedAt: UInt64
        let isComplete: Bool

        init(
            _ direction: Direction,
            _ head: HTTP1Head,
            _ lengths: HTTP1Scanner.Lengths,
            _ position: UInt64,
            _ isComplete: Bool
        ) {
            self.head = head
            self.lengths = lengths
            self.interval = .init(from: direction.base + direction.beganPosition, to: direction.base + position)
            self.startedAt = direction.beganAt
            self.isComplete = isComplete
        }
    }

    private mutating func report(
        _ ended: Ended,
        _ exchange: Exchange,
        _ time: UInt64,
        _ report: (Report.Record) -> Void,
        isRequest: Bool
    ) {
        guard let name = exchange.name else {
            if isRequest {
                self.requests.remainder.excluded += ended.lengths.total
            } else {
                self.responses.remainder.excluded += ended.lengths.total
            }
            return
        }
        var message = Report.Message(exchange: exchange.id)
        message.cookie = self.cookie
        message.interval = ended.interval
        message.startedAt = ended.startedAt
        message.finishedAt = time
        message.bodyBytes = ended.lengths.body
        message.decodedBodyBytes = ended.head.isEncoded ? nil : ended.lengths.body
        message.declaredBodyBytes = ended.head.contentLength
        message.framingBytes = ended.lengths.framing
        message.lineBytes = UInt32(clamping: ended.lengths.line)
        message.headerBytes = UInt32(clamping: ended.lengths.header)
        message.cookieBytes = UInt32(clamping: ended.lengths.cookie)
        message.status = ended.head.status
        message.role = self.role
        message.version = ended.head.version
        message.quality = .exact
        message.contentClass = ended.lengths.body == 0 ? .none : ended.head.contentClass
        message.isIncomplete = !ended.isComplete
        (message.method, message.host, message.route) = (exchange.method, name.host, name.route)
        report(isRequest ? .request(message) : .response(message))
    }

    private func end(
        _ exchange: Exchange,
        _ ending: Report.Ending,
        _ time: UInt64,
        _ report: (Report.Record) -> Void
    ) {
        guard let name = exchange.name else { return }
        var outcome = Report.Outcome(exchange: exchange.id)
        outcome.startedAt = exchange.startedAt
        outcome.duration = time - min(time, exchange.startedAt)
        outcome.role = self.role
        outcome.ending = ending
        outcome.status = exchange.status
        outcome.phases = Report.Phases(
            startedAt: exchange.startedAt,
            requestEndedAt: exchange.requestEndedAt,
            responseBeganAt: exchange.responseBeganAt,
            responseEndedAt: exchange.responseEndedAt ?? time
        )
        (outcome.method, outcome.host, outcome.route) = (exchange.method, name.host, name.route)
        report(.outcome(outcome))
    }
}
