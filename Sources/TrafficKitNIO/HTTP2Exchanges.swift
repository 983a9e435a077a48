import TrafficKit
import TrafficReport

/// The exchanges of one HTTP/2 connection, by the bytes that pass in both directions.
///
/// Messages share the connection. A message gets the frames of its stream. With TLS it also gets the overhead of each
/// record whose first byte of plaintext belongs to the message. Bytes of no message (the preface, settings, windows,
/// resets) are in the connection's record. Bytes are counted when their place on the socket's stream is known, so the
/// result is the same with TLS and without.
///
/// Only the owner of the connection uses this object, and each call returns before its records are reported to other
/// code. So the exclusivity checks at each access are switched off (`exclusivity`), here and in the parts of this
/// object. They would take an eighth of all work.
final class HTTP2Exchanges {
    /// A class, like ``HTTP2Direction``: the exchange has many properties, and a frame changes few of them.
    private final class Exchange {
        let id: UInt64
        let startedAt: UInt64
        /// The first exchange of its connection.
        let isFirst: Bool
        @exclusivity(unchecked) var name: Report.Name?
        /// The request, on a server with routes, until the exchange is named. `nil` if the app keeps the request out.
        @exclusivity(unchecked) var asked: HTTP1Head.Request?
        @exclusivity(unchecked) var request: HTTP2Message?
        @exclusivity(unchecked) var response: HTTP2Message?
        /// The head of the final response has come.
        var isAnswered = false
        /// Each message is reported once.
        var isRequestReported = false
        var isResponseReported = false

        init(id: UInt64, startedAt: UInt64, isFirst: Bool) {
            (self.id, self.startedAt, self.isFirst) = (id, startedAt, isFirst)
        }
    }

    /// When the TLS handshake of a client's connection ended. The first exchange reports it. 0: unknown, or no TLS.
    var tlsEndedAt: UInt64 = 0
    /// The process had sent nothing on the connection, except for the TLS handshake, when counting began. The first
    /// exchange reports it.
    var isFromStart = false
    private let role: Report.Role
    private let cookie: UInt64
    private let naming: any ExchangeNaming
    /// Names requests by their stream numbers.
    private let routes: (any RouteSource)?
    private let sent: HTTP2Direction
    private let received: HTTP2Direction
    /// The key is the stream number.
    @exclusivity(unchecked) private var exchanges: [UInt32: Exchange] = [:]
    @exclusivity(unchecked) private var lastRequest = HTTP1Head.Request.none
    /// Stream numbers rise. A frame of a lower stream that is not in `exchanges` comes too late.
    private var lastStream: UInt32 = 0
    /// A request's head has passed.
    private var hasBegun = false
    /// The first request seen was not the connection's first. The content of the sender's header table is then unknown,
    /// so no exchange is named.
    private var isLate = false
    private var reported = Report.Connection(cookie: 0)
    private var isClosed = false

    /// - Parameters:
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: The same for the other direction.
    ///   - tls: What TLS has moved so far. `nil`: no TLS.
    ///   - routes: If there are routes, a request is reported when it is answered.
    init(
        role: Report.Role,
        cookie: UInt64,
        sent: UInt64,
        received: UInt64,
        tls: TLSAccount?,
        routes: (any RouteSource)?,
        naming: any ExchangeNaming
    ) {
        self.role = role
        self.cookie = cookie
        self.naming = naming
        self.routes = routes
        self.sent = HTTP2Direction(base: sent, tls: tls?.streams.sent)
        self.received = HTTP2Direction(base: received, tls: tls?.streams.received)
    }

    // MARK: Bytes

    /// Bytes that the process has sent. With TLS their ciphertext follows.
    func sent(_ bytes: Span<UInt8>, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        self.scan(bytes, time, .sent)
        if self.sent.tls == nil { self.settle(.sent, report) }
    }

    /// Sent bytes that this process can't look into: part of a file, as part of a body.
    func sentUnseen(_ count: UInt64, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        self.sent.tls?.passed(plaintext: count)
        self.sent.scanner.skip(count) { self.sent.steps.append(HTTP2Direction.Step(event: $0, time: time)) }
        if self.sent.tls == nil { self.settle(.sent, report) }
    }

