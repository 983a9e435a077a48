import TrafficReport

/// Makes the records of one HTTP/1.x connection from the events of the scanners of its two directions.
struct HTTP1Records {
    private struct Exchange {
        /// What is known of the exchange, and not told yet.
        var record: Report.Exchange
        /// The number of the request on its connection, from 1.
        let number: Int
        /// The request's method, until the response's head has come.
        var method: HTTP1Method?
        /// The request of a server with a router, until the exchange has a name. `nil` if the app keeps the exchange
        /// out.
        var asked: MessageHead.Request?
        var isNamed = false
        var hasHead = false
        /// The head of the final response has come.
        var isAnswered = false
        var hasResponded = false
        var status: UInt16 = 0
        var requestEndedAt: UInt64?
        var responseBeganAt: UInt64?

        /// The app keeps the exchange out.
        var isKeptOut: Bool { !self.isNamed && self.asked == nil }

        /// There are messages that have ended and are not told yet.
        var isTellable: Bool { self.isNamed && self.record.hasParts }

        func outcome(
            _ ending: Report.Ending,
            _ time: UInt64,
            _ tlsEndedAt: UInt64,
            _ isFromStart: Bool
        ) -> Report.Exchange.Outcome {
            var outcome = Report.Exchange.Outcome()
            let startedAt = self.record.startedAt
            outcome.duration = time - min(time, startedAt)
            outcome.ending = ending
            outcome.status = self.status
            if self.number == 1 {
                outcome.tlsEndedAt = tlsEndedAt
                outcome.isFirst = isFromStart || tlsEndedAt != 0
            }
            outcome.phases = Report.Phases(
                startedAt: startedAt,
                requestEndedAt: self.requestEndedAt,
                responseBeganAt: self.responseBeganAt,
                responseEndedAt: time
            )
            return outcome
        }
    }

    /// Open exchanges, oldest first: the request or the response has not ended. The oldest is inline, because most
    /// connections have only one at a time.
    private struct Open {
        var oldest: Exchange
        private var others: [Exchange] = []
        private(set) var count = 0

        init() { self.oldest = Exchange(record: Report.Exchange(number: 0), number: 0) }

        /// The caller must not ask for more than there are.
        @inline(__always)
        mutating func with<Result>(_ index: Int, _ body: (inout Exchange) -> Result) -> Result {
            index == 0 ? body(&self.oldest) : body(&self.others[index &- 1])
        }

        mutating func append(_ exchange: Exchange) {
            if self.count == 0 { self.oldest = exchange } else { self.others.append(exchange) }
            self.count &+= 1
        }

        mutating func remove(at index: Int) {
            self.count &-= 1
            if index > 0 {
                self.others.remove(at: index &- 1)
            } else if !self.others.isEmpty {
                self.oldest = self.others.removeFirst()
            }
        }
    }

    /// One direction.
    private struct Direction {
        var head: MessageHead?
        var beganAt: UInt64 = 0
        var beganPosition: UInt64 = 0
        var opaqueFrom: UInt64?
        var remainder = Report.Connection.Remainder()

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
    private var begun = 0
    private var requests = Direction()
    private var responses = Direction()
    var requestStream: SocketStream
    var responseStream: SocketStream
    private var exchanges = Open()
    private var hasEnded = false
    /// Bytes beside messages, as last told of the connection.
    private var told: (sent: UInt64, received: UInt64) = (0, 0)
    /// The time at which the scanned bytes passed.
    var time: UInt64 = 0
    /// Records to report, in this order.
    var found: [Report.Record] = []

    init(
        role: Report.Role,
        cookie: UInt64,
        sent: SocketStream,
        received: SocketStream,
        routes: (any RouteSource)?,
        naming: any ExchangeNaming
    ) {
        self.role = role
        self.cookie = cookie
        self.routes = routes
        self.naming = naming
        let isClient = role == .client
        (self.requestStream, self.responseStream) = isClient ? (sent, received) : (received, sent)
    }

    /// Requests without an answer.
    var pending: Int { self.exchanges.count }

    var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// Ends all exchanges. Both scanners are at their end, at these positions.
    mutating func close(requests: UInt64, responses: UInt64) {
        while self.exchanges.count > 0 { self.end(0, self.ending) }
        self.requests.close(at: requests)
        self.responses.close(at: responses)
        self.tellConnection(isLast: true)
    }

    @inline(__always)
    mutating func drain(into found: inout [Report.Record]) {
        guard !self.found.isEmpty else { return }
        // Usually the other array is empty: both keep their memory.
        if found.isEmpty { swap(&found, &self.found) } else { found += self.found }
        self.found.removeAll(keepingCapacity: true)
    }

    // MARK: Requests

    private mutating func requestBegan(at position: UInt64) {
        self.requests.beganAt = self.time
        self.requests.beganPosition = position
        self.begun += 1
        var record = Report.Exchange(number: self.naming.makeExchange())
        (record.cookie, record.role, record.startedAt) = (self.cookie, self.role, self.time)
        self.exchanges.append(Exchange(record: record, number: self.begun))
    }

