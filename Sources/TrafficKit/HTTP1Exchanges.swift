package import TrafficReport

/// The exchanges of one HTTP/1.x connection, by the bytes that pass in both directions.
///
/// Requests and responses are reported each on its own, when their last byte has passed; an exchange's outcome once, when both are over or
/// the connection is. What is in no message is in the connection's record.
package struct HTTP1Exchanges {
    /// Where a message is that has so many bytes in this interval of the stream that is scanned.
    package typealias Placing = (Report.Interval, UInt64) -> MessagePlace

    /// What happens to one direction.
    private enum Input: ~Escapable {
        case bytes(Span<UInt8>)
        /// So many bytes, which nobody could look into.
        case unseen(UInt64)
        /// - Parameter isClean: Both sides know of it.
        case end(isClean: Bool)

        func pass(to scanner: inout HTTP1Scanner, _ records: inout HTTP1Records) {
            switch self {
            case .bytes(let bytes): scanner.scan(bytes, &records)
            case .unseen(let count): scanner.skip(count, &records)
            case .end(let isClean): scanner.close(isClean: isClean, &records)
            }
        }
    }

    /// How many requests of a connection may wait for answers; those in one piece with the last are kept too. A client that never reads would
    /// otherwise make us keep all its requests. Further ones are opaque. Of HTTP/2 the same number may be open.
    package static let mostPending = 1_000

    // Apart from the records: while one of them tells what it finds, those change, and the other one does.
    private var requests: HTTP1Scanner
    private var responses: HTTP1Scanner
    private var records: HTTP1Records
    private var isClosed = false

    /// Of the socket; 0: unknown. To be known before the first message ends.
    package var cookie: UInt64 {
        get { self.records.cookie }
        set { self.records.cookie = newValue }
    }

    /// When the connection's TLS handshake was over, of a client; 0: unknown, or there is none.
    package var tlsEndedAt: UInt64 {
        get { self.records.tlsEndedAt }
        set { self.records.tlsEndedAt = newValue }
    }

    /// The process had sent nothing on the connection when this began; `false`: it had, or nobody knows.
    package var isFromStart: Bool {
        get { self.records.isFromStart }
        set { self.records.isFromStart = newValue }
    }

    /// - Parameters:
    ///   - cookie: Of the socket; 0: unknown.
    ///   - sent: Bytes of the socket's stream that were sent before.
    ///   - received: The same of the other direction.
    ///   - routes: Where there are some, a request is reported when it is answered.
    ///   - placing: Where on the socket's stream it is, which is asked in time: the request is held back.
    package init(
        role: Report.Role,
        cookie: UInt64 = 0,
        sent: UInt64 = 0,
        received: UInt64 = 0,
        routes: (any RouteSource)? = nil,
        placing: Placing? = nil,
        naming: any ExchangeNaming
    ) {
        self.requests = HTTP1Scanner(.request, isReadHere: role == .server)
        self.responses = HTTP1Scanner(.response, isReadHere: role == .client)
        self.records = HTTP1Records(
            role: role,
            cookie: cookie,
            sent: sent,
            received: received,
            routes: routes,
            placing: placing,
            naming: naming
        )
    }

    /// Where on the stream that was scanned the message begins that has not ended, or the next one will; without what had passed before.
    package var starts: (sent: UInt64, received: UInt64) { self.records.starts(self.requests, self.responses) }

    /// What is in no message, so far.
    package var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        self.records.remainders
    }

    /// No message is under way, and no request waits for its answer.
    package var isIdle: Bool { !self.requests.isInMessage && !self.responses.isInMessage && self.records.pending == 0 }

    /// All that has passed are requests, and no answer that nobody has asked for.
    package var isInStep: Bool {
        let (sent, received) = self.remainders
        return !self.requests.isOpaque && !self.responses.isOpaque && sent.framing == 0 && received.framing == 0
    }

    /// Bytes that the process has sent.
    ///
    /// - Parameter found: Gets what is to be reported.
    package mutating func sent(_ bytes: Span<UInt8>, at time: UInt64, _ found: inout [Report.Record]) {
        self.scan(.bytes(bytes), isSent: true, time, &found)
    }

    /// Bytes that nobody could look into: of a file, as the body of a message.
    package mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ found: inout [Report.Record]) {
        self.scan(.unseen(count), isSent: true, time, &found)
    }

    /// Bytes that it has received.
    package mutating func received(_ bytes: Span<UInt8>, at time: UInt64, _ found: inout [Report.Record]) {
        self.scan(.bytes(bytes), isSent: false, time, &found)
    }

    /// The connection is over, in both directions.
    ///
    /// - Parameters:
    ///   - ending: Of exchanges that are not over.
    ///   - isCut: What was received has no end that the other side has said, which TLS asks for (RFC 8446 section 6.1): a body that goes on to
    ///     the end is not complete (RFC 9112 section 9.8).
    package mutating func close(
        _ ending: Report.Ending = .truncated,
        isCut: Bool = false,
        at time: UInt64,
        _ found: inout [Report.Record]
    ) {
        guard !self.isClosed else { return }
        self.isClosed = true
        self.records.ending = ending
        // Where there is no error the stream has had its end. One that was sent has it by closing.
        let isClean = ending == .truncated
        let isServer = self.records.role == .server
        self.scan(.end(isClean: isClean && !(isCut && isServer)), isSent: !isServer, time, &found)
        self.scan(.end(isClean: isClean && !(isCut && !isServer)), isSent: isServer, time, &found)
        swap(&self.records.found, &found)
        self.records.close(requests: self.requests.position, responses: self.responses.position)
        swap(&self.records.found, &found)
    }

    private mutating func scan(_ input: Input, isSent: Bool, _ time: UInt64, _ found: inout [Report.Record]) {
        self.records.time = time
        swap(&self.records.found, &found)
        if isSent == (self.records.role == .client) {
            input.pass(to: &self.requests, &self.records)
            if self.records.pending > Self.mostPending { self.requests.becomeOpaque(&self.records) }
        } else {
            input.pass(to: &self.responses, &self.records)
            // Both sides have switched protocols, or nobody knows any more what answers what.
            if self.responses.isOpaque { self.requests.becomeOpaque(&self.records) }
        }
        swap(&self.records.found, &found)
    }
}