    /// Bytes that the process has received. With TLS their ciphertext has come before.
    func received(_ bytes: Span<UInt8>, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        self.scan(bytes, time, .received)
        self.received.tls?.settle()
        self.settle(.received, report)
    }

    /// Ciphertext that the kernel has taken. The plaintext in it was scanned before.
    func sent(ciphertext bytes: Span<UInt8>, _ report: (consuming Report.Record) -> Void) {
        if var received = self.received.tls.take() {
            self.sent.tls?.sent(ciphertext: bytes, &received)
            self.received.tls = received
        }
        self.settle(.sent, report)
    }

    /// Ciphertext that was received. Call this before the plaintext in it is scanned.
    func received(ciphertext bytes: Span<UInt8>) {
        self.received.tls?.passed(ciphertext: bytes)
    }

    private enum Side: CaseIterable {
        case received, sent
    }

    private subscript(side: Side) -> HTTP2Direction { side == .sent ? self.sent : self.received }

    private func scan(_ bytes: Span<UInt8>, _ time: UInt64, _ side: Side) {
        let direction = self[side]
        var steps: [HTTP2Direction.Step] = []
        swap(&steps, &direction.steps)
        direction.tls?.passed(plaintext: UInt64(bytes.count))
        direction.scanner.scan(bytes) { steps.append(HTTP2Direction.Step(event: $0, time: time)) }
        swap(&steps, &direction.steps)
    }

    /// Counts the steps, if their places on the socket's stream are known.
    private func settle(_ side: Side, _ report: (consuming Report.Record) -> Void) {
        let direction = self[side]
        guard direction.tls?.isSettled ?? true else { return }
        var steps: [HTTP2Direction.Step] = []
        swap(&steps, &direction.steps)
        var hasEnded = false
        for step in steps { hasEnded = self.put(down: step, side, report) || hasEnded }
        direction.tls?.forget(before: direction.position)
        if hasEnded { self.reportConnection(report) }
        steps.removeAll(keepingCapacity: true)
        swap(&steps, &direction.steps)
    }

    /// The connection is over, in both directions.
    ///
    /// - Parameter ending: How exchanges end that are not over.
    func close(_ ending: Report.Ending, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        guard !self.isClosed else { return }
        self.isClosed = true
        for side in Side.allCases {
            var steps = self[side].steps
            self[side].steps = []
            self[side].scanner.close { steps.append(HTTP2Direction.Step(event: $0, time: time)) }
            // If TLS is not settled, the places of these steps are unknown. Their kinds are known.
            for step in steps { _ = self.put(down: step, side, report) }
        }
        for stream in self.exchanges.keys.sorted() {
            self.end(stream, ending, time, report)
        }
        self.reportConnection(report, isLast: true)
    }

    // MARK: Steps

    private func isRequest(_ side: Side) -> Bool {
        (side == .sent) == (self.role == .client)
    }

    /// - Returns: Whether an exchange has ended.
    private func put(down step: HTTP2Direction.Step, _ side: Side, _ report: (consuming Report.Record) -> Void) -> Bool
    {
        let isRequest = self.isRequest(side)
        switch step.event {
        case .bytes(let count, let kind, let stream):
            self.put(down: count, kind, stream, step.time, side)
            return false
        case .headers(let block, let stream):
            if isRequest, !self.hasBegun { self.begin(with: stream, side, step.time, report) }
            self.read(block, stream, side, report)
            return false
        case .ended(let stream):
            guard let exchange = self.exchanges[stream] else { return false }
            if isRequest { exchange.request?.endedAt = step.time } else { exchange.response?.endedAt = step.time }
            return self.finish(stream, exchange, step.time, report)
        case .reset(let stream, let error):
            guard let exchange = self.exchanges[stream] else { return false }
            // A client resets a stream to cancel its request. A server resets a stream without error when it has
            // answered and needs no more of the request (RFC 9113 section 8.1).
            let answer = error == 0 ? exchange.response.flatMap { $0.endedAt == nil ? nil : $0.head.status } : nil
            let ending: Report.Ending = isRequest ? .cancelled : answer.map { .init(status: $0) } ?? .reset
            self.end(stream, ending, step.time, report)
            return true
        }
    }

