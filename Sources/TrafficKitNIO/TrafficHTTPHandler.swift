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
    private let reporter: TrafficReporter
    private let version: Version
    private var exchanges: HTTP1Exchanges
    /// Of a connection with TLS.
    private var account: TLSAccount?
    /// In place of both.
    private var http2: HTTP2Exchanges?
    private let tls: TrafficTLSHandler?
    private let routes: TrafficRoutes?
    /// Empty between two calls; keeps its memory.
    private var records: [Report.Record] = []
    private var error: (any Error)?
    private var isGivenUp = false
    /// The other side sends no more, and the channel lives on: half-closed.
    private var hasEnded = false
    /// Of a connection without TLS, on a channel that tells what it has left of them.
    private var writes = PendingWrites()
    private var asksChannel = false
    private var isWaiting = false

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
        self.reporter = TrafficReporter(monitor)
        self.role = role
        self.version = version
        self.tls = tls
        self.routes = routes
        (self.exchanges, self.account) = Self.begin(role, self.reporter, tls, routes, SocketFacts())
    }

    private static func begin(
        _ role: Role,
        _ reporter: TrafficReporter,
        _ tls: TrafficTLSHandler?,
        _ routes: TrafficRoutes?,
        _ socket: SocketFacts,
        placing: ((Report.Message) -> Report.Message)? = nil
    ) -> (HTTP1Exchanges, TLSAccount?) {
        let exchanges = HTTP1Exchanges(
            role: role.reported,
            cookie: socket.cookie,
            // With TLS these are positions in the plaintext, which begins here.
            sent: tls == nil ? socket.sentBytes : 0,
            received: tls == nil ? socket.receivedBytes : 0,
            routes: routes,
            placing: tls == nil ? nil : placing,
            makeExchange: { reporter.makeExchange() },
            naming: { host, target in reporter.name(host: host, target: target) }
        )
        let account = TLSAccount(role: role.reported, sent: socket.sentBytes, received: socket.receivedBytes)
        return (exchanges, tls == nil ? nil : account)
    }

    public func handlerAdded(context: ChannelHandlerContext) {
        let socket = SocketFacts(of: context)
        (self.exchanges, self.account) = Self.begin(self.role, self.reporter, self.tls, self.routes, socket) {
            [unowned self] in
            self.account?.place(received: $0) ?? $0
        }
        if self.version == .http2 { self.beginHTTP2(socket) }
        // Other channels than those of sockets may not bear to be asked.
        self.asksChannel = self.tls == nil && socket.cookie != 0
        self.tls?.plaintext = self
    }

    private func beginHTTP2(_ socket: SocketFacts) {
        let reporter = self.reporter
        self.http2 = HTTP2Exchanges(
            role: self.role.reported,
            cookie: socket.cookie,
            sent: socket.sentBytes,
            received: socket.receivedBytes,
            tls: self.account,
            routes: self.routes,
            makeExchange: { reporter.makeExchange() },
            naming: { host, target in reporter.name(host: host, target: target) }
        )
        self.account = nil
    }

    /// The handshake is over, and nothing of what was agreed on has passed.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted(let negotiated?) = event as? TLSUserEvent, negotiated == "h2", self.http2 == nil {
            self.beginHTTP2(SocketFacts(of: context))
        }
        if case .inputClosed? = event as? ChannelEvent { self.hasEnded = true }
        context.fireUserInboundEventTriggered(event)
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        self.settle(context)
        self.writes = PendingWrites()
        self.close()
    }

    // MARK: Bytes

    /// What was flushed before there was a connection is on its way by now.
    public func channelActive(context: ChannelHandlerContext) {
        self.settle(context)
        self.awaitRest(context)
        context.fireChannelActive()
    }

    /// Also the last word before the channel closes at the end of the stream.
    public func channelReadComplete(context: ChannelHandlerContext) {
        self.settle(context)
        context.fireChannelReadComplete()
    }

    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.settle(context)
        context.fireChannelWritabilityChanged()
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // Before the answer to it.
        self.settle(context)
        let buffer = Self.unwrapInboundIn(data)
        let time = TrafficClock.nanoseconds()
        if let http2 = self.http2 {
            self.collect { http2.received(buffer.readableBytesUInt8Span, at: time, $0) }
        } else {
            self.account?.received(plaintext: UInt64(buffer.readableBytes))
            self.collect { self.exchanges.received(buffer.readableBytesUInt8Span, at: time, $0) }
        }
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = Self.unwrapOutboundIn(data)
        // The end of a message is nothing to send, often.
        guard part.readableBytes > 0 else { return context.write(data, promise: promise) }
        if self.asksChannel {
            self.writes.append(part)
            return context.write(data, promise: promise)
        }
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess { self.sent([.init(part)]) }
        // After us: whoever waits for it may close the connection, which is the end of what counts.
        if let promise { sent.futureResult.cascade(to: promise) }
        context.write(data, promise: sent)
    }

    public func flush(context: ChannelHandlerContext) {
        self.writes.flush()
        context.flush()
        self.settle(context)
        self.awaitRest(context)
    }

    /// Counts what the kernel has taken.
    private func settle(_ context: ChannelHandlerContext) {
        // A channel that is closed has forgotten what it had left.
        guard self.writes.flushedBytes > 0, let buffered = Self.bufferedBytes(context) else { return }
        let taken = self.writes.take(leaving: buffered)
        if !taken.isEmpty { self.sent(taken) }
    }

    /// - Returns: `nil` of a channel that is closed, or doesn't tell.
    private static func bufferedBytes(_ context: ChannelHandlerContext) -> Int? {
        try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
    }

    /// The socket is full: nothing tells when the kernel takes the rest but a promise behind it.
    private func awaitRest(_ context: ChannelHandlerContext) {
        // Behind what was not flushed it would be flushed along: that is the program's to say.
        guard self.writes.flushedBytes > 0, self.writes.isFlushed, !self.isWaiting, context.channel.isActive else {
            return
        }
        self.isWaiting = true
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            self.isWaiting = false
            self.settle(context)
            self.awaitRest(context)
        }
        context.writeAndFlush(Self.wrapOutboundOut(.byteBuffer(ByteBuffer())), promise: sent)
    }

    private func sent(_ parts: [PendingWrites.Part]) {
        let time = TrafficClock.nanoseconds()
        self.collect { report in
            for part in parts {
                switch part {
                case .bytes(let buffer):
                    if let http2 = self.http2 {
                        http2.sent(buffer.readableBytesUInt8Span, at: time, report)
                    } else {
                        self.account?.sent(plaintext: UInt64(buffer.readableBytes))
                        self.exchanges.sent(buffer.readableBytesUInt8Span, at: time, report)
                    }
                case .unseen(let count) where self.http2 == nil:
                    self.account?.sent(plaintext: UInt64(count))
                    self.exchanges.sentUnseen(UInt64(count), at: time, report)
                case .unseen: break  // no library sends a file as a part of an HTTP/2 frame
                }
            }
        }
    }

    /// It is on its way to the TLS handler.
    func received(ciphertext buffer: ByteBuffer) {
        self.http2?.received(ciphertext: buffer.readableBytesUInt8Span)
        self.account?.received(ciphertext: buffer.readableBytesUInt8Span)
    }

    /// The kernel has it, and all writes that are in it are done.
    func sent(ciphertext buffer: ByteBuffer) {
        self.account?.sent(ciphertext: buffer.readableBytesUInt8Span)
        self.collect { self.http2?.sent(ciphertext: buffer.readableBytesUInt8Span, $0) }
    }

    /// Reports what `body` makes of bytes.
    ///
    /// - Parameter isLast: Nothing comes after it.
    private func collect(isLast: Bool = false, _ body: ((consuming Report.Record) -> Void) -> Void) {
        var records: [Report.Record] = []
        swap(&records, &self.records)
        body { (record: consuming Report.Record) in records.append(record) }
        if self.account != nil {
            // Of messages in the plaintext, those whose bytes of the socket are known by now.
            for record in records {
                if case .request = record, self.routes != nil {
                    self.account?.take(placed: record)
                } else {
                    self.account?.take(record)
                }
            }
            records.removeAll(keepingCapacity: true)
            self.account?.report(of: self.exchanges, isLast: isLast) { records.append($0) }
        }
        if !records.isEmpty {
            self.reporter.report(records)
            records.removeAll(keepingCapacity: true)
        }
        swap(&records, &self.records)
    }

    // MARK: End

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.settle(context)
        // A TLS handler misses its end of the stream after a reset: that is not why.
        if !(self.error is IOError) { self.error = error }
        context.fireErrorCaught(error)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.close()
        context.fireChannelInactive()
    }

    /// The program, or its library, closes the connection.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.settle(context)
        // What is written from now on fails, and is never among what the channel has left.
        if mode != .input { self.asksChannel = false }
        // Not because of an error, nor because there is nothing more to come.
        if mode == .all, self.error == nil, !self.hasEnded { self.isGivenUp = true }
        context.close(mode: mode, promise: promise)
    }

    private func close() {
        let (ending, time) = (self.ending, TrafficClock.nanoseconds())
        self.collect(isLast: true) { report in
            if let http2 = self.http2 {
                http2.close(ending, at: time, report)
            } else {
                self.exchanges.close(ending, at: time, report)
            }
        }
        self.account = nil
    }

    /// Of exchanges that are not over.
    private var ending: Report.Ending {
        guard let error = self.error as? IOError else {
            // A client that does not wait for the rest: its time is up, or its task is cancelled.
            return self.isGivenUp && self.role == .client ? .cancelled : .truncated
        }
        return switch error.errnoCode {
        case ECONNRESET, EPIPE: .reset
        case ECONNREFUSED: .refused
        case ETIMEDOUT: .timeout
        default: .truncated
        }
    }
}
