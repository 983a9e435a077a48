import NIOCore
import TrafficKit
import TrafficReport

/// The exchanges of one connection, of either version of HTTP, with TLS or without.
///
/// What there is to report is returned, and reported once this is left: whoever observes it may do anything, also with the connection.
struct ConnectionTraffic {
    private let role: Report.Role
    private let reporter: TrafficReporter
    private let routes: TrafficRoutes?
    private var http1: HTTP1Exchanges
    /// Of HTTP/1.x with TLS.
    private var account: TLSAccount?
    /// In place of both.
    private var http2: HTTP2Exchanges?
    /// When the handshake was over, of a client; 0: unknown.
    var tlsEndedAt: UInt64 = 0 {
        didSet {
            self.http1.tlsEndedAt = self.tlsEndedAt
            self.http2?.tlsEndedAt = self.tlsEndedAt
        }
    }
    /// Nothing was sent before; `false`: something was, or nobody knows.
    private let isFromStart: Bool
    private var writes = PendingWrites()
    /// Of a connection that was joined late.
    private var trial: LateTrial?
    /// For what is to be reported: empty.
    private var memory: [Report.Record] = []

    /// - Parameters:
    ///   - hasTLS: Bytes are then those of the plaintext, and the ciphertext's come beside them.
    ///   - socket: As it was before the first byte.
    ///   - isLate: Requests and answers have passed before, which nobody has counted.
    init(
        role: Report.Role,
        reporter: TrafficReporter,
        routes: TrafficRoutes?,
        hasTLS: Bool,
        socket: SocketFacts,
        isLate: Bool = false
    ) {
        if isLate { self.trial = LateTrial(sent: socket.sentBytes, received: socket.receivedBytes) }
        let account =
            hasTLS
            ? TLSAccount(role: role, sent: socket.sentBytes, received: socket.receivedBytes) : nil
        self.role = role
        self.reporter = reporter
        self.routes = routes
        self.account = account
        self.isFromStart = socket.isFresh
        self.http1 = HTTP1Exchanges(
            role: role,
            cookie: socket.cookie,
            // With TLS these are positions in the plaintext, which begins here.
            sent: hasTLS ? 0 : socket.sentBytes,
            received: hasTLS ? 0 : socket.receivedBytes,
            routes: routes,
            placing: account.map { account in { account.place(received: $0, $1) } },
            naming: reporter
        )
        self.http1.isFromStart = self.isFromStart
    }

    /// It speaks HTTP/2 from here on, and has spoken nothing else.
    mutating func becomeHTTP2(_ socket: SocketFacts) {
        guard self.http2 == nil else { return }
        self.http2 = HTTP2Exchanges(
            role: self.role,
            cookie: socket.cookie,
            sent: socket.sentBytes,
            received: socket.receivedBytes,
            tls: self.account,
            routes: self.routes,
            naming: self.reporter
        )
        self.http2?.tlsEndedAt = self.tlsEndedAt
        self.http2?.isFromStart = self.isFromStart
        self.account = nil
    }

    /// It was joined late, and where it was can't be right.
    var isOutOfStep: Bool { self.trial?.hasFailed == true }

    // MARK: Bytes

    mutating func received(_ bytes: Span<UInt8>, at time: UInt64) -> [Report.Record] {
        var records = self.memory.take()
        if let http2 {
            http2.received(bytes, at: time) { records.append($0) }
        } else {
            self.account?.received(plaintext: UInt64(bytes.count))
            if self.role == .server { self.trial?.goesOn(self.http1) }
            self.http1.received(bytes, at: time, &records)
        }
        return self.place(records)
    }

    /// It is on its way to the TLS handler, or another channel has taken it.
    mutating func sent(_ part: IOData, at time: UInt64) -> [Report.Record] {
        var records = self.memory.take()
        self.count(sent: part, time, &records)
        return self.place(records)
    }