    private mutating func requestHeadEnded(_ head: MessageHead, _ request: MessageHead.Request) {
        guard let index = self.newest else { return }
        let (number, isAnswered) = self.exchanges.with(index) { ($0.number, $0.isAnswered) }
        if self.routes == nil || isAnswered {
            self.name(index, request, self.routes?.takeRoute(ofRequest: number) ?? .path)
        } else if self.naming.admits(request) {
            self.exchanges.with(index) { $0.asked = request }
        }
        self.exchanges.with(index) {
            $0.method = HTTP1Method(request.method)
            $0.hasHead = true
        }
        self.requests.head = head
    }

    private mutating func requestEnded(_ lengths: HTTP1Scanner.Lengths, at position: UInt64, isComplete: Bool) {
        guard let head = self.requests.head.take(), let index = self.newest else {
            // Bytes that are not a request: empty lines, or another protocol.
            self.requests.remainder.framing += lengths.total
            if let index = self.newest, !self.exchanges.with(index, { $0.hasHead }) { self.exchanges.remove(at: index) }
            return
        }
        let place = self.requestStream.find(self.requests.beganPosition, position)
        let message = Self.message(self.requests.beganAt, self.time, head, lengths, place, isComplete)
        let time = self.time
        let (isKeptOut, isNamed, answer) = self.exchanges.with(index) { exchange in
            exchange.requestEndedAt = time
            let isKeptOut = exchange.isKeptOut
            if !isKeptOut { exchange.record.request = message }
            return (isKeptOut, exchange.isNamed, exchange.hasResponded ? exchange.status : nil)
        }
        if isKeptOut { self.requests.remainder.excluded += lengths.total }
        if isNamed { self.requestStream.claim(place.interval) }
        if let answer { self.end(index, isComplete ? .init(status: answer) : self.ending) }
    }

    /// The exchange whose request has not ended. A request begins after the one before has ended, so this is the last.
    private var newest: Int? {
        mutating get {
            let last = self.exchanges.count - 1
            return last >= 0 && self.exchanges.with(last) { $0.requestEndedAt == nil } ? last : nil
        }
    }

    // MARK: Responses

    private mutating func responseBegan(at position: UInt64) {
        self.responses.beganAt = self.time
        self.responses.beganPosition = position
        if self.exchanges.count > 0 { self.exchanges.oldest.responseBeganAt = self.time }
    }

    private mutating func responseHeadEnded(_ head: MessageHead) {
        self.responses.head = head
        guard self.exchanges.count > 0 else { return }
        self.exchanges.oldest.status = head.status
        // The server sends interim responses before it asks its router.
        if head.status >= 200 || head.status == 101 { self.nameRoute(0) }
    }

    private mutating func responseEnded(_ lengths: HTTP1Scanner.Lengths, at position: UInt64, isComplete: Bool) {
        guard let head = self.responses.head.take(), self.exchanges.count > 0 else {
            // A response without a request: a server's last message on an idle connection (408).
            self.responses.remainder.framing += lengths.total
            return
        }
        // The connection ended before the server answered.
        if self.exchanges.oldest.asked != nil { self.nameRoute(0) }
        if self.exchanges.oldest.isNamed {
            let place = self.responseStream.find(self.responses.beganPosition, position)
            self.exchanges.oldest.record.response =
                Self.message(self.responses.beganAt, self.time, head, lengths, place, isComplete)
            self.responseStream.claim(place.interval)
        } else if self.exchanges.oldest.hasHead {
            self.responses.remainder.excluded += lengths.total
        } else {
            // The head of the request has not come, so the exchange has no name.
            self.responses.remainder.framing += lengths.total
        }
        self.exchanges.oldest.hasResponded = true
        // An early response: the request continues.
        guard self.exchanges.oldest.requestEndedAt != nil else { return }
        self.end(0, isComplete ? .init(status: head.status) : self.ending)
    }

    /// Names the exchange: the server answers, so its router knows the route by now.
    private mutating func nameRoute(_ index: Int) {
        let (number, asked) = self.exchanges.with(index) { exchange in
            exchange.isAnswered = true
            return (exchange.number, exchange.asked.take())
        }
        guard let route = self.routes?.takeRoute(ofRequest: number), let asked else { return }
        self.name(index, asked, route)
        // The app may keep the exchange out only now, after it was admitted.
        let (held, refused) = self.exchanges.with(index) { exchange in
            let held = exchange.record.request
            if !exchange.isNamed { exchange.record.request = nil }
            return exchange.isNamed ? (held?.interval, nil) : (nil, held?.messageBytes)
        }
        if let held { self.requestStream.claim(held) }
        if let refused { self.requests.remainder.excluded += refused }
    }

    private mutating func name(_ index: Int, _ request: MessageHead.Request, _ route: RouteAnswer) {
        guard let name = self.naming.name(of: request, route) else { return }
        self.exchanges.with(index) {
            $0.record.name = name
            $0.isNamed = true
        }
    }

