import TrafficReport

/// Makes the records of one HTTP/1.x connection from the events of the scanners of its two directions.
struct HTTP1Records {
    private struct Exchange {
        let id: UInt64
        /// The number of the request on its connection, from 1.
        let number: Int
        let startedAt: UInt64
        /// The request's method, until the response's head has come.
        var method: String?
        var name: Report.Name?
        /// The request of a server with a router, until the exchange has a name. `nil` if the app keeps the exchange
        /// out.
        var asked: HTTP1Head.Request?
        /// The request that has ended and is not reported yet, because its route is not known.
        var held: Ended?
        var hasHead = false
        /// The head of the final response has come.
        var isAnswered = false
        var requestEndedAt: UInt64?
        var responseBeganAt: UInt64?
        var responseEndedAt: UInt64?
        var status: UInt16 = 0
    }

    /// One direction.
    private struct Direction {
        /// Bytes of the socket's stream that had passed before the first scanned byte.
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
    /// The socket's cookie; 0: unknown.
    var cookie: UInt64
    /// When the connection's TLS handshake ended, for the outcome of the first exchange; 0: unknown.
    var tlsEndedAt: UInt64 = 0
    /// The process had sent nothing on the connection when this began. For the outcome of the first exchange.
    var isFromStart = false
    /// The ending of exchanges with a message that is cut off.
    var ending = Report.Ending.truncated
    private let naming: any ExchangeNaming
    private let routes: (any RouteSource)?
    private let placing: HTTP1Exchanges.Placing?
    private var begun = 0
    private var requests: Direction
    private var responses: Direction
    /// Open exchanges, oldest first: the request or the response has not ended.
    private var exchanges: [Exchange] = []
    /// The time at which the scanned bytes passed.
    var time: UInt64 = 0
    /// Records to report, in this order.
    var found: [Report.Record] = []

    init(
        role: Report.Role,
        cookie: UInt64,
        sent: UInt64,
        received: UInt64,
        routes: (any RouteSource)?,
        placing: HTTP1Exchanges.Placing?,
        naming: any ExchangeNaming
    ) {
        self.role = role
        self.cookie = cookie
        self.routes = routes
        // Without routes no request is held back: the receiver of the records finds their places itself.
        self.placing = routes == nil ? nil : placing
        self.naming = naming
        let isClient = role == .client
        self.requests = Direction(base: isClient ? sent : received)
        self.responses = Direction(base: isClient ? received : sent)
    }

