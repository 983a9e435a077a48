import TrafficKit
import TrafficReport

/// The exchanges of one HTTP/2 connection, by the bytes that pass in both directions.
///
/// Messages share the connection: each has the frames of its stream, and with TLS of each record's additional bytes those of the record
/// whose first byte of plaintext is its own. What no message has (the preface, settings, windows, resets) is in the connection's record.
/// Everything is put down when it is known where on the socket's stream it lies, so it is the same with TLS and without.
///
/// Whoever has the connection has this too, and has left it before anybody else is called. That is not checked at each access
/// (`exclusivity`), here and in its parts, which would be an eighth of all work.
final class HTTP2Exchanges {
    /// By reference, as the directions are: a frame changes little of what is known, and much of it is known.
    private final class Exchange {
        let id: UInt64
        let startedAt: UInt64
        /// Of its connection.
        let isFirst: Bool
        @exclusivity(unchecked) var name: Report.Name?
        /// Of a server with routes, until it is named, unless it is kept out.
        @exclusivity(unchecked) var asked: HTTP1Head.Request?
        @exclusivity(unchecked) var request: HTTP2Message?
        @exclusivity(unchecked) var response: HTTP2Message?
        /// The response's head has come, of the final one.
        var isAnswered = false
        /// Both are reported in this order, whichever ends first.
        var isRequestReported = false
        var isResponseReported = false

        init(id: UInt64, startedAt: UInt64, isFirst: Bool) {
            (self.id, self.startedAt, self.isFirst) = (id, startedAt, isFirst)
        }
    }

    /// When the connection's TLS handshake was over, of a client, for the first exchange to tell; 0: unknown, or there is none.
    var tlsEndedAt: UInt64 = 0
    /// The process had sent nothing on the connection, TLS's handshake apart, when this began, for the first exchange to tell.
    var isFromStart = false
    private let role: Report.Role
    private let cookie: UInt64
    private let naming: any ExchangeNaming
    /// Names requests by their streams.
    private let routes: (any RouteSource)?
    private let sent: HTTP2Direction
    private let received: HTTP2Direction
    /// By stream.
    @exclusivity(unchecked) private var exchanges: [UInt32: Exchange] = [:]
    @exclusivity(unchecked) private var repeated = RepeatedRequest()
    /// Streams have rising numbers: what comes for a lower one that is not in `exchanges` comes too late.
    private var lastStream: UInt32 = 0
    /// A request's head has passed.
    private var hasBegun = false
    /// The first one was not the connection's: what the sender's table has is not known, and nobody is named.
    private var isLate = false
    private var reported = Report.Connection(cookie: 0)
    private var isClosed = false

    /// - Parameters:
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: The same of the other direction.
    ///   - tls: What TLS has moved so far; `nil`: there is none.
    ///   - routes: Where there are some, a request is reported when it is answered.
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

    /// Bytes that nobody could look into: of a file, as a part of a body.
    func sentUnseen(_ count: UInt64, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        self.sent.tls?.passed(plaintext: count)
        self.sent.scanner.skip(count) { self.sent.steps.append(HTTP2Direction.Step(event: $0, time: time)) }
        if self.sent.tls == nil { self.settle(.sent, report) }
    }

    /// Bytes that it has received. With TLS their ciphertext has come before.
    func received(_ bytes: Span<UInt8>, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        self.scan(bytes, time, .received)
        self.received.tls?.settle()
        self.settle(.received, report)
    }

    /// The kernel has taken it; the plaintext that is in it was scanned before.
    func sent(ciphertext bytes: Span<UInt8>, _ report: (consuming Report.Record) -> Void) {
        if var received = self.received.tls.take() {
            self.sent.tls?.sent(ciphertext: bytes, &received)
            self.received.tls = received
        }
        self.settle(.sent, report)
    }

    /// To be called before the plaintext that is in it is scanned.
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

