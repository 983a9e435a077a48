import NIOCore
import TrafficKit
import TrafficReport

/// The exchanges of one connection, of either version of HTTP, with TLS or without.
///
/// The functions report what they find, and return what is left for the caller to do. Where code of the app may run (an
/// observer, or the release of a run that ended), the caller reports after the function has returned, because that code
/// may do anything, also use the connection.
struct ConnectionTraffic {
    /// What the caller is to do.
    struct Actions: OptionSet {
        let rawValue: UInt8

        /// There are records to report (``ConnectionTraffic/takeRecords()``).
        static let report = Actions(rawValue: 1 << 0)
        /// Messages have ended that are not told, because their exchange goes on. They are to be told in a while.
        static let tellLater = Actions(rawValue: 1 << 1)
        /// The connection was joined late, and the place of the join can't be right: stop counting.
        static let leave = Actions(rawValue: 1 << 2)
        /// The kernel has not taken all that was flushed.
        static let await = Actions(rawValue: 1 << 3)
    }

    private final class HTTP2 {
        var exchanges: HTTP2Exchanges

        init(_ exchanges: HTTP2Exchanges) { self.exchanges = exchanges }
    }

    private let role: Report.Role
    private let reporter: TrafficReporter
    private var http1: HTTP1Exchanges
    /// In place of `http1`. An object, so that other connections do not have its memory.
    private var http2: HTTP2?
    /// When the TLS handshake of a client's connection ended. 0: unknown.
    var tlsEndedAt: UInt64 {
        get { self.http1.start.tlsEndedAt }
        set {
            self.http1.start.tlsEndedAt = newValue
            self.http2?.exchanges.start.tlsEndedAt = newValue
        }
    }
    private let hasTLS: Bool
    /// Without TLS: what the channel has left.
    var queue = ChannelQueue()
    /// What was written and has not been counted.
    private var writes = PendingWrites()
    /// For a connection that was joined late.
    private var trial: LateTrial?
    /// Records to report.
    private var records = RecordBatch()

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
        (self.role, self.reporter) = (role, reporter)
        self.hasTLS = hasTLS
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
        self.http1.start.isFromStart = socket.isFresh
    }

    /// The connection speaks HTTP/2 from here on, and has spoken nothing else.
    mutating func becomeHTTP2(_ socket: SocketFacts) {
        guard self.http2 == nil else { return }
        var exchanges = HTTP2Exchanges(
            role: self.role,
            cookie: socket.cookie,
            sent: self.hasTLS ? self.http1.stream(.sent) : SocketStream(base: socket.sentBytes),
            received: self.hasTLS ? self.http1.stream(.received) : SocketStream(base: socket.receivedBytes),
            routes: self.http1.routes,
            naming: self.reporter
        )
        exchanges.start = self.http1.start
        self.http2 = HTTP2(exchanges)
    }

    /// - Returns: `nil`: the connection has no TLS.
    @discardableResult
    private mutating func withTLS<Result>(_ side: Side, _ body: (inout TLSStream) -> Result) -> Result? {
        let stream = self.http2?.exchanges.stream(side) ?? self.http1.stream(side)
        return stream.tls?.with(body)
    }

    // MARK: Received

    mutating func received(_ bytes: Span<UInt8>, at time: UInt64) -> Actions {
        // The sent bytes count before the answer to them.
        _ = self.settle()
        if self.hasTLS {
            self.withTLS(.received) { tls in
                tls.passed(plaintext: UInt64(bytes.count))
                tls.settle()
            }
        }
        if self.http2 != nil {
            self.http2!.exchanges.received(bytes, at: time, tellsOpen: false, &self.records)
        } else {
            if self.role == .server { self.trial?.goesOn(self.http1) }
            self.http1.received(bytes, at: time, tellsOpen: self.trial != nil, &self.records)
        }
        return self.actions()
    }

    /// Ciphertext that is on its way to the TLS handler.
    mutating func received(ciphertext bytes: Span<UInt8>) {
        self.withTLS(.received) { $0.passed(ciphertext: bytes) }
    }

    // MARK: Sent

    /// How a write is counted.
    enum Counting {
        /// When the kernel has taken the bytes, as the channel or the TLS handler tells.
        case later
        /// The channel can't tell, so the caller must tell it (``sent(_:at:)``).
        case byCaller
        /// Not at all: the program has closed its side, and the write fails.
        case never
    }

    mutating func written(_ part: IOData) -> Counting {
        if self.queue.isClosing { return .never }
        guard self.queue.isAsked || self.hasTLS else { return .byCaller }
        self.writes.append(part)
        return .later
    }

    mutating func flush() { self.writes.flush() }

    /// Drops the earlier writes: no message gets them.
    mutating func forgetWrites() { self.writes = PendingWrites() }

    /// Some flushed bytes are left. To wait for them would also send bytes that the program has not flushed, and only
    /// the program may do that.
    var awaitsKernel: Bool { self.writes.isOwed && self.writes.isFlushed && self.queue.isAsked }

    /// The channel was told to send something that has not been counted.
    var isOwed: Bool { self.writes.isOwed }

    /// Counts what the kernel has taken.
    mutating func settle() -> Actions {
        guard self.isOwed, let buffered = self.queue.buffered else { return [] }
        self.count(self.writes.bytes - buffered)
        return self.awaitsKernel ? self.actions().union(.await) : self.actions()
    }

    /// Counts bytes that another channel has taken.
    mutating func sent(_ part: IOData, at time: UInt64) -> Actions {
        self.continueTrial()
        if let http2 {
            http2.exchanges.sent(part, at: time, tellsOpen: false, &self.records)
        } else {
            self.http1.sent(part, at: time, tellsOpen: self.trial != nil, &self.records)
        }
        return self.actions()
    }

    /// - Returns: Bytes of flushed plaintext that were not in earlier ciphertext.
    mutating func encrypted() -> Int { self.writes.encrypt() }

    /// The kernel has taken ciphertext.
    ///
    /// - Parameter plaintext: Bytes of plaintext in it, as ``encrypted()`` said.
    mutating func sent(ciphertext bytes: Span<UInt8>, plaintext: Int) -> Actions {
        let sent = self.withTLS(.sent) { tls in
            tls.passed(plaintext: UInt64(plaintext))
            tls.passed(ciphertext: bytes)
            tls.settle()
            return (version: tls.version, isSettled: tls.isSettled)
        }
        guard let sent else { return [] }
        self.withTLS(.received) { $0.learn(sent.version) }
        self.writes.sent(encrypted: plaintext)
        guard sent.isSettled else { return [] }
        self.count(self.writes.unplacedBytes)
        return self.actions()
    }

    /// Counts the oldest bytes that were written. With TLS they have their place.
    private mutating func count(_ bytes: Int) {
        guard bytes > 0 else { return }
        let time = TrafficClock.nanoseconds()
        self.continueTrial()
        if let http2 {
            http2.exchanges.sent(bytes, of: &self.writes, at: time, tellsOpen: false, &self.records)
        } else {
            self.http1.sent(bytes, of: &self.writes, at: time, tellsOpen: self.trial != nil, &self.records)
        }
    }

    /// A request of a client may go on or begin in the bytes that have been sent.
    private mutating func continueTrial() {
        if self.role == .client { self.trial?.goesOn(self.http1) }
    }

    // MARK: End

    /// Tells the messages that have ended, of exchanges that go on.
    mutating func tellOpen() -> Actions {
        if self.http2 != nil {
            self.http2!.exchanges.tellOpen(&self.records)
        } else {
            self.http1.tellOpen(&self.records)
        }
        return self.actions()
    }

    /// - Parameters:
    ///   - ending: How exchanges end that are not over.
    ///   - isCut: The other side has not announced the end of its data, as TLS demands.
    mutating func close(_ ending: Report.Ending, isCut: Bool, at time: UInt64) -> Actions {
        // No more ciphertext comes that would tell the place of this plaintext.
        self.count(self.writes.unplacedBytes)
        if self.http2 != nil {
            self.http2!.exchanges.close(ending, at: time, &self.records)
        } else {
            self.trial?.goesOn(self.http1)
            self.http1.close(ending, isCut: isCut, at: time, &self.records)
        }
        return self.actions(isLast: true)
    }

    // MARK: Records

    /// - Parameter isLast: Nothing comes after these records.
    @inline(__always)
    private mutating func actions(isLast: Bool = false) -> Actions {
        if self.trial != nil {
            self.trial!.take(&self.records, of: self.http1, isLast: isLast)
            if self.trial!.hasFailed { return .leave }
        }
        let isTellable = self.http2 == nil ? self.http1.isTellable : self.http2!.exchanges.isTellable
        if !self.records.isEmpty, self.reporter.reportIfUnobserved(self.records) { self.records.removeAll() }
        let actions: Actions = self.records.isEmpty ? [] : .report
        return isTellable ? actions.union(.tellLater) : actions
    }

    /// The memory goes with the records, so a connection that is observed allocates with each report.
    mutating func takeRecords() -> RecordBatch {
        defer { self.records = RecordBatch() }
        return self.records
    }
}

extension MessageExchanges {
    /// Counts the oldest bytes that were written. For all of them together, because each look into a connection of
    /// HTTP/2, which is an object, costs as much as many bytes.
    @inline(__always)  // Otherwise the compiler leaves the closure generic.
    fileprivate mutating func sent(
        _ count: Int,
        of writes: inout PendingWrites,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        writes.take(count) { self.sent($0, at: time, tellsOpen: tellsOpen, &found) }
    }

    @inline(__always)
    fileprivate mutating func sent(
        _ part: borrowing IOData,
        at time: UInt64,
        tellsOpen: Bool,
        _ found: inout RecordBatch
    ) {
        switch part {
        case .byteBuffer(let buffer):
            self.sent(buffer.readableBytesUInt8Span, at: time, tellsOpen: tellsOpen, &found)
        // This process can't look into the bytes of the file.
        case .fileRegion(let region): self.sentUnseen(UInt64(region.readableBytes), at: time, &found)
        }
    }
}