    // MARK: Reports

    private static func message(
        _ startedAt: UInt64,
        _ finishedAt: UInt64,
        _ head: MessageHead,
        _ lengths: HTTP1Scanner.Lengths,
        _ place: (interval: Report.Interval, isExact: Bool),
        _ isComplete: Bool
    ) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = place.interval
        message.tlsBytes = place.interval.bytes - min(lengths.total, place.interval.bytes)
        message.quality = place.isExact ? .exact : .inferred
        message.startedAt = startedAt
        message.finishedAt = finishedAt
        message.bodyBytes = lengths.body
        message.decodedBodyBytes = head.isEncoded ? nil : lengths.body
        message.declaredBodyBytes = head.contentLength
        message.framingBytes = lengths.framing
        message.lineBytes = UInt32(clamping: lengths.line)
        message.headerBytes = UInt32(clamping: lengths.header)
        message.cookieBytes = UInt32(clamping: lengths.cookie)
        message.status = head.status
        message.version = head.version
        message.contentClass = lengths.body == 0 ? .none : head.contentClass
        message.isIncomplete = !isComplete
        return message
    }

    /// Ends the exchange and tells it, with its outcome.
    private mutating func end(_ index: Int, _ ending: Report.Ending) {
        // Without an answer the exchange has no name yet.
        if self.exchanges.with(index, { $0.asked != nil }) { self.nameRoute(index) }
        let (time, tlsEndedAt, isFromStart) = (self.time, self.tlsEndedAt, self.isFromStart)
        let record = self.exchanges.with(index) { exchange -> Report.Exchange? in
            guard exchange.isNamed else { return nil }
            exchange.record.outcome = exchange.outcome(ending, time, tlsEndedAt, isFromStart)
            return exchange.record
        }
        self.exchanges.remove(at: index)
        guard let record else { return }
        self.found.append(.exchange(record))
        self.hasEnded = true
    }

    /// Forgets the places of messages that have ended, and tells what is known of the connection if exchanges have.
    ///
    /// - Parameters:
    ///   - requests: Where the request begins that has not ended, or the next will begin.
    ///   - responses: The same for responses.
    @inline(__always)
    mutating func settle(_ requests: HTTP1Scanner, _ responses: HTTP1Scanner) {
        guard self.requestStream.tls != nil else { return }
        self.requestStream.forget(before: requests.isInMessage ? self.requests.beganPosition : requests.position)
        self.responseStream.forget(before: responses.isInMessage ? self.responses.beganPosition : responses.position)
        if self.hasEnded { self.tellConnection(isLast: false) }
        self.hasEnded = false
    }

    /// Messages of open exchanges may be told.
    var isTellable: Bool {
        mutating get {
            let last = self.exchanges.count - 1
            return last >= 0 && (self.exchanges.oldest.isTellable || self.exchanges.with(last) { $0.isTellable })
        }
    }

    /// Tells messages of exchanges that go on. Only the oldest exchange and the newest ones may have messages that were not told before.
    mutating func tellOpen() {
        guard self.exchanges.count > 0 else { return }
        self.tell(0)
        var first = self.exchanges.count
        while first > 1, self.exchanges.with(first - 1, { $0.isTellable || $0.requestEndedAt == nil }) { first -= 1 }
        while first < self.exchanges.count {
            self.tell(first)
            first += 1
        }
    }

    /// Tells the messages of an open exchange that have ended.
    private mutating func tell(_ index: Int) {
        let record = self.exchanges.with(index) { exchange -> Report.Exchange? in
            guard exchange.isTellable else { return nil }
            let record = exchange.record
            (exchange.record.request, exchange.record.response) = (nil, nil)
            return record
        }
        if let record { self.found.append(.exchange(record)) }
    }

    /// Tells the bytes of no message: with TLS when an exchange has ended and there are more of them, and when the
    /// connection ends. Records that carry messages that the app keeps out are part of these bytes.
    private mutating func tellConnection(isLast: Bool) {
        guard self.cookie != 0 else { return }
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        (connection.sent, connection.received) = self.remainders
        let isClient = self.role == .client
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        let ofRequests = self.requestStream.besideMessages(requests, isLast: isLast)
        let ofResponses = self.responseStream.besideMessages(responses, isLast: isLast)
        (connection.sent.tls, connection.received.tls) =
            isClient ? (ofRequests, ofResponses) : (ofResponses, ofRequests)
        let bytes = (connection.sent.tls, connection.received.tls)
        if isLast {
            guard connection.sent != .init() || connection.received != .init() else { return }
        } else {
            guard bytes != self.told else { return }
        }
        self.told = bytes
        self.found.append(.connection(connection))
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

    mutating func headEnded(_ kind: HTTP1Scanner.Kind, _ head: MessageHead, of request: MessageHead.Request) {
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

    mutating func takeMethod() -> HTTP1Method? {
        self.exchanges.count > 0 ? self.exchanges.oldest.method.take() : nil
    }
}