    /// Puts down what has its place.
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
    /// - Parameter ending: Of exchanges that are not over.
    func close(_ ending: Report.Ending, at time: UInt64, _ report: (consuming Report.Record) -> Void) {
        guard !self.isClosed else { return }
        self.isClosed = true
        for side in Side.allCases {
            var steps = self[side].steps
            self[side].steps = []
            self[side].scanner.close { steps.append(HTTP2Direction.Step(event: $0, time: time)) }
            // Where TLS is not settled nobody knows where these lie; what they are is known.
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
            // A client that asks no further; a server that has answered and needs no more of the request (RFC 9113 section 8.1).
            let answer = error == 0 ? exchange.response.flatMap { $0.endedAt == nil ? nil : $0.head.status } : nil
            let ending: Report.Ending = isRequest ? .cancelled : answer.map { .init(status: $0) } ?? .reset
            self.end(stream, ending, step.time, report)
            return true
        }
    }

    /// The first request's head. Before it there is none where the client's first frame was seen, or this is the first stream: clients that leave
    /// out some numbers are seen from their first frame on (RFC 9113 sections 3.4 and 5.1.1).
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

    /// Of a stream that a client has opened, or is about to have: a server may answer before all of a request's bytes are known to be sent.
    private func begin(_ stream: UInt32, at time: UInt64) -> Exchange? {
        if let exchange = self.exchanges[stream] { return exchange }
        guard stream > self.lastStream, stream % 2 == 1 else { return nil }
        let isFirst = self.lastStream == 0
        self.lastStream = stream
        // A server that goes away ignores new streams without a word, and a client may open them all the same. Their frames are the connection's.
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
        guard let fields = self[side].fields.decode(block), let exchange = self.exchanges[stream] else { return }
        // Trailers count, and say nothing (RFC 9113 section 8.1).
        if self.isRequest(side) {
            let isTrailer = exchange.request?.hasHead == true
            exchange.request?.take(fields, &self.repeated)
            guard !isTrailer, let request = exchange.request?.request else { return }
            if self.routes == nil || exchange.isAnswered {
                exchange.name = self.naming.name(of: request, self.routes?.takeRoute(ofRequest: Int(stream)) ?? .path)
            } else if self.naming.admits(request) {
                exchange.asked = request
            }
        } else {
            exchange.response?.take(fields, &self.repeated)
            guard exchange.response?.hasHead == true else { return }
            self.nameRoute(of: stream, exchange)
            if self.routes != nil, exchange.request?.endedAt != nil { self.reportRequest(of: exchange, report) }
        }
    }

    /// The server answers, or never will: what its router has said so far is all that it says.
    private func nameRoute(of stream: UInt32, _ exchange: Exchange) {
        guard let routes, !exchange.isAnswered else { return }
        exchange.isAnswered = true
        let route = routes.takeRoute(ofRequest: Int(stream))
        if let request = exchange.asked.take() {
            exchange.name = self.naming.name(of: request, route)
        }
    }

    // MARK: Reports

    /// Reports what is whole.
    ///
    /// - Returns: Whether the exchange is.
    private func finish(
        _ stream: UInt32,
        _ exchange: Exchange,
        _ time: UInt64,
        _ report: (consuming Report.Record) -> Void
    ) -> Bool {
        let hasAsked = exchange.request?.endedAt != nil
        // A client's is named; a server's when it answers.
        if hasAsked, self.routes == nil || exchange.isAnswered { self.reportRequest(of: exchange, report) }
        // A response that has come first waits for what was asked.
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

    /// - Parameter isUnnamed: It has no head: these are frames that make no message.
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

    /// Reports what is not reported of the exchange, and its outcome.
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

    /// - Parameter isLast: What TLS has moved and could not be placed is its own.
    private static func remainder(of direction: HTTP2Direction, _ isLast: Bool) -> Report.Connection.Remainder {
        var remainder = direction.remainder
        guard let tls = direction.tls else { return remainder }
        remainder.tls = tls.beside + direction.besideMessages
        if isLast { remainder.tls += tls.position - min(tls.position, tls.beside + direction.claimed) }
        return remainder
    }
}
