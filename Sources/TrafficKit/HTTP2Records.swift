import TrafficReport

/// Makes the records of one HTTP/2 connection from the events of the scanners of its two directions.
struct HTTP2Records {
    /// One direction.
    struct Direction {
        var stream: SocketStream
        fileprivate var fields = HPACKReader()
        /// Counted bytes of the scanned stream.
        fileprivate var position: UInt64 = 0
        fileprivate var beganWithSettings = false
        /// Counted bytes of the socket's stream.
        fileprivate var claimed: UInt64 = 0
        fileprivate var remainder = Report.Connection.Remainder()
        /// The part of `remainder.tls` that TLS added to bytes of no reported message.
        fileprivate var besideMessages: UInt64 = 0

        fileprivate init(_ stream: SocketStream) { self.stream = stream }

        /// - Returns: Where the next `count` bytes of the scanned stream are on the socket's stream.
        @inline(__always)
        fileprivate mutating func place(_ count: UInt64) -> (interval: Report.Interval, isExact: Bool) {
            let from = self.position
            self.position += count
            let place = self.stream.find(from, self.position)
            self.claimed += place.interval.bytes
            return place
        }

        /// - Parameter isLast: The connection is over. Bytes that TLS moved and that have no place then count as TLS's
        ///   own.
        fileprivate func remainder(isLast: Bool) -> Report.Connection.Remainder {
            var remainder = self.remainder
            guard let (position, beside) = self.stream.tls?.with({ ($0.position, $0.beside) }) else { return remainder }
            remainder.tls = beside + self.besideMessages
            if isLast { remainder.tls += position - min(position, beside + self.claimed) }
            return remainder
        }
    }

    /// How often the bytes of no message are told while the connection lasts, at most. In nanoseconds.
    private static let pause: UInt64 = 1_000_000_000

    var start = ConnectionStart()
    private let role: Report.Role
    private let cookie: UInt64
    private let naming: any ExchangeNaming
    /// Names requests by their stream numbers.
    private let routes: (any RouteSource)?
    var sent: Direction
    var received: Direction
    private var streams = HTTP2Streams()
    /// The header block that is read, and empty between blocks.
    private var head = HTTP2Head()
    private var lastRequest = MessageHead.Request.none
    /// Stream numbers rise. A frame of a lower stream that is not open comes too late.
    private var lastStream: UInt32 = 0
    /// A request's head has passed.
    private var hasBegun = false
    /// The first request seen was not the connection's first. The content of the sender's header table is then unknown,
    /// so no exchange is named.
    private var isLate = false
    private var told = Report.Connection(cookie: 0)
    private var toldAt: UInt64 = 0
    // The bytes that pass.
    private var side = Side.received
    private var isRequest = false
    private var time: UInt64 = 0
    private var hasEnded = false
    /// Streams with messages that may be told, although the exchange goes on.
    private var open: [UInt32] = []
    private var found = RecordBatch()

    init(
        role: Report.Role,
        cookie: UInt64,
        sent: SocketStream,
        received: SocketStream,
        routes: (any RouteSource)?,
        naming: any ExchangeNaming
    ) {
        (self.role, self.cookie, self.routes, self.naming) = (role, cookie, routes, naming)
        (self.sent, self.received) = (Direction(sent), Direction(received))
    }

    var pending: Int { self.streams.count }

    /// As ``HTTP2Exchanges/Kept``.
    var kept: (tableBytes: Int, streams: Int, tellable: Int) {
        let tables = self.sent.fields.tableBytes + self.received.fields.tableBytes
        return (tables, self.streams.slots.count, self.open.count)
    }

    @inline(__always)
    mutating func with<Result>(_ side: Side, _ body: (inout Direction) -> Result) -> Result {
        side == .sent ? body(&self.sent) : body(&self.received)
    }

    /// The next events are of this side.
    mutating func begin(_ side: Side, _ time: UInt64) {
        (self.side, self.time) = (side, time)
        self.isRequest = (side == .sent) == (self.role == .client)
    }

    var isTellable: Bool { !self.open.isEmpty }

    /// Tells what has ended.
    ///
    /// - Parameter tellsOpen: Also the messages of exchanges that go on.
    mutating func settle(_ tellsOpen: Bool, _ found: inout RecordBatch) {
        if tellsOpen || self.open.count > HTTP1Exchanges.mostPending { self.tellOpen() }
        self.with(self.side) { $0.stream.forget(before: $0.position, readTo: $0.position) }
        if self.hasEnded, self.time >= self.toldAt + Self.pause { self.tellConnection(isLast: false) }
        guard !self.found.isEmpty else { return }
        if found.isEmpty { swap(&found, &self.found) } else { found.append(contentsOf: self.found) }
        self.found.removeAll()
    }

    private mutating func tellOpen() {
        for number in self.open {
            guard let slot = self.streams.slot(of: number) else { continue }
            let isRequestDone = self.streams.slots[slot].request.endedAt != nil && self.isRequestTellable(slot)
            let isResponseDone = self.isResponseDone(slot)
            guard isRequestDone || isResponseDone else { continue }
            self.tell(slot, request: isRequestDone, response: isResponseDone, nil)
        }
        self.open.removeFew()
    }

