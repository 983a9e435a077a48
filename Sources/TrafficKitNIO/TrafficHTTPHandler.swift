public import NIOCore
import NIOTLS
public import TrafficKit
import TrafficReport

#if canImport(Glibc)
import Glibc
#endif

/// Counts the HTTP messages of a connection, in the bytes that pass: HTTP/1.x, or HTTP/2 where TLS agrees on that (ALPN) or it is said so.
///
/// Without TLS it belongs at the head of the pipeline; with TLS behind the TLS handler, and a ``TrafficTLSHandler`` at the head: messages
/// are then reported with their bytes of the socket. `channel.pipeline.syncOperations.addTrafficHandlers(role:)` puts them there: in a
/// bootstrap's initializer, or between two messages, which is where the kernel says that the socket's streams are. They hand on everything
/// as it is. What is sent counts when the kernel has taken it.
public final class TrafficHTTPHandler: ChannelDuplexHandler, RemovableChannelHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = IOData
    public typealias OutboundOut = IOData

    /// Which side of the connection this process is.
    public enum Role: Sendable {
        case client, server

        var reported: Report.Role { self == .client ? .client : .server }
    }

    /// What a connection speaks.
    public enum Version: Sendable {
        /// HTTP/1.x, unless TLS agrees on HTTP/2 later.
        case http1
        /// From here on: both sides know, or have agreed on it.
        case http2
    }

    private let role: Role
    private let monitor: TrafficMonitor
    private let version: Version
    private var exchanges: HTTP1Exchanges
    /// Of a connection with TLS.
    private var account: TLSAccount?
    /// In place of both.
    private var http2: HTTP2Exchanges?
    private let tls: TrafficTLSHandler?
    private var routed: RoutedRecords?
    private var error: (any Error)?

    /// - Parameters:
    ///   - role: Whether requests go out or come in here.
    ///   - version: What the connection speaks.
    ///   - monitor: What it tells. While that is stopped nothing is reported.
    ///   - tls: At the head of the same pipeline, of a connection with TLS.
    ///   - routes: What a server's router calls the requests of this connection.
    public init(
        role: Role,
        version: Version = .http1,
        monitor: TrafficMonitor = .shared,
        tls: TrafficTLSHandler? = nil,
        routes: TrafficRoutes? = nil
    ) {
        self.monitor = monitor
        self.role = role
        self.version = version
        self.tls = tls
        self.routed = routes.map { RoutedRecords($0) }
        (self.exchanges, self.account) = Self.begin(role, monitor, tls, routes, SocketFacts())
    }

    private static func begin(
        _ role: Role,
        _ monitor: TrafficMonitor,
        _ tls: TrafficTLSHandler?,
        _ routes: TrafficRoutes?,
        _ socket: SocketFacts
    ) -> (HTTP1Exchanges, TLSAccount?) {
        let exchanges = HTTP1Exchanges(
            role: role.reported,
            cookie: socket.cookie,
            // With TLS these are positions in the plaintext, which begins here.
            sent: tls == nil ? socket.sentBytes : 0,
            received: tls == nil ? socket.receivedBytes : 0,
            makeExchange: {
                let exchange = monitor.makeExchange()
                routes?.began(exchange: exchange)
                return exchange
            },
            naming: { host, target in monitor.name(host: host, target: target) }
        )
        let account = TLSAccount(role: role.reported, sent: socket.sentBytes, received: socket.receivedBytes)
        return (exchanges, tls == nil ? nil : account)
    }

    public func handlerAdded(context: ChannelHandlerContext) {
        let socket = SocketFacts(of: context)
        (self.exchanges, self.account) = Self.begin(self.role, self.monitor, self.tls, self.routed?.routes, socket)
        if self.version == .http2 { self.beginHTTP2(socket) }
        self.tls?.plaintext = self
    }

    private func beginHTTP2(_ socket: SocketFacts) {
        let (monitor, routes) = (self.monitor, self.routed?.routes)
        self.http2 = HTTP2Exchanges(
            role: self.role.reported,
            cookie: socket.cookie,
            sent: socket.sentBytes,
            received: socket.receivedBytes,
            tls: self.account,
            makeExchange: { stream in
                let exchange = monitor.makeExchange()
                routes?.began(exchange: exchange, stream: Int(stream))
                return exchange
            },
            naming: { host, target in monitor.name(host: host, target: target) }
        )
        self.account = nil
    }

    /// The handshake is over, and nothing of what was agreed on has passed.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated?) = event as? TLSUserEvent, negotiated == "h2", self.http2 == nil {
            self.beginHTTP2(SocketFacts(of: context))
        }
        context.fireUserInboundEventTriggered(event)
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        self.close()
    }

    // MARK: Bytes

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = Self.unwrapInboundIn(data)
        defer { context.fireChannelRead(data) }
        if let http2 = self.http2 {
            return self.collecting { http2.received(buffer.readableBytesUInt8Span, at: TrafficClock.nanoseconds(), $0) }
        }
        self.account?.received(plaintext: UInt64(buffer.readableBytes))
        self.reporting { exchanges, report in
            exchanges.received(buffer.readableBytesUInt8Span, at: TrafficClock.nanoseconds(), report)
        }
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = Self.unwrapOutboundIn(data)
        let sent = context.eventLoop.makePromise(of: Void.self)
        let handler = NIOLoopBound((self, part), eventLoop: context.eventLoop)
        sent.futureResult.whenSuccess {
            let (handler, part) = handler.value
            handler.sent(part)
        }
        // After us: whoever waits for it may close the connection, which is the end of what counts.
        sent.futureResult.cascade(to: promise)
        context.write(data, promise: sent)
    }

    private func sent(_ part: IOData) {
        let time = TrafficClock.nanoseconds()
        if let http2 = self.http2 {
            // Frames are buffers: no library sends a file as a part of one.
            guard case .byteBuffer(let buffer) = part else { return }
            return self.collecting { http2.sent(buffer.readableBytesUInt8Span, at: time, $0) }
        }
        self.account?.sent(plaintext: UInt64(part.readableBytes))
        self.reporting { exchanges, report in
            switch part {
            case .byteBuffer(let buffer): exchanges.sent(buffer.readableBytesUInt8Span, at: time, report)
            case .fileRegion(let region): exchanges.sentUnseen(UInt64(region.readableBytes), at: time, report)
            }
        }
    }

    /// Reports what `body` makes of bytes: at once where nothing has to be added to it.
    private func reporting(_ body: (inout HTTP1Exchanges, (Report.Record) -> Void) -> Void) {
        let monitor = self.monitor
        guard self.account != nil || self.routed != nil else { return body(&self.exchanges) { monitor.report($0) } }
        var records: [Report.Record] = []
        body(&self.exchanges) { records.append($0) }
        if self.account != nil || !records.isEmpty { self.report(records) }
    }

    private func collecting(_ body: ((Report.Record) -> Void) -> Void) {
        var records: [Report.Record] = []
        body { records.append($0) }
        if !records.isEmpty { self.deliver(records) }
    }

    /// It is on its way to the TLS handler.
    func received(ciphertext buffer: ByteBuffer) {
        self.http2?.received(ciphertext: buffer.readableBytesUInt8Span)
        self.account?.received(ciphertext: buffer.readableBytesUInt8Span)
    }

    /// The kernel has it, and all writes that are in it are done.
    func sent(ciphertext buffer: ByteBuffer) {
        if let http2 = self.http2 {
            return self.collecting { http2.sent(ciphertext: buffer.readableBytesUInt8Span, $0) }
        }
        self.account?.sent(ciphertext: buffer.readableBytesUInt8Span)
        self.report([])
    }

    private func report(_ records: [Report.Record], isLast: Bool = false) {
        var placed = records
        if self.account != nil {
            placed = []
            for record in records { self.account?.take(record) }
            self.account?.report(of: self.exchanges, isLast: isLast) { placed.append($0) }
        }
        self.deliver(placed)
    }

    private func deliver(_ records: [Report.Record]) {
        let monitor = self.monitor
        guard self.routed != nil else {
            for record in records { monitor.report(record) }
            return
        }
        self.routed?.release { monitor.report($0) }
        for record in records { self.routed?.pass(record) { monitor.report($0) } }
    }

    // MARK: End

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // A TLS handler misses its end of the stream after a reset: that is not why.
        if !(self.error is IOError) { self.error = error }
        context.fireErrorCaught(error)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.close()
        context.fireChannelInactive()
    }

    private func close() {
        let ending = self.ending
        if let http2 = self.http2 {
            return self.collecting { http2.close(ending, at: TrafficClock.nanoseconds(), $0) }
        }
        var records: [Report.Record] = []
        self.exchanges.close(ending, at: TrafficClock.nanoseconds()) { records.append($0) }
        self.report(records, isLast: true)
        self.account = nil
    }

    /// Of exchanges that are not over.
    private var ending: Report.Ending {
        guard let error = self.error as? IOError else { return .truncated }
        return switch error.errnoCode {
        case ECONNRESET, EPIPE: .reset
        case ECONNREFUSED: .refused
        case ETIMEDOUT: .timeout
        default: .truncated
        }
    }
}
