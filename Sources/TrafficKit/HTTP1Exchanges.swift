package import TrafficReport

/// The exchanges of one HTTP/1.x connection, by the bytes that pass in both directions.
///
/// Requests and responses are reported each on its own, when their last byte has passed; an exchange's outcome once, when both are over or
/// the connection is. What is in no message is in the connection's record.
package struct HTTP1Exchanges {
    /// How the exchange of a request is to be named; `nil`: the app keeps it out.
    package typealias Naming = (_ host: String, _ target: String) -> (host: String, route: String)?

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
        var scanner: HTTP1Scanner
        /// Bytes of the socket's stream that had passed before the first one that was scanned.
        let base: UInt64
        var head: HTTP1Head?
        var beganAt: UInt64 = 0
        var beganPosition: UInt64 = 0
        var opaqueFrom: UInt64?
        var remainder = Report.Connection.Remainder()

        var start: UInt64 { self.scanner.isInMessage ? self.beganPosition : self.scanner.position }
    }

    private let role: Report.Role
    /// Of the socket; 0: unknown. To be known before the first message ends.
    package var cookie: UInt64
    private let naming: Naming
    private let makeExchange: () -> UInt64
    private var requests: Direction
    private var responses: Direction
    /// Whose response has not ended, oldest first.
    private var exchanges: [Exchange] = []
    private var isClosed = false

    /// - Parameters:
    ///   - cookie: Of the socket; 0: unknown.
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: The same of the other direction.
    package init(
        role: Report.Role,
        cookie: UInt64 = 0,
        sent: UInt64 = 0,
        received: UInt64 = 0,
        makeExchange: @escaping () -> UInt64,
        naming: @escaping Naming
    ) {
        self.role = role
        self.cookie = cookie
        self.naming = naming
        self.makeExchange = makeExchange
        let isClient = role == .client
        self.requests = Direction(scanner: HTTP1Scanner(.request), base: isClient ? sent : received)
        self.responses = Direction(scanner: HTTP1Scanner(.response), base: isClient ? received : sent)
    }

    /// Where on the stream that was scanned the message begins that has not ended, or the next one will; without what had passed before.
    package var starts: (sent: UInt64, received: UInt64) {
        let (requests, responses) = (self.requests.start, self.responses.start)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// What is in no message, so far.
    package var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        let (requests, responses) = (self.requests.remainder, self.responses.remainder)
        return self.role == .client ? (requests, responses) : (responses, requests)
    }

    /// Bytes that the process has sent.
    package mutating func sent(_ bytes: Span<UInt8>, at time: UInt64, _ report: (Report.Record) -> Void) {
        if self.role == .client {
            self.scanRequests(bytes, time, report)
        } else {
            self.scanResponses(bytes, time, report)
        }
    }

    /// Bytes that nobody could look into: of a file, as the body of a message.
    package mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ report: (Report.Record) -> Void) {
        var events: [HTTP1Scanner.Event] = []
        if self.role == .client {
            self.requests.scanner.skip(count) { events.append($0) }
            for event in events { self.request(event, time, report) }
        } else {
            self.responses.scanner.skip(count) { events.append($0) }
            for event in events { self.response(event, time, report) }
        }
    }

    /// Bytes that it has received.
    package mutating func received(_ bytes: Span<UInt8>, at time: UInt64, _ report: (Report.Record) -> Void) {
        if self.role == .client {
            self.scanResponses(bytes, time, report)
        } else {
            self.scanRequests(bytes, time, report)
        }
    }

    /// The connection is over, in both directions.
    ///
    /// - Parameter ending: Of exchanges that have no response yet.
    package mutating func close(
        _ ending: Report.Ending = .truncated,
        at time: UInt64,
        _ report: (Report.Record) -> Void
    ) {
        guard !self.isClosed else { return }
        self.isClosed = true
        var events: [HTTP1Scanner.Event] = []
        self.requests.scanner.close { events.append($0) }
        for event in events { self.request(event, time, report) }
        events = []
        self.responses.scanner.close { events.append($0) }
        for event in events { self.response(event, time, report) }
        for exchange in self.exchanges {
            self.end(exchange, exchange.responseBeganAt == nil ? ending : .truncated, time, report)
        }
        self.exchanges = []
        for direction in [\HTTP1Exchanges.requests, \.responses] {
            guard let from = self[keyPath: direction].opaqueFrom else { continue }
            self[keyPath: direction].remainder.opaque += self[keyPath: direction].scanner.position - from
        }
        let (sent, received) = self.remainders
        guard sent != .init() || received != .init(), self.cookie != 0 else { return }
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        (connection.sent, connection.received) = (sent, received)
        report(.connection(connection))
    }

    // MARK: Requests

    private mutating func scanRequests(_ bytes: Span<UInt8>, _ time: UInt64, _ report: (Report.Record) -> Void) {
        // Out of self for the time: what it tells changes the rest.
        var scanner = HTTP1Scanner(.request)
        swap(&scanner, &self.requests.scanner)
        scanner.scan(bytes) { self.request($0, time, report) }
        swap(&scanner, &self.requests.scanner)
    }

    private mutating func request(_ event: HTTP1Scanner.Event, _ time: UInt64, _ report: (Report.Record) -> Void) {
        switch event {
        case .began(let position):
            self.requests.beganAt = time
            self.requests.beganPosition = position
            self.exchanges.append(Exchange(id: self.makeExchange(), startedAt: time))
        case .head(let head):
            self.requests.head = head
            self.responses.scanner.expectResponse(to: head.method)
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
                self.end(whole, self.ending(of: whole.status, isComplete: isComplete), time, report)
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

    private mutating func scanResponses(_ bytes: Span<UInt8>, _ time: UInt64, _ report: (Report.Record) -> Void) {
        var scanner = HTTP1Scanner(.response)
        swap(&scanner, &self.responses.scanner)
        scanner.scan(bytes) { self.response($0, time, report) }
        swap(&scanner, &self.responses.scanner)
    }

    private mutating func response(_ event: HTTP1Scanner.Event, _ time: UInt64, _ report: (Report.Record) -> Void) {
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
            self.end(whole, self.ending(of: head.status, isComplete: isComplete), time, report)
        case .opaque(let position):
            self.responses.opaqueFrom = position
            // Both sides have switched protocols, or nobody knows any more what answers what.
            var events: [HTTP1Scanner.Event] = []
            self.requests.scanner.becomeOpaque { events.append($0) }
            for event in events { self.request(event, time, report) }
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

    private func ending(of status: UInt16, isComplete: Bool) -> Report.Ending {
        switch status {
        case _ where !isComplete: .truncated
        case 400..<500: .http4xx
        case 500...: .http5xx
        default: .ok
        }
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
        outcome.phases.send = Self.microseconds(exchange.startedAt, exchange.requestEndedAt)
        outcome.phases.wait = Self.microseconds(exchange.requestEndedAt, exchange.responseBeganAt)
        outcome.phases.receive = Self.microseconds(exchange.responseBeganAt, exchange.responseEndedAt ?? time)
        (outcome.method, outcome.host, outcome.route) = (exchange.method, name.host, name.route)
        report(.outcome(outcome))
    }

    package static func microseconds(_ from: UInt64?, _ to: UInt64?) -> UInt32? {
        guard let from, let to else { return nil }
        return UInt32(clamping: (to - min(from, to)) / 1_000)
    }
}
