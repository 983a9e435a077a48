package import TrafficReport

/// The exchanges of one HTTP/1.x connection, found in the bytes of both directions.
///
/// An exchange is one record, when both messages have ended or the connection has. Messages that have ended go ahead in
/// a record of their own if the exchange goes on after the bytes that passed together. Bytes of no message are in the
/// connection's record.
package struct HTTP1Exchanges: MessageExchanges {
    /// How many requests of a connection may wait for answers. Requests that come in one piece with the last of these
    /// are kept, too. Without this limit, a client that never reads could make the library keep all its requests. The
    /// bytes of further requests are opaque. HTTP/2 may have the same number of open exchanges.
    package static let mostPending = 1_000

    private let role: Report.Role
    private let naming: any ExchangeNaming
    package let routes: (any RouteSource)?
    /// The socket's cookie; 0: unknown. The caller must set the cookie before the first message ends.
    package var cookie: UInt64
    /// For the outcome of the first exchange.
    package var start = ConnectionStart()
    /// The ending of exchanges with a message that is cut off.
    private var ending = Report.Ending.truncated
    private var isClosed = false
    /// An exchange has ended since the connection's bytes were last told.
    private var hasEnded = false
    private var begun = 0
    private var requests: HTTP1Direction
    private var responses: HTTP1Direction
    private var open = HTTP1OpenExchanges()
    /// Bytes beside messages, as last told of the connection.
    private var told: (sent: UInt64, received: UInt64) = (0, 0)

    /// - Parameters:
    ///   - cookie: The socket's cookie; 0: unknown.
    ///   - sent: Where the sent bytes lie on the socket's stream.
    ///   - received: Where the received bytes lie on the socket's stream.
    ///   - routes: The routes of the server's router. With routes, a request is reported when the server answers.
    package init(
        role: Report.Role,
        cookie: UInt64 = 0,
        sent: SocketStream = SocketStream(),
        received: SocketStream = SocketStream(),
        routes: (any RouteSource)? = nil,
        naming: any ExchangeNaming
    ) {
        let isClient = role == .client
        (self.role, self.cookie, self.routes, self.naming) = (role, cookie, routes, naming)
        self.requests = HTTP1Direction(HTTP1Scanner(.request, isReadHere: !isClient), isClient ? sent : received)
        self.responses = HTTP1Direction(HTTP1Scanner(.response, isReadHere: isClient), isClient ? received : sent)
    }

    package mutating func stream(_ side: Side) -> SocketStream {
        (side == .sent) == (self.role == .client) ? self.requests.stream : self.responses.stream
    }

    /// Bytes of no message, so far.
    package var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// No message is under way, and no request waits for its answer.
    package var isIdle: Bool {
        !self.requests.scanner.isInMessage && !self.responses.scanner.isInMessage && self.open.isEmpty
    }

    /// Everything that has passed is requests and the answers to these requests.
    package var isInStep: Bool {
        !self.requests.scanner.isOpaque && !self.responses.scanner.isOpaque
            && self.requests.remainder.framing == 0 && self.responses.remainder.framing == 0
    }

    // MARK: Bytes

    package mutating func sent(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        self.scan(.bytes(bytes), isRequest: self.role == .client, tellsOpen: tellsOpen, time, &found)
    }

    package mutating func received(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        self.scan(.bytes(bytes), isRequest: self.role == .server, tellsOpen: tellsOpen, time, &found)
    }

    package mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ found: inout RecordBatch) {
        self.scan(.unseen(count), isRequest: self.role == .client, tellsOpen: true, time, &found)
    }

    /// Ends the connection, in both directions.
    ///
    /// - Parameters:
    ///   - ending: The ending of exchanges that are not over.
    ///   - isCut: The other side did not announce the end of its stream, as TLS asks for (RFC 8446 section 6.1). A
    ///     received body that continues until the end of the stream is then incomplete (RFC 9112 section 9.8).
    package mutating func close(
        _ ending: Report.Ending = .truncated,
        isCut: Bool = false,
        at time: UInt64,
        _ found: inout RecordBatch
    ) {
        guard !self.isClosed else { return }
        self.isClosed = true
        self.ending = ending
        // Without an error the received stream has had its end. The sent stream gets its end from the close.
        let isClean = ending == .truncated
        let isServer = self.role == .server
        self.scan(.end(isClean: isClean && !(isCut && isServer)), isRequest: true, tellsOpen: true, time, &found)
        self.scan(.end(isClean: isClean && !(isCut && !isServer)), isRequest: false, tellsOpen: true, time, &found)
        while !self.open.isEmpty { self.end(0, nil, self.ending, time, &found) }
        self.requests.close()
        self.responses.close()
        self.tellConnection(isLast: true, &found)
    }

    private mutating func scan(
        _ input: borrowing HTTP1Scanner.Input,
        isRequest: Bool,
        tellsOpen: Bool,
        _ time: UInt64,
        _ found: inout RecordBatch
    ) {
        if isRequest {
            self.scanRequests(input, time, &found)
            if self.open.count > Self.mostPending { self.scanRequests(.switched, time, &found) }
        } else {
            var index = 0
            while let event = self.responses.scanner.next(input, &index, answering: self.oldestMethod) {
                self.take(response: event, time, &found)
            }
            // Both sides have switched protocols, or the library cannot tell any more which response answers which
            // request.
            if self.responses.scanner.isOpaque { self.scanRequests(.switched, time, &found) }
        }
        if tellsOpen { self.tellOpen(&found) }
        guard self.requests.stream.tls != nil else { return }
        if isRequest {
            self.requests.stream.forget(before: self.requests.settled, readTo: self.requests.scanner.position)
        } else {
            self.responses.stream.forget(before: self.responses.settled, readTo: self.responses.scanner.position)
        }
        if self.hasEnded { self.tellConnection(isLast: false, &found) }
        self.hasEnded = false
    }

    private mutating func scanRequests(
        _ input: borrowing HTTP1Scanner.Input,
        _ time: UInt64,
        _ found: inout RecordBatch
    ) {
        var index = 0
        while let event = self.requests.scanner.next(input, &index) { self.take(request: event, time, &found) }
    }

    // MARK: Requests

    private mutating func take(request event: HTTP1Scanner.Event, _ time: UInt64, _ found: inout RecordBatch) {
        switch event {
        case .lineEnd: self.requests.remainder.framing += 1
        case .began(let position):
            self.requests.began(at: position, time)
            self.begun += 1
            self.open.append(HTTP1Exchange(number: self.naming.makeExchange(), ordinal: self.begun, at: time))
        case .head: self.requestHeadEnded()
        case .ended(let lengths, let isComplete): self.requestEnded(lengths, isComplete: isComplete, time, &found)
        case .opaque: self.requests.becameOpaque()
        }
    }

    /// The exchange whose request has not ended. A request begins after the one before has ended, so this is the last.
    private var newest: Int? {
        mutating get {
            let last = self.open.count - 1
            return last >= 0 && self.open.with(last) { $0.requestEndedAt == nil } ? last : nil
        }
    }

    private mutating func requestHeadEnded() {
        guard let index = self.newest else { return }
        let request = self.requests.scanner.request
        self.requests.head = self.requests.scanner.head
        let (ordinal, isAnswered) = self.open.with(index) { exchange in
            (exchange.hasHead, exchange.method) = (true, request.kind)
            return (exchange.ordinal, exchange.isAnswered)
        }
        if self.routes == nil || isAnswered {
            let name = self.naming.name(of: request, self.routes?.takeRoute(ofRequest: ordinal) ?? .path)
            self.open.with(index) { $0.name = name }
        } else if self.naming.admits(request) {
            self.open.with(index) { $0.asked = request }
        }
    }

    private mutating func requestEnded(
        _ lengths: HTTP1Scanner.Lengths,
        isComplete: Bool,
        _ time: UInt64,
        _ found: inout RecordBatch
    ) {
        guard let head = self.requests.head.take(), let index = self.newest else {
            // Bytes that are not a request: empty lines, or another protocol.
            self.requests.remainder.framing += lengths.total
            if let index = self.newest, !self.open.with(index, { $0.hasHead }) { self.open.remove(at: index) }
            return
        }
        let message = self.requests.message(head, lengths, isComplete: isComplete, at: time)
        let (isKeptOut, isNamed, status) = self.open.with(index) { exchange in
            exchange.requestEndedAt = time
            let isKeptOut = exchange.isKeptOut
            if !isKeptOut { (exchange.request, exchange.hasUntold) = (message, true) }
            return (isKeptOut, exchange.name != nil, exchange.hasResponded ? exchange.status : nil)
        }
        if isKeptOut { self.requests.remainder.excluded += lengths.total }
        if isNamed { self.requests.stream.claim(message.interval) }
        if let status { self.end(index, nil, isComplete ? .init(status: status) : self.ending, time, &found) }
    }

    // MARK: Responses

    private mutating func take(response event: HTTP1Scanner.Event, _ time: UInt64, _ found: inout RecordBatch) {
        switch event {
        case .lineEnd: self.responses.remainder.framing += 1
        case .began(let position):
            self.responses.began(at: position, time)
            if !self.open.isEmpty { self.open.oldest.responseBeganAt = time }
        case .head: self.responseHeadEnded()
        case .ended(let lengths, let isComplete): self.responseEnded(lengths, isComplete: isComplete, time, &found)
        case .opaque: self.responses.becameOpaque()
        }
    }

    private mutating func responseHeadEnded() {
        self.responses.head = self.responses.scanner.head
        guard !self.open.isEmpty else { return }
        let status = self.responses.scanner.head.status
        self.open.oldest.status = status
        // The server sends interim responses before it asks its router.
        guard status >= 200 || status == 101 else { return }
        if status != 101 { self.open.oldest.method = nil }
        self.nameRoute(0)
    }

    private mutating func responseEnded(
        _ lengths: HTTP1Scanner.Lengths,
        isComplete: Bool,
        _ time: UInt64,
        _ found: inout RecordBatch
    ) {
        guard let head = self.responses.head.take(), !self.open.isEmpty else {
            // A response without a request: a server's last message on an idle connection (408).
            self.responses.remainder.framing += lengths.total
            return
        }
        // The connection ended before the server answered.
        if self.open.oldest.asked != nil { self.nameRoute(0) }
        self.open.oldest.hasResponded = true
        var message: Report.Exchange.Message?
        if self.open.oldest.name != nil {
            let ended = self.responses.message(head, lengths, isComplete: isComplete, at: time)
            self.responses.stream.claim(ended.interval)
            message = ended
        } else if self.open.oldest.hasHead {
            self.responses.remainder.excluded += lengths.total
        } else {
            // The head of the request has not come, so the exchange has no name.
            self.responses.remainder.framing += lengths.total
        }
        guard self.open.oldest.requestEndedAt != nil else {
            // An early response: the request continues.
            self.open.oldest.response = message.map { [$0] } ?? []
            self.open.oldest.hasUntold = self.open.oldest.hasUntold || message != nil
            return
        }
        let ending = isComplete ? Report.Ending(status: head.status) : self.ending
        self.end(0, message, ending, time, &found)
    }

    private var oldestMethod: HTTP1Method? { self.open.isEmpty ? nil : self.open.oldest.method }

    /// Names the exchange: the server answers, so its router knows the route by now.
    private mutating func nameRoute(_ index: Int) {
        let (ordinal, asked) = self.open.with(index) { exchange in
            exchange.isAnswered = true
            return (exchange.ordinal, exchange.asked.take())
        }
        guard let route = self.routes?.takeRoute(ofRequest: ordinal), let asked else { return }
        let name = self.naming.name(of: asked, route)
        let (claimed, excluded) = self.open.with(index) { exchange -> (Report.Interval?, UInt64?) in
            exchange.name = name
            if name != nil { return (exchange.request?.interval, nil) }
            // The app keeps the exchange out only now, after it was admitted.
            return (nil, exchange.request.take()?.messageBytes)
        }
        if let claimed { self.requests.stream.claim(claimed) }
        if let excluded { self.requests.remainder.excluded += excluded }
    }

    // MARK: Records

    /// Ends the exchange and tells it, with its outcome.
    ///
    /// - Parameter response: A response that ended just now.
    private mutating func end(
        _ index: Int,
        _ response: Report.Exchange.Message?,
        _ ending: Report.Ending,
        _ time: UInt64,
        _ found: inout RecordBatch
    ) {
        // Without an answer the exchange has no name yet.
        if self.open.with(index, { $0.asked != nil }) { self.nameRoute(index) }
        let start = self.start
        let outcome = self.open.with(index) { $0.outcome(ending, at: time, start) }
        self.tell(index, response, outcome, &found)
        self.open.remove(at: index)
    }

    /// Tells the parts of an exchange that are not told yet.
    private mutating func tell(
        _ index: Int,
        _ response: Report.Exchange.Message?,
        _ outcome: Report.Exchange.Outcome?,
        _ found: inout RecordBatch
    ) {
        let (cookie, role) = (self.cookie, self.role)
        let isTold = self.open.with(index) { exchange in
            guard let name = exchange.name else { return false }
            var record = Report.Exchange(number: exchange.number, name: name)
            (record.cookie, record.role, record.startedAt) = (cookie, role, exchange.startedAt)
            record.request = exchange.request.take()
            record.response = response ?? exchange.response.popLast()
            record.outcome = outcome
            exchange.hasUntold = false
            found.append(consume record)
            return true
        }
        if isTold, outcome != nil { self.hasEnded = true }
    }

    package var isTellable: Bool { mutating get { self.open.isTellable } }

    package mutating func tellOpen(_ found: inout RecordBatch) {
        guard !self.open.isEmpty else { return }
        // Only the oldest exchange and the newest ones may have messages that were not told before.
        if self.open.oldest.isTellable { self.tell(0, nil, nil, &found) }
        var first = self.open.count
        while first > 1, self.open.with(first - 1, { $0.isTellable || $0.requestEndedAt == nil }) { first -= 1 }
        for index in first..<self.open.count where self.open.with(index, { $0.isTellable }) {
            self.tell(index, nil, nil, &found)
        }
    }

    /// Tells the bytes of no message: with TLS when an exchange has ended and there are more of them, and when the
    /// connection ends. Records that carry messages that the app keeps out are part of these bytes.
    private mutating func tellConnection(isLast: Bool, _ found: inout RecordBatch) {
        guard self.cookie != 0 else { return }
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        var (requests, responses) = (self.requests.remainder, self.responses.remainder)
        requests.tls = self.requests.stream.besideMessages(requests, isLast: isLast)
        responses.tls = self.responses.stream.besideMessages(responses, isLast: isLast)
        let isClient = self.role == .client
        (connection.sent, connection.received) = isClient ? (requests, responses) : (responses, requests)
        let bytes = (connection.sent.tls, connection.received.tls)
        if isLast {
            guard connection.sent != .init() || connection.received != .init() else { return }
        } else {
            guard bytes != self.told else { return }
        }
        self.told = bytes
        found.append(connection)
    }
}