    private mutating func count(sent part: IOData, _ time: UInt64, _ records: inout [Report.Record]) {
        switch part {
        case .byteBuffer(let buffer):
            let bytes = buffer.readableBytesUInt8Span
            if let http2 { return http2.sent(bytes, at: time) { records.append($0) } }
            self.account?.sent(plaintext: UInt64(bytes.count))
            if self.role == .client { self.trial?.goesOn(self.http1) }
            self.http1.sent(bytes, at: time, &records)
        case .fileRegion(let region):
            // Nobody can look into it.
            let count = UInt64(region.readableBytes)
            if let http2 { return http2.sentUnseen(count, at: time) { records.append($0) } }
            self.account?.sent(plaintext: count)
            self.http1.sentUnseen(count, at: time, &records)
        }
    }

    /// They are on their way to the TLS handler.
    mutating func received(ciphertext bytes: Span<UInt8>) {
        self.http2?.received(ciphertext: bytes)
        self.account?.received(ciphertext: bytes)
    }

    /// The kernel has them, and all that is in them was sent.
    mutating func sent(ciphertext bytes: Span<UInt8>) -> [Report.Record] {
        var records = self.memory.take()
        self.account?.sent(ciphertext: bytes)
        self.http2?.sent(ciphertext: bytes) { records.append($0) }
        return self.place(records)
    }

    /// - Parameters:
    ///   - ending: Of exchanges that are not over.
    ///   - isCut: The other side has not said that this is the end, as TLS asks for.
    mutating func close(_ ending: Report.Ending, isCut: Bool, at time: UInt64) -> [Report.Record] {
        var records = self.memory.take()
        if let http2 {
            http2.close(ending, at: time) { records.append($0) }
        } else {
            self.trial?.goesOn(self.http1)
            self.http1.close(ending, isCut: isCut, at: time, &records)
        }
        defer { self.account = nil }
        return self.place(records, isLast: true)
    }

    // MARK: Writes

    // Of a connection without TLS, on a channel that tells what it has left of them.

    /// The channel was told to send something, and did not say that it has.
    var isOwed: Bool { self.writes.flushedBytes > 0 }

    /// It was not told to send all that was written.
    var hasUnflushed: Bool { !self.writes.isFlushed }

    mutating func written(_ part: IOData) { self.writes.append(part) }

    mutating func flush() { self.writes.flush() }

    /// What was written before is nobody's any more.
    mutating func forgetWrites() { self.writes = PendingWrites() }

    /// The kernel has taken what was written, but for so many bytes.
    mutating func taken(leaving buffered: Int, at time: UInt64) -> [Report.Record] {
        var records = self.memory.take()
        // Apart, while the rest of this changes.
        var writes = PendingWrites()
        swap(&writes, &self.writes)
        writes.take(leaving: buffered) { self.count(sent: $0, time, &records) }
        swap(&writes, &self.writes)
        return self.place(records)
    }

    // MARK: Reports

    /// - Parameter records: That were returned and are reported, for their memory.
    mutating func reuse(_ records: consuming [Report.Record]) {
        records.removeAll(keepingCapacity: true)
        self.memory = records
    }

    /// - Parameters:
    ///   - found: Of messages in what has passed.
    ///   - isLast: Nothing comes after it.
    /// - Returns: With TLS, those whose bytes of the socket are known by now.
    private mutating func place(_ found: consuming [Report.Record], isLast: Bool = false) -> [Report.Record] {
        var records = found
        if let account {
            for record in records {
                if case .request = record, self.routes != nil {
                    account.take(placed: record)
                } else {
                    account.take(record)
                }
            }
            records.removeAll(keepingCapacity: true)
            account.report(of: self.http1, isLast: isLast) { records.append($0) }
        }
        self.trial?.take(&records, of: self.http1, isLast: isLast)
        guard records.isEmpty else { return records }
        self.memory = records
        return []
    }
}

extension Array {
    /// Leaves none.
    fileprivate mutating func take() -> Self {
        var taken: Self = []
        swap(&taken, &self)
        return taken
    }
}
