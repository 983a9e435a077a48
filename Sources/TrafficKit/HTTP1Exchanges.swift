package import TrafficReport

/// The exchanges of one HTTP/1.x connection, found in the bytes of both directions.
///
/// An exchange is one record, when both messages have ended or the connection has. Messages that have ended go ahead in
/// a record of their own if the exchange goes on after the bytes that passed together. Bytes of no message are in the
/// connection's record.
package struct HTTP1Exchanges {
    /// What happens to one direction.
    private enum Input: ~Escapable {
        case bytes(Span<UInt8>)
        /// Bytes that the library could not read, such as a file.
        case unseen(UInt64)
        /// - Parameter isClean: The stream ended without an error, and both sides know its end.
        case end(isClean: Bool)

        func pass(to scanner: inout HTTP1Scanner, _ records: inout HTTP1Records) {
            switch self {
            case .bytes(let bytes): scanner.scan(bytes, &records)
            case .unseen(let count): scanner.skip(count, &records)
            case .end(let isClean): scanner.close(isClean: isClean, &records)
            }
        }
    }

    /// How many requests of a connection may wait for answers. Requests that come in one piece with the last of these
    /// are kept, too. Without this limit, a client that never reads could make the library keep all its requests. The
    /// bytes of further requests are opaque. HTTP/2 may have the same number of open exchanges.
    package static let mostPending = 1_000

    // The scanners are apart from the records, because a scanner and the records change at the same time.
    private var requests: HTTP1Scanner
    private var responses: HTTP1Scanner
    private var records: HTTP1Records
    private var isClosed = false

    /// The socket's cookie; 0: unknown. The caller must set the cookie before the first message ends.
    package var cookie: UInt64 {
        get { self.records.cookie }
        set { self.records.cookie = newValue }
    }

    /// When the TLS handshake of a client's connection ended; 0: unknown, or no TLS.
    package var tlsEndedAt: UInt64 {
        get { self.records.tlsEndedAt }
        set { self.records.tlsEndedAt = newValue }
    }

    /// The process had sent nothing on the connection when this began. `false`: it had sent bytes, or this is unknown.
    package var isFromStart: Bool {
        get { self.records.isFromStart }
        set { self.records.isFromStart = newValue }
    }

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
        self.requests = HTTP1Scanner(.request, isReadHere: role == .server)
        self.responses = HTTP1Scanner(.response, isReadHere: role == .client)
        self.records = HTTP1Records(
            role: role,
            cookie: cookie,
            sent: sent,
            received: received,
            routes: routes,
            naming: naming
        )
    }

    /// Counts ciphertext, before its plaintext is scanned.
    package mutating func passed(ciphertext bytes: Span<UInt8>, _ side: Side) {
        if (side == .sent) == (self.records.role == .client) {
            self.records.requestStream.tls?.passed(ciphertext: bytes)
        } else {
            self.records.responseStream.tls?.passed(ciphertext: bytes)
        }
    }

    /// Where the bytes of a direction lie on the socket's stream. With TLS, bytes must have their place before they are
    /// scanned.
    package mutating func withStream<Result>(_ side: Side, _ body: (inout SocketStream) -> Result) -> Result {
        (side == .sent) == (self.records.role == .client)
            ? body(&self.records.requestStream) : body(&self.records.responseStream)
    }

    /// Bytes of no message, so far.
    package var remainders: (sent: Report.Connection.Remainder, received: Report.Connection.Remainder) {
        self.records.remainders
    }

    /// No message is under way, and no request waits for its answer.
    package var isIdle: Bool { !self.requests.isInMessage && !self.responses.isInMessage && self.records.pending == 0 }

    /// Everything that has passed is requests and the answers to these requests.
    package var isInStep: Bool {
        let (sent, received) = self.remainders
        return !self.requests.isOpaque && !self.responses.isOpaque && sent.framing == 0 && received.framing == 0
    }

    /// Messages have ended and are not told, because their exchange goes on.
    package var isTellable: Bool { mutating get { self.records.isTellable } }

    /// Tells the messages that have ended, of exchanges that go on.
    package mutating func tellOpen(_ found: inout [Report.Record]) {
        self.records.tellOpen()
        self.records.drain(into: &found)
    }

    /// Scans bytes that the process has sent.
    ///
    /// - Parameters:
    ///   - tellsOpen: Tells the messages that have ended at once. `false`: ``tellOpen(_:)`` will, unless the exchange
    ///     ends before.
    ///   - found: Gets the records to report.
    package mutating func sent(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool = true,
        _ found: inout [Report.Record]
    ) {
        self.scan(.bytes(bytes), isSent: true, time, tellsOpen, &found)
    }

    /// Counts sent bytes that the library could not read: a file as the body of a message.
    package mutating func sentUnseen(_ count: UInt64, at time: UInt64, _ found: inout [Report.Record]) {
        self.scan(.unseen(count), isSent: true, time, true, &found)
    }

    /// Scans bytes that the process has received.
    package mutating func received(
        _ bytes: Span<UInt8>,
        at time: UInt64,
        tellsOpen: Bool = true,
        _ found: inout [Report.Record]
    ) {
        self.scan(.bytes(bytes), isSent: false, time, tellsOpen, &found)
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
        _ found: inout [Report.Record]
    ) {
        guard !self.isClosed else { return }
        self.isClosed = true
        self.records.ending = ending
        // Without an error the received stream has had its end. The sent stream gets its end from the close.
        let isClean = ending == .truncated
        let isServer = self.records.role == .server
        self.scan(.end(isClean: isClean && !(isCut && isServer)), isSent: !isServer, time, true, &found)
        self.scan(.end(isClean: isClean && !(isCut && !isServer)), isSent: isServer, time, true, &found)
        self.records.close(requests: self.requests.position, responses: self.responses.position)
        self.records.drain(into: &found)
    }

    private mutating func scan(
        _ input: Input,
        isSent: Bool,
        _ time: UInt64,
        _ tellsOpen: Bool,
        _ found: inout [Report.Record]
    ) {
        self.records.time = time
        if isSent == (self.records.role == .client) {
            input.pass(to: &self.requests, &self.records)
            if self.records.pending > Self.mostPending { self.requests.becomeOpaque(&self.records) }
        } else {
            input.pass(to: &self.responses, &self.records)
            // Both sides have switched protocols, or the library cannot tell any more which response answers which
            // request.
            if self.responses.isOpaque { self.requests.becomeOpaque(&self.records) }
        }
        if tellsOpen { self.records.tellOpen() }
        self.records.settle(self.requests, self.responses)
        self.records.drain(into: &found)
    }
}
