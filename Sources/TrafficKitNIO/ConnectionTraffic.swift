import NIOCore
import TrafficKit
import TrafficReport

/// The exchanges of one connection, of either version of HTTP, with TLS or without.
///
/// What there is to report waits until it is taken: whoever observes it may do anything, also with the connection.
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
    /// What is to be reported.
    private var records: [Report.Record] = []

    /// - Parameters:
    ///   - hasTLS: Bytes are then those of the plaintext, and the ciphertext's come beside them.
    ///   - socket: As it was before the first byte.
    init(
        role: Report.Role,
        reporter: TrafficReporter,
        routes: TrafficRoutes?,
        hasTLS: Bool,
        socket: SocketFacts
    ) {
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
            makeExchange: { reporter.makeExchange() },
            naming: { reporter.name(of: $0) }
        )
        self.http1.isFromStart = self.isFromStart
    }

    /// It speaks HTTP/2 from here on, and has spoken nothing else.
    mutating func becomeHTTP2(_ socket: SocketFacts) {
        guard self.http2 == nil else { return }
        let reporter = self.reporter
        self.http2 = HTTP2Exchanges(
            role: self.role,
            cookie: socket.cookie,
            sent: socket.sentBytes,
            received: socket.receivedBytes,
            tls: self.account,
            routes: self.routes,
            makeExchange: { reporter.makeExchange() },
            naming: { reporter.name(of: $0) }
        )
        self.http2?.tlsEndedAt = self.tlsEndedAt
        self.http2?.isFromStart = self.isFromStart
        self.account = nil
    }

    // MARK: Bytes

    mutating func received(_ bytes: Span<UInt8>, at time: UInt64) {
        var records = self.begin()
        if let http2 {
            http2.received(bytes, at: time) { records.append($0) }
        } else {
            self.account?.received(plaintext: UInt64(bytes.count))
            self.http1.received(bytes, at: time) { records.append($0) }
        }
        self.keep(&records)
    }

    /// The kernel has taken them, or with TLS they are on their way to it.
    mutating func sent(_ bytes: Span<UInt8>, at time: UInt64) {
        var records = self.begin()
        if let http2 {
            http2.sent(bytes, at: time) { records.append($0) }
        } else {
            self.account?.sent(plaintext: UInt64(bytes.count))
            self.http1.sent(bytes, at: time) { records.append($0) }
        }
        self.keep(&records)
    }

    /// The same of bytes that nobody can look into. No library sends a file as a part of an HTTP/2 frame.
    mutating func sentUnseen(_ count: UInt64, at time: UInt64) {
        guard self.http2 == nil else { return }
        var records = self.begin()
        self.account?.sent(plaintext: count)
        self.http1.sentUnseen(count, at: time) { records.append($0) }
        self.keep(&records)
    }

    /// They are on their way to the TLS handler.
    mutating func received(ciphertext bytes: Span<UInt8>) {
        self.http2?.received(ciphertext: bytes)
        self.account?.received(ciphertext: bytes)
    }

    /// The kernel has them, and all that is in them was sent.
    mutating func sent(ciphertext bytes: Span<UInt8>) {
        var records = self.begin()
        self.account?.sent(ciphertext: bytes)
        self.http2?.sent(ciphertext: bytes) { records.append($0) }
        self.keep(&records)
    }

    /// - Parameters:
    ///   - ending: Of exchanges that are not over.
    ///   - isCut: The other side has not said that this is the end, as TLS asks for.
    mutating func close(_ ending: Report.Ending, isCut: Bool, at time: UInt64) {
        var records = self.begin()
        if let http2 {
            http2.close(ending, at: time) { records.append($0) }
        } else {
            self.http1.close(ending, isCut: isCut, at: time) { records.append($0) }
        }
        self.keep(&records, isLast: true)
        self.account = nil
    }

    // MARK: Reports

    var hasRecords: Bool { !self.records.isEmpty }

    mutating func takeRecords() -> [Report.Record] { self.records.take() }

    /// - Parameter records: That were taken, for their memory.
    mutating func reuse(_ records: consuming [Report.Record]) {
        guard self.records.isEmpty else { return }
        records.removeAll(keepingCapacity: true)
        self.records = records
    }

    /// Where new records go: with TLS those that wait have their place already.
    private mutating func begin() -> [Report.Record] { self.account == nil ? self.records.take() : [] }

    /// - Parameters:
    ///   - records: What ``begin()`` has given, and the new ones.
    ///   - isLast: Nothing comes after it.
    private mutating func keep(_ records: inout [Report.Record], isLast: Bool = false) {
        guard let account else { return swap(&records, &self.records) }
        self.place(&records, account, isLast: isLast)
        self.records += records
    }

    /// Of messages in the plaintext, those whose bytes of the socket are known by now.
    private func place(_ records: inout [Report.Record], _ account: TLSAccount, isLast: Bool) {
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
}

extension Array {
    /// Leaves none.
    fileprivate mutating func take() -> Self {
        var taken: Self = []
        swap(&taken, &self)
        return taken
    }
}