    /// Called for the first head of a request. It is the connection's first request if the scanner saw the client's
    /// first frame (its settings), or if this is stream 1. A connection may begin with a higher stream number, because
    /// clients may leave out numbers (RFC 9113 sections 3.4 and 5.1.1).
    private func begin(
        with stream: UInt32,
        _ side: Side,
        _ time: UInt64,
        _ report: (consuming Report.Record) -> Void
    ) {
        self.hasBegun = true
        guard stream > 1, !self[side].scanner.beganWithSettings else { return }
        self.isLate = true
        for stream in self.exchanges.keys.sorted() { self.end(stream, .truncated, time, report) }
    }

    /// - Returns: The exchange of a stream that a client has opened or is about to open: a server may answer before all
    ///   bytes of a request are known to be sent.
    private func begin(_ stream: UInt32, at time: UInt64) -> Exchange? {
        if let exchange = self.exchanges[stream] { return exchange }
        guard stream > self.lastStream, stream % 2 == 1 else { return nil }
        let isFirst = self.lastStream == 0
        self.lastStream = stream
        // A server that goes away ignores new streams without notice, and a client may still open streams. Frames of
        // streams beyond the limit count for the connection.
        guard self.exchanges.count < HTTP1Exchanges.mostPending else { return nil }
        let exchange = Exchange(id: self.naming.makeExchange(), startedAt: time, isFirst: isFirst)
        self.exchanges[stream] = exchange
        return exchange
    }

    private func put(
        down count: UInt64,
        _ kind: HTTP2FrameScanner.Kind,
        _ stream: UInt32,
        _ time: UInt64,
        _ side: Side
    ) {
        let direction = self[side]
        let place = direction.place(count)
        guard stream != 0, !self.isLate, let exchange = self.begin(stream, at: time) else {
            direction.besideMessages += place.interval.bytes - min(count, place.interval.bytes)
            if kind == .opaque || self.isLate {
                direction.remainder.opaque += count
            } else {
                direction.remainder.framing += count
            }
            return
        }
        if self.isRequest(side) {
            if exchange.request == nil { exchange.request = HTTP2Message(at: time) }
            exchange.request?.take(count, kind, at: place.interval, isExact: place.isExact)
        } else {
            if exchange.response == nil { exchange.response = HTTP2Message(at: time) }
            exchange.response?.take(count, kind, at: place.interval, isExact: place.isExact)
        }
    }

    // MARK: Heads

    private func read(
        _ block: [UInt8],
        _ stream: UInt32,
        _ side: Side,
        _ report: (consuming Report.Record) -> Void
    ) {
        guard let head = HTTP2Head(block.span, &self[side].fields), let exchange = self.exchanges[stream] else { return }
        if self.isRequest(side) {
            let isTrailer = exchange.request?.hasHead == true
            exchange.request?.take(head, &self.lastRequest)
            guard !isTrailer, let request = exchange.request?.request else { return }
            if self.routes == nil || exchange.isAnswered {
                exchange.name = self.naming.name(of: request, self.routes?.takeRoute(ofRequest: Int(stream)) ?? .path)
            } else if self.naming.admits(request) {
                exchange.asked = request
            }
        } else {
            exchange.response?.take(head, &self.lastRequest)
            guard exchange.response?.hasHead == true else { return }
            self.nameRoute(of: stream, exchange)
            if self.routes != nil, exchange.request?.endedAt != nil { self.reportRequest(of: exchange, report) }
        }
    }

    /// Called when the server answers, or when it never will. The router's name for the request is final by now.
    private func nameRoute(of stream: UInt32, _ exchange: Exchange) {
        guard let routes, !exchange.isAnswered else { return }
        exchange.isAnswered = true
        let route = routes.takeRoute(ofRequest: Int(stream))
        if let request = exchange.asked.take() {
            exchange.name = self.naming.name(of: request, route)
        }
    }

    // MARK: Reports