    mutating func close(_ ending: Report.Ending, _ found: inout RecordBatch) {
        while let number = self.streams.lowest { self.end(number, ending) }
        self.tellConnection(isLast: true)
        found.append(contentsOf: self.found)
        self.found = RecordBatch()
    }

    // MARK: Streams

    /// Called for the first head of a request. It is the connection's first request if the scanner saw the client's
    /// first frame (its settings), or if this is stream 1. A connection may begin with a higher stream number, because
    /// clients may leave out numbers (RFC 9113 sections 3.4 and 5.1.1).
    private mutating func begin(with stream: UInt32) {
        self.hasBegun = true
        guard stream > 1, !self.with(self.side, { $0.beganWithSettings }) else { return }
        self.isLate = true
        while let number = self.streams.lowest { self.end(number, .truncated) }
    }

    /// - Returns: The slot of a stream that a client has opened or is about to open: a server may answer before all
    ///   bytes of a request are known to be sent.
    @inline(__always)
    private mutating func slot(of stream: UInt32) -> Int? {
        if let slot = self.streams.slot(of: stream) { return slot }
        return stream > self.lastStream && stream % 2 == 1 ? self.openStream(stream) : nil
    }

    /// - Returns: `nil` if the stream is not open, or its message in this direction has ended.
    private mutating func openSlot(of stream: UInt32) -> Int? {
        guard let slot = self.streams.slot(of: stream) else { return nil }
        let hasEnded = self.streams.slots[slot].with(request: self.isRequest) { $0.endedAt != nil }
        return hasEnded ? nil : slot
    }

    private mutating func openStream(_ stream: UInt32) -> Int? {
        let isFirst = self.lastStream == 0
        self.lastStream = stream
        // A server that goes away ignores new streams without notice, and a client may still open streams. Frames of
        // streams beyond the limit count for the connection.
        guard self.streams.count < HTTP1Exchanges.mostPending else { return nil }
        let exchange = self.naming.makeExchange()
        return self.streams.open(HTTP2Stream(stream, exchange: exchange, at: self.time, isFirst: isFirst))
    }

    private mutating func takeHead(_ slot: Int, _ stream: UInt32) {
        guard self.isRequest else {
            self.streams.slots[slot].response.take(self.head)
            guard self.streams.slots[slot].response.hasHead else { return }
            self.nameRoute(slot)
            if self.routes != nil, self.streams.slots[slot].request.endedAt != nil { self.open.append(stream) }
            return
        }
        let isTrailer = self.streams.slots[slot].request.hasHead
        self.streams.slots[slot].request.take(self.head)
        guard !isTrailer, let request = self.head.request(&self.lastRequest) else { return }
        if self.routes == nil || self.streams.slots[slot].isAnswered {
            let route = self.routes?.takeRoute(ofRequest: Int(stream)) ?? .path
            self.streams.slots[slot].name = self.naming.name(of: request, route)
        } else if self.naming.admits(request) {
            self.streams.slots[slot].asked = request
        }
    }

    /// Names the exchange: the server answers, so its router knows the route by now.
    private mutating func nameRoute(_ slot: Int) {
        self.streams.slots[slot].isAnswered = true
        guard let routes = self.routes else { return }
        let route = routes.takeRoute(ofRequest: Int(self.streams.slots[slot].number))
        guard let request = self.streams.slots[slot].asked.take() else { return }
        self.streams.slots[slot].name = self.naming.name(of: request, route)
    }

    // MARK: Reports

    /// A client's request is named already. A server's request is named when the server answers.
    private func isRequestTellable(_ slot: Int) -> Bool { self.routes == nil || self.streams.slots[slot].isAnswered }

    /// A response that came first waits until the request is known.
    private func isResponseDone(_ slot: Int) -> Bool {
        self.streams.slots[slot].response.endedAt != nil
            && (self.streams.slots[slot].request.hasHead || self.streams.slots[slot].request.endedAt != nil)
    }

    /// Tells messages that are not told yet, and the outcome. Messages that the app keeps out, or that have no head,
    /// count for the connection.
    private mutating func tell(_ slot: Int, request: Bool, response: Bool, _ outcome: Report.Exchange.Outcome?) {
        let name = self.streams.slots[slot].name
        var record = Report.Exchange(number: self.streams.slots[slot].exchange, name: name ?? .none)
        (record.cookie, record.role) = (self.cookie, self.role)
        record.startedAt = self.streams.slots[slot].startedAt
        if request, !self.streams.slots[slot].isRequestTold, self.streams.slots[slot].request.startedAt != nil {
            self.streams.slots[slot].isRequestTold = true
            if name != nil, self.streams.slots[slot].request.hasHead {
                record.request = self.streams.slots[slot].request.reported
            } else {
                self.keepOut(slot, isRequest: true)
            }
        }
        if response, !self.streams.slots[slot].isResponseTold, self.streams.slots[slot].response.startedAt != nil {
            self.streams.slots[slot].isResponseTold = true
            if name != nil, self.streams.slots[slot].response.hasHead {
                record.response = self.streams.slots[slot].response.reported
            } else {
                self.keepOut(slot, isRequest: false)
            }
        }
        if name != nil { record.outcome = outcome }
        if record.hasParts { self.found.append(consume record) }
    }

