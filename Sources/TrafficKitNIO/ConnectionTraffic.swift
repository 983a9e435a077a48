import NIOCore
import TrafficKit
import TrafficReport

/// The exchanges of one connection, of either version of HTTP, with TLS or without.
///
/// The functions return the records to report. The caller reports them after the function has returned, because an
/// observer may do anything, also use the connection.
struct ConnectionTraffic {
    private let role: Report.Role
    private let reporter: TrafficReporter
    private let routes: TrafficRoutes?
    private var http1: HTTP1Exchanges
    /// For HTTP/1.x with TLS.
    private var account: TLSAccount?
    /// For HTTP/2, in place of `http1` and `account`.
    private var http2: HTTP2Exchanges?
    /// When the TLS handshake of a client's connection ended. 0: unknown.
    var tlsEndedAt: UInt64 = 0 {
        didSet {
            self.http1.tlsEndedAt = self.tlsEndedAt
            self.http2?.tlsEndedAt = self.tlsEndedAt
        }
    }
    /// The process had sent nothing before. `false`: it had sent something, or that is unknown.
    private let isFromStart: Bool
    private var writes = PendingWrites()
    /// For a connection that was joined late.
    private var trial: LateTrial?
    /// An empty array, whose memory the next records reuse.
    private var memory: [Report.Record] = []

    /// - Parameters:
    ///   - hasTLS: The bytes are then plaintext, and the caller passes the ciphertext separately.
    ///   - socket: The state of the socket before the first byte.
    ///   - isLate: Requests and responses have passed before, and were not counted.
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

    /// The connection speaks HTTP/2 from here on, and has spoken nothing else.
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

    /// The connection was joined late, and the place of the join can't be right.
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

    /// Bytes that are on their way to the TLS handler, or that another channel has taken.
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
            // This process can't look into the bytes of the file.
            let count = UInt64(region.readableBytes)
            if let http2 { return http2.sentUnseen(count, at: time) { records.append($0) } }
            self.account?.sent(plaintext: count)
            self.http1.sentUnseen(count, at: time, &records)
        }
    }

    /// Ciphertext that is on its way to the TLS handler.
    mutating func received(ciphertext bytes: Span<UInt8>) {
        self.http2?.received(ciphertext: bytes)
        self.account?.received(ciphertext: bytes)
    }

    /// Ciphertext that the kernel has taken. The plaintext in it was passed to `sent(_:at:)` before.
    mutating func sent(ciphertext bytes: Span<UInt8>) -> [Report.Record] {
        var records = self.memory.take()
        self.account?.sent(ciphertext: bytes)
        self.http2?.sent(ciphertext: bytes) { records.append($0) }
        return self.place(records)
    }

    /// - Parameters:
    ///   - ending: How exchanges end that are not over.
    ///   - isCut: The other side has not announced the end of its data, as TLS demands.
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

    // For a connection without TLS, on a channel that tells how many written bytes it has left.

    /// The channel was told to send something, and has not said that all of it was sent.
    var isOwed: Bool { self.writes.flushedBytes > 0 }

    /// Some written bytes were not flushed.
    var hasUnflushed: Bool { !self.writes.isFlushed }

    mutating func written(_ part: IOData) { self.writes.append(part) }

    mutating func flush() { self.writes.flush() }

    /// Drops the earlier writes: no message gets them.
    mutating func forgetWrites() { self.writes = PendingWrites() }

    /// The kernel has taken all written bytes except the last `buffered` ones.
    mutating func taken(leaving buffered: Int, at time: UInt64) -> [Report.Record] {
        var records = self.memory.take()
        // Swapped out, because `count` changes other properties of `self` meanwhile.
        var writes = PendingWrites()
        swap(&writes, &self.writes)
        writes.take(leaving: buffered) { self.count(sent: $0, time, &records) }
        swap(&writes, &self.writes)
        return self.place(records)
    }

    // MARK: Reports

    /// - Parameter records: Returned and reported records. Their memory is reused.
    mutating func reuse(_ records: consuming [Report.Record]) {
        records.removeAll(keepingCapacity: true)
        self.memory = records
    }

    /// - Parameters:
    ///   - found: Records of messages in the bytes that have passed.
    ///   - isLast: Nothing comes after these records.
    /// - Returns: The records to report. With TLS, only records whose bytes on the socket are known by now.
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
    /// Takes all elements and leaves an empty array.
    fileprivate mutating func take() -> Self {
        var taken: Self = []
        swap(&taken, &self)
        return taken
    }
}