    /// Reports the complete messages.
    ///
    /// - Returns: Whether the exchange is complete.
    private func finish(
        _ stream: UInt32,
        _ exchange: Exchange,
        _ time: UInt64,
        _ report: (consuming Report.Record) -> Void
    ) -> Bool {
        let hasAsked = exchange.request?.endedAt != nil
        // A client's request is named already. A server's request is named when the server answers.
        if hasAsked, self.routes == nil || exchange.isAnswered { self.reportRequest(of: exchange, report) }
        // A response that came first waits until the request is known.
        guard let response = exchange.response, response.endedAt != nil, exchange.request?.hasHead == true || hasAsked
        else { return false }
        self.reportResponse(of: exchange, report)
        guard hasAsked else { return false }
        self.end(stream, .init(status: response.head.status), time, report)
        return true
    }

    private func reportRequest(of exchange: Exchange, _ report: (consuming Report.Record) -> Void) {
        guard let request = exchange.request, !exchange.isRequestReported else { return }
        exchange.isRequestReported = true
        self.report(request, of: exchange, isRequest: true, report)
    }

    private func reportResponse(of exchange: Exchange, _ report: (consuming Report.Record) -> Void) {
        guard let response = exchange.response, !exchange.isResponseReported else { return }
        exchange.isResponseReported = true
        self.report(response, of: exchange, isRequest: false, report)
    }

    private func report(
        _ message: HTTP2Message,
        of exchange: Exchange,
        isRequest: Bool,
        _ report: (consuming Report.Record) -> Void
    ) {
        guard let name = exchange.name, message.hasHead else {
            self.keepOut(message, isRequest: isRequest, isUnnamed: exchange.request?.hasHead != true)
            return
        }
        var record = message.record(of: exchange.id, name)
        (record.cookie, record.role) = (self.cookie, self.role)
        report(isRequest ? .request(record) : .response(record))
    }

    /// - Parameter isUnnamed: The request has no head, so these frames are of no message.
    private func keepOut(_ message: HTTP2Message, isRequest: Bool, isUnnamed: Bool) {
        let side: Side = isRequest == (self.role == .client) ? .sent : .received
        let plain = message.lengths.total
        if isUnnamed || !message.hasHead {
            self[side].remainder.framing += plain
        } else {
            self[side].remainder.excluded += plain
        }
        self[side].besideMessages += message.tlsBytes
    }

    /// Reports the messages of the exchange that are not reported yet, and its outcome.
    private func end(
        _ stream: UInt32,
        _ ending: Report.Ending,
        _ time: UInt64,
        _ report: (consuming Report.Record) -> Void
    ) {
        guard let exchange = self.exchanges.removeValue(forKey: stream) else { return }
        self.nameRoute(of: stream, exchange)
        self.reportRequest(of: exchange, report)
        self.reportResponse(of: exchange, report)
        guard let name = exchange.name else { return }
        let (request, response) = (exchange.request, exchange.response)
        var outcome = Report.Outcome(exchange: exchange.id, name: name)
        outcome.startedAt = exchange.startedAt
        outcome.duration = time - min(time, exchange.startedAt)
        outcome.role = self.role
        outcome.ending = ending
        outcome.status = response?.head.status ?? 0
        if exchange.isFirst {
            outcome.tlsEndedAt = self.tlsEndedAt
            outcome.isFirst = self.isFromStart || self.tlsEndedAt != 0
        }
        outcome.phases = Report.Phases(
            startedAt: exchange.startedAt,
            requestEndedAt: request?.endedAt,
            responseBeganAt: response?.startedAt,
            responseEndedAt: response?.endedAt ?? time
        )
        report(.outcome(outcome))
    }

    private func reportConnection(_ report: (consuming Report.Record) -> Void, isLast: Bool = false) {
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        connection.sent = Self.remainder(of: self.sent, isLast)
        connection.received = Self.remainder(of: self.received, isLast)
        guard self.cookie != 0, connection.sent != self.reported.sent || connection.received != self.reported.received
        else { return }
        self.reported = connection
        report(.connection(connection))
    }

    /// - Parameter isLast: The connection is over. Bytes that TLS moved and that have no place then count as TLS's own.
    private static func remainder(of direction: HTTP2Direction, _ isLast: Bool) -> Report.Connection.Remainder {
        var remainder = direction.remainder
        guard let tls = direction.tls else { return remainder }
        remainder.tls = tls.beside + direction.besideMessages
        if isLast { remainder.tls += tls.position - min(tls.position, tls.beside + direction.claimed) }
        return remainder
    }
}