    func starts(_ requests: HTTP1Scanner, _ responses: HTTP1Scanner) -> (sent: UInt64, received: UInt64) {
        let (requests, responses) = (self.requests.start(requests), self.responses.start(responses))
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// Requests without an answer.
    var pending: Int { self.exchanges.count }

    var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// Ends all exchanges. Both scanners are at their end, at these positions.
    mutating func close(requests: UInt64, responses: UInt64) {
        while !self.exchanges.isEmpty { self.end(0, self.ending) }
        self.requests.close(at: requests)
        self.responses.close(at: responses)
        let (sent, received) = self.remainders
        guard sent != .init() || received != .init(), self.cookie != 0 else { return }
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        (connection.sent, connection.received) = (sent, received)
        self.found.append(.connection(connection))
    }

    // MARK: Requests

    private mutating func requestBegan(at position: UInt64) {
        self.requests.beganAt = self.time
        self.requests.beganPosition = position
        self.begun += 1
        self.exchanges.append(Exchange(id: self.naming.makeExchange(), number: self.begun, startedAt: self.time))
    }

    private mutating func requestHeadEnded(_ head: HTTP1Head, _ request: HTTP1Head.Request) {
        guard let index = self.newest else { return }
        if self.routes == nil || self.exchanges[index].isAnswered {
            let route = self.routes?.takeRoute(ofRequest: self.exchanges[index].number) ?? .path
            self.exchanges[index].name = self.naming.name(of: request, route)
        } else if self.naming.admits(request) {
            self.exchanges[index].asked = request
        }
        self.exchanges[index].method = request.method
        self.exchanges[index].hasHead = true
        self.requests.head = head
    }

    private mutating func requestEnded(_ lengths: HTTP1Scanner.Lengths, at position: UInt64, isComplete: Bool) {
        guard let head = self.requests.head.take(), let index = self.newest else {
            // Bytes that are not a request: empty lines, or another protocol.
            self.requests.remainder.framing += lengths.total
            if let index = self.newest, !self.exchanges[index].hasHead { self.exchanges.remove(at: index) }
            return
        }
        self.exchanges[index].requestEndedAt = self.time
        if self.isKeptOut(index) {
            self.requests.remainder.excluded += lengths.total
        } else {
            self.exchanges[index].held = Ended(
                self.requests,
                head,
                lengths,
                position,
                self.time,
                isComplete,
                self.placing
            )
            // A client's exchange has its name already; a server's gets its name when the server answers.
            if self.routes == nil || self.exchanges[index].isAnswered { self.release(index) }
        }
        if self.exchanges[index].responseEndedAt != nil {
            let status = self.exchanges[index].status
            self.end(index, isComplete ? .init(status: status) : self.ending)
        }
    }

    /// Read through a span, because `exchanges[index].name` would copy the whole exchange.
    private func name(_ index: Int) -> Report.Name? { self.exchanges.span[index].name }

    private func isKeptOut(_ index: Int) -> Bool {
        self.exchanges.span[index].name == nil && self.exchanges.span[index].asked == nil
    }

    /// The exchange whose request has not ended.
    private var newest: Int? { self.exchanges.lastIndex { $0.requestEndedAt == nil } }

    // MARK: Responses

    private mutating func responseBegan(at position: UInt64) {
        self.responses.beganAt = self.time
        self.responses.beganPosition = position
        if !self.exchanges.isEmpty { self.exchanges[0].responseBeganAt = self.time }
    }

    private mutating func responseHeadEnded(_ head: HTTP1Head) {
        self.responses.head = head
        guard !self.exchanges.isEmpty else { return }
        self.exchanges[0].status = head.status
        // The server sends interim responses before it asks its router.
        if head.status >= 200 || head.status == 101 { self.nameRoute(0) }
    }

    private mutating func responseEnded(_ lengths: HTTP1Scanner.Lengths, at position: UInt64, isComplete: Bool) {
        guard let head = self.responses.head.take(), !self.exchanges.isEmpty else {
            // A response without a request: a server's last message on an idle connection (408).
            self.responses.remainder.framing += lengths.total
            return
        }
        // The connection ended before the server answered.
        if self.exchanges[0].asked != nil { self.nameRoute(0) }
        if let name = self.name(0) {
            let ended = Ended(self.responses, head, lengths, position, self.time, isComplete, nil)
            self.found.append(.response(ended.message(of: self.exchanges[0].id, name, self.cookie, self.role)))
        } else if self.exchanges[0].hasHead {
            self.responses.remainder.excluded += lengths.total
        } else {
            // The head of the request has not come, so the exchange has no name.
            self.responses.remainder.framing += lengths.total
        }
        self.exchanges[0].responseEndedAt = self.time
        // An early response: the request continues.
        guard self.exchanges[0].requestEndedAt != nil else { return }
        self.end(0, isComplete ? .init(status: head.status) : self.ending)
    }

    /// Names the exchange: the server answers, so its router knows the route by now.
    private mutating func nameRoute(_ index: Int) {
        self.exchanges[index].isAnswered = true
        guard let routes = self.routes else { return }
        let route = routes.takeRoute(ofRequest: self.exchanges[index].number)
        if let request = self.exchanges[index].asked.take() {
            self.exchanges[index].name = self.naming.name(of: request, route)
        }
        self.release(index)
    }

    private mutating func release(_ index: Int) {
        guard let ended = self.exchanges[index].held.take() else { return }
        // The app may keep the exchange out only now, after it was admitted.
        guard let name = self.name(index) else {
            self.requests.remainder.excluded += ended.lengths.total
            return
        }
        self.found.append(.request(ended.message(of: self.exchanges[index].id, name, self.cookie, self.role)))
    }

    // MARK: Reports

    /// A message that has ended.
    private struct Ended {
        let head: HTTP1Head
        let lengths: HTTP1Scanner.Lengths
        let place: MessagePlace
        let startedAt: UInt64
        let finishedAt: UInt64
        let isComplete: Bool

        init(
            _ direction: Direction,
            _ head: HTTP1Head,
            _ lengths: HTTP1Scanner.Lengths,
            _ position: UInt64,
            _ time: UInt64,
            _ isComplete: Bool,
            _ placing: HTTP1Exchanges.Placing?
        ) {
            let scanned = Report.Interval(from: direction.base + direction.beganPosition, to: direction.base + position)
            self.head = head
            self.lengths = lengths
            self.place = placing?(scanned, lengths.total) ?? MessagePlace(interval: scanned)
            self.startedAt = direction.beganAt
            self.finishedAt = time
            self.isComplete = isComplete
        }

        func message(
            of exchange: UInt64,
            _ name: Report.Name,
            _ cookie: UInt64,
            _ role: Report.Role
        ) -> Report.Message {
            var message = Report.Message(exchange: exchange, name: name)
            (message.cookie, message.role) = (cookie, role)
            message.take(self.place)
            message.startedAt = self.startedAt
            message.finishedAt = self.finishedAt
            message.bodyBytes = self.lengths.body
            message.decodedBodyBytes = self.head.isEncoded ? nil : self.lengths.body
            message.declaredBodyBytes = self.head.contentLength
            message.framingBytes = self.lengths.framing
            message.lineBytes = UInt32(clamping: self.lengths.line)
            message.headerBytes = UInt32(clamping: self.lengths.header)
            message.cookieBytes = UInt32(clamping: self.lengths.cookie)
            message.status = self.head.status
            message.version = self.head.version
            message.contentClass = self.lengths.body == 0 ? .none : self.head.contentClass
            message.isIncomplete = !self.isComplete
            return message
        }
    }

    /// Ends the exchange and makes its outcome.
    private mutating func end(_ index: Int, _ ending: Report.Ending) {
        // Without an answer the exchange has no name yet.
        if self.exchanges[index].asked != nil { self.nameRoute(index) }
        let exchange = self.exchanges.remove(at: index)
        guard let name = exchange.name else { return }
        var outcome = Report.Outcome(exchange: exchange.id, name: name)
        outcome.startedAt = exchange.startedAt
        outcome.duration = self.time - min(self.time, exchange.startedAt)
        outcome.role = self.role
        outcome.ending = ending
        outcome.status = exchange.status
        if exchange.number == 1 {
            outcome.tlsEndedAt = self.tlsEndedAt
            outcome.isFirst = self.isFromStart || self.tlsEndedAt != 0
        }
        outcome.phases = Report.Phases(
            startedAt: exchange.startedAt,
            requestEndedAt: exchange.requestEndedAt,
            responseBeganAt: exchange.responseBeganAt,
            responseEndedAt: exchange.responseEndedAt ?? self.time
        )
        self.found.append(.outcome(consume outcome))
    }
}

extension HTTP1Records: HTTP1Sink {
    mutating func passed(_ kind: HTTP1Scanner.Kind, lineEnds count: UInt64) {
        switch kind {
        case .request: self.requests.remainder.framing += count
        case .response: self.responses.remainder.framing += count
        }
    }

    mutating func began(_ kind: HTTP1Scanner.Kind, at position: UInt64) {
        switch kind {
        case .request: self.requestBegan(at: position)
        case .response: self.responseBegan(at: position)
        }
    }

    mutating func headEnded(_ kind: HTTP1Scanner.Kind, _ head: HTTP1Head, of request: HTTP1Head.Request) {
        switch kind {
        case .request: self.requestHeadEnded(head, request)
        case .response: self.responseHeadEnded(head)
        }
    }

    mutating func ended(
        _ kind: HTTP1Scanner.Kind,
        _ lengths: HTTP1Scanner.Lengths,
        at position: UInt64,
        isComplete: Bool
    ) {
        switch kind {
        case .request: self.requestEnded(lengths, at: position, isComplete: isComplete)
        case .response: self.responseEnded(lengths, at: position, isComplete: isComplete)
        }
    }

    mutating func becameOpaque(_ kind: HTTP1Scanner.Kind, from position: UInt64) {
        switch kind {
        case .request: self.requests.opaqueFrom = position
        case .response: self.responses.opaqueFrom = position
        }
    }

    mutating func takeMethod() -> String? {
        self.exchanges.isEmpty ? nil : self.exchanges[0].method.take()
    }
}