    private mutating func keepOut(_ slot: Int, isRequest: Bool) {
        let side: Side = isRequest == (self.role == .client) ? .sent : .received
        let (plain, added, hasHead) = self.streams.slots[slot].with(request: isRequest) {
            ($0.lengths.total, $0.tlsBytes, $0.hasHead)
        }
        // Without the request's head these frames are of no message.
        let isExcluded = hasHead && self.streams.slots[slot].request.hasHead
        self.with(side) {
            if isExcluded { $0.remainder.excluded += plain } else { $0.remainder.framing += plain }
            $0.besideMessages += added
        }
    }

    /// Tells the messages of the exchange that are not told yet, and its outcome.
    private mutating func end(_ stream: UInt32, _ ending: Report.Ending) {
        guard let slot = self.streams.slot(of: stream) else { return }
        self.hasEnded = true
        // Without an answer the exchange has no name yet.
        if !self.streams.slots[slot].isAnswered { self.nameRoute(slot) }
        let outcome = self.streams.slots[slot].outcome(ending, at: self.time, self.start)
        self.tell(slot, request: true, response: true, outcome)
        // Nothing of the exchange stays in memory.
        (self.streams.slots[slot].name, self.streams.slots[slot].asked) = (nil, nil)
        self.streams.close(stream)
    }

    private mutating func tellConnection(isLast: Bool) {
        (self.hasEnded, self.toldAt) = (false, self.time)
        var connection = Report.Connection(cookie: self.cookie)
        connection.role = self.role
        connection.sent = self.sent.remainder(isLast: isLast)
        connection.received = self.received.remainder(isLast: isLast)
        guard self.cookie != 0, connection.sent != self.told.sent || connection.received != self.told.received
        else { return }
        self.told = connection
        self.found.append(connection)
    }
}

extension HTTP2Records: HTTP2Sink {
    mutating func beganWithSettings() { self.with(self.side) { $0.beganWithSettings = true } }

    mutating func passed(_ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32) {
        self.passed(framing: 0, count, kind, stream: stream)
    }

    @inline(__always)
    mutating func passed(framing: UInt64, _ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32) {
        let place = self.with(self.side) { $0.place(framing + count) }
        guard stream != 0, !self.isLate, let slot = self.slot(of: stream) else {
            return self.passedBeside(framing + count, kind, place.interval.bytes)
        }
        let time = self.time
        // What comes behind the end of a message is of no message: the message may have been told.
        let isTaken = self.streams.slots[slot].with(request: self.isRequest) { message in
            guard message.endedAt == nil else { return false }
            message.take(framing: framing, count, kind, at: place, time)
            return true
        }
        if !isTaken { self.passedBeside(framing + count, kind, place.interval.bytes) }
    }

    private mutating func passedBeside(_ count: UInt64, _ kind: HTTP2FrameScanner.Kind, _ bytes: UInt64) {
        let isOpaque = kind == .opaque || self.isLate
        self.with(self.side) {
            $0.besideMessages += bytes - min(count, bytes)
            if isOpaque { $0.remainder.opaque += count } else { $0.remainder.framing += count }
        }
    }

    mutating func headers(_ block: Span<UInt8>, stream: UInt32) {
        if self.isRequest, stream != 0, !self.hasBegun { self.begin(with: stream) }
        let isRead =
            self.side == .sent
            ? self.head.read(block, &self.sent.fields) : self.head.read(block, &self.received.fields)
        if isRead, let slot = self.openSlot(of: stream) { self.takeHead(slot, stream) }
        self.head.removeAll()
    }

    mutating func ended(stream: UInt32) {
        guard let slot = self.openSlot(of: stream) else { return }
        let time = self.time
        self.streams.slots[slot].with(request: self.isRequest) { $0.endedAt = time }
        guard self.streams.slots[slot].request.endedAt != nil, self.isResponseDone(slot) else {
            return self.open.append(stream)
        }
        self.end(stream, .init(status: self.streams.slots[slot].response.head.status))
    }

    mutating func reset(stream: UInt32, error: UInt32) {
        guard let slot = self.streams.slot(of: stream) else { return }
        // A client resets a stream to cancel its request. A server resets a stream without error when it has answered
        // and needs no more of the request (RFC 9113 section 8.1).
        let hasAnswered = error == 0 && self.streams.slots[slot].response.endedAt != nil
        let answer = Report.Ending(status: self.streams.slots[slot].response.head.status)
        self.end(stream, self.isRequest ? .cancelled : hasAnswered ? answer : .reset)
    }
}
