import NIOCore
import TrafficKit
import TrafficReport

/// The exchanges of one connection, of either version of HTTP, with TLS or without.
///
/// The functions gather records. The caller reports them after the function has returned, because an observer may do
/// anything, also use the connection.
struct ConnectionTraffic {
    private final class HTTP2 {
        var exchanges: HTTP2Exchanges

        init(_ exchanges: HTTP2Exchanges) { self.exchanges = exchanges }
    }

    private let role: Report.Role
    private let reporter: TrafficReporter
    private let routes: TrafficRoutes?
    private var http1: HTTP1Exchanges
    /// In place of `http1`. An object, so that other connections do not have its memory.
    private var http2: HTTP2?
    /// When the TLS handshake of a client's connection ended. 0: unknown.
    var tlsEndedAt: UInt64 = 0 {
        didSet {
            self.http1.tlsEndedAt = self.tlsEndedAt
            self.http2?.exchanges.tlsEndedAt = self.tlsEndedAt
        }
    }
    /// The process had sent nothing before. `false`: it had sent something, or that is unknown.
    private let isFromStart: Bool
    private let hasTLS: Bool
    /// Without TLS what the kernel has not taken yet. With TLS the plaintext whose ciphertext it has not taken.
    private var writes = PendingWrites()
    /// With TLS: flushed plaintext that the TLS handler has encrypted.
    private var encryptedBytes = 0
    /// With TLS: plaintext whose ciphertext the kernel has taken, but whose place is not known yet.
    private var unplacedBytes = 0
    /// For a connection that was joined late.
    private var trial: LateTrial?
    /// Records to report, in this order.
    private var records: [Report.Record] = []

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
        self.role = role
        self.reporter = reporter
        self.routes = routes
        self.hasTLS = hasTLS
        self.isFromStart = socket.isFresh
        var (sent, received) = (SocketStream(base: socket.sentBytes), SocketStream(base: socket.receivedBytes))
        if hasTLS {
            // The plaintext begins here.
            sent = SocketStream(tls: TLSStream(position: socket.sentBytes, by: .thisProcess))
            let peer: TLSStream.Maker = role == .client ? .peerServer : .peerClient
            received = SocketStream(tls: TLSStream(position: socket.receivedBytes, by: peer))
        }
        self.http1 = HTTP1Exchanges(
            role: role,
            cookie: socket.cookie,
            sent: sent,
            received: received,
            routes: routes,
            naming: reporter
        )
        self.http1.isFromStart = self.isFromStart
    }

    /// The connection speaks HTTP/2 from here on, and has spoken nothing else.
    mutating func becomeHTTP2(_ socket: SocketFacts) {
        guard self.http2 == nil else { return }
        var exchanges = HTTP2Exchanges(
            role: self.role,
            cookie: socket.cookie,
            sent: self.hasTLS ? self.http1.withStream(.sent) { $0 } : SocketStream(base: socket.sentBytes),
            received: self.hasTLS ? self.http1.withStream(.received) { $0 } : SocketStream(base: socket.receivedBytes),
            routes: self.routes,
            naming: self.reporter
        )
        exchanges.tlsEndedAt = self.tlsEndedAt
        exchanges.isFromStart = self.isFromStart
        self.http2 = HTTP2(exchanges)
    }

    /// The connection was joined late, and the place of the join can't be right.
    var isOutOfStep: Bool { self.trial?.hasFailed == true }

    private mutating func withStream<Result>(_ side: Side, _ body: (inout SocketStream) -> Result) -> Result {
        self.http2?.exchanges.withStream(side, body) ?? self.http1.withStream(side, body)
    }

    // MARK: Received

    /// - Returns: Whether there is something to report. The same holds for the functions below.
    mutating func received(_ bytes: Span<UInt8>, at time: UInt64) -> Bool {
        if self.hasTLS {
            self.withStream(.received) {
                $0.tls?.passed(plaintext: UInt64(bytes.count))
                $0.tls?.settle()
            }
        }
        if self.http2 == nil {
            if self.role == .server { self.trial?.goesOn(self.http1) }
            self.http1.received(bytes, at: time, tellsOpen: self.trial != nil, &self.records)
            self.tryOut()
        } else {
            self.http2!.exchanges.received(bytes, at: time, tellsOpen: false, &self.records)
        }
        return self.hasNews
    }

    /// Ciphertext that is on its way to the TLS handler.
    mutating func received(ciphertext bytes: Span<UInt8>) {
        self.withStream(.received) { $0.tls?.passed(ciphertext: bytes) }
    }

    // MARK: Sent

    /// The channel was told to send something, and has not said that all of it was sent.
    var isOwed: Bool { self.writes.flushedBytes > 0 }

    /// Some written bytes were not flushed.
    var hasUnflushed: Bool { !self.writes.isFlushed }

    mutating func written(_ part: IOData) { self.writes.append(part) }

    /// - Returns: As ``isOwed``.
    mutating func flush() -> Bool {
        self.writes.flush()
        return self.isOwed
    }

    /// Drops the earlier writes: no message gets them.
    mutating func forgetWrites() {
        (self.writes, self.encryptedBytes, self.unplacedBytes) = (PendingWrites(), 0, 0)
    }

    /// Without TLS: the kernel has taken all written bytes except the last `buffered` ones.
    mutating func taken(leaving buffered: Int, at time: UInt64) -> Bool {
        // Out of `self`, because `count` changes other properties of `self` meanwhile.
        var writes = PendingWrites()
        swap(&writes, &self.writes)
        writes.take(leaving: buffered) { self.count(sent: $0, time) }
        swap(&writes, &self.writes)
        self.tryOut()
        return self.hasNews
    }

    /// The TLS handler has flushed ciphertext: all plaintext that was flushed is in it, or in what it wrote before.
    ///
    /// - Returns: Bytes of plaintext that no earlier ciphertext had.
    mutating func encrypted() -> Int {
        defer { self.encryptedBytes = self.writes.flushedBytes }
        return self.writes.flushedBytes - self.encryptedBytes
    }

    /// The kernel has taken ciphertext.
    ///
    /// - Parameter plaintext: Bytes of plaintext in it, as ``encrypted()`` said.
    mutating func sent(ciphertext bytes: Span<UInt8>, plaintext: Int, at time: UInt64) -> Bool {
        let (version, isSettled) = self.withStream(.sent) { stream in
            stream.tls?.passed(plaintext: UInt64(plaintext))
            stream.tls?.passed(ciphertext: bytes)
            stream.tls?.settle()
            return (stream.tls?.version, stream.isSettled)
        }
        if let version { self.withStream(.received) { $0.tls?.learn(version) } }
        self.encryptedBytes -= plaintext
        self.unplacedBytes += plaintext
        if isSettled { self.place(at: time) }
        return self.hasNews
    }

    /// Counts the plaintext whose ciphertext has gone.
    private mutating func place(at time: UInt64) {
        var writes = PendingWrites()
        swap(&writes, &self.writes)
        writes.take(self.unplacedBytes) { self.count(sent: $0, time) }
        swap(&writes, &self.writes)
        self.unplacedBytes = 0
        self.tryOut()
    }

    /// Counts bytes that another channel has taken.
    mutating func sent(_ part: IOData, at time: UInt64) -> Bool {
        self.count(sent: part, time)
        self.tryOut()
        return self.hasNews
    }

    private mutating func count(sent part: borrowing IOData, _ time: UInt64) {
        switch part {
        case .byteBuffer(let buffer):
            let bytes = buffer.readableBytesUInt8Span
            guard self.http2 == nil else {
                return self.http2!.exchanges.sent(bytes, at: time, tellsOpen: false, &self.records)
            }
            if self.role == .client { self.trial?.goesOn(self.http1) }
            self.http1.sent(bytes, at: time, tellsOpen: self.trial != nil, &self.records)
        case .fileRegion(let region):
            // This process can't look into the bytes of the file.
            let count = UInt64(region.readableBytes)
            guard self.http2 == nil else { return self.http2!.exchanges.sentUnseen(count, at: time, &self.records) }
            self.http1.sentUnseen(count, at: time, &self.records)
        }
    }

    // MARK: Exchanges that go on

    /// Messages have ended that are not told, because their exchange goes on.
    var isTellable: Bool {
        mutating get { self.http2?.exchanges.isTellable ?? self.http1.isTellable }
    }

    mutating func tellOpen() -> Bool {
        if self.http2 == nil {
            self.http1.tellOpen(&self.records)
        } else {
            self.http2!.exchanges.tellOpen(&self.records)
        }
        self.tryOut()
        return self.hasNews
    }

    // MARK: End

    /// - Parameters:
    ///   - ending: How exchanges end that are not over.
    ///   - isCut: The other side has not announced the end of its data, as TLS demands.
    mutating func close(_ ending: Report.Ending, isCut: Bool, at time: UInt64) -> Bool {
        if self.unplacedBytes > 0 { self.place(at: time) }
        if self.http2 != nil {
            self.http2!.exchanges.close(ending, at: time, &self.records)
        } else {
            self.trial?.goesOn(self.http1)
            self.http1.close(ending, isCut: isCut, at: time, &self.records)
        }
        self.tryOut(isLast: true)
        return self.hasNews
    }

    /// - Parameter isLast: Nothing comes after these records.
    private mutating func tryOut(isLast: Bool = false) {
        self.trial?.take(&self.records, of: self.http1, isLast: isLast)
    }

    // MARK: Records

    /// There are records, or the connection is out of step.
    private var hasNews: Bool { !self.records.isEmpty || self.trial != nil && self.isOutOfStep }

    mutating func takeRecords() -> [Report.Record] {
        var records: [Report.Record] = []
        swap(&records, &self.records)
        return records
    }

    /// - Parameter records: Reported records. Their memory is reused.
    mutating func reuse(_ records: consuming [Report.Record]) {
        guard self.records.isEmpty else { return }
        records.removeAll(keepingCapacity: true)
        self.records = records
    }
}
