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
///
/// Where the monitor runs without a listener when this is made, it hands on, and looks for a listener when something comes. Once there is one,
/// a connection of HTTP/1.x is joined where a request begins (``LateJoin``), and what is told of it is `inferred`. One of HTTP/2 is not: what was
/// said of its fields (RFC 7541) can't be made up for.
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

    /// When the connection's TLS handshake was over, of a client; 0: unknown, or there is none. Whoever adds the handler after that has to
    /// say so.
    package var tlsEndedAt: UInt64 {
        get { self.traffic.tlsEndedAt }
        set { self.traffic.tlsEndedAt = newValue }
    }
    let role: Role
    let reporter: TrafficReporter
    private let version: Version
    let tls: TrafficTLSHandler?
    let routes: TrafficRoutes?
    // Left before anybody else is called: to have that checked at each use is a twentieth of all work.
    @exclusivity(unchecked) var traffic: ConnectionTraffic
    /// Somebody listens.
    var isCounted: Bool
    /// Nobody does, yet. `nil`: it is counted, or never will be.
    var join: LateJoin?
    /// Somebody listens by now: what passes is looked at.
    var isLooking = false
    /// Of TLS: records have come since the answer, and what is in them is yet to come.
    var isRecordOpen = false
    /// That were out of step.
    var failedJoins = 0
    private var error: (any Error)?
    private var isGivenUp = false
    /// The other side sends no more, and the channel lives on: half-closed.
    private var hasEnded = false
    /// Of a channel that tells what it has left of what was written, and of no TLS. Made once: it is asked with every flush.
    private var options: (any NIOSynchronousChannelOptions)?
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
        self.reporter = TrafficReporter(monitor, role: role.reported)
        self.isCounted = monitor.countsConnections
        self.join = self.isCounted || version == .http2 ? nil : LateJoin()
        if !self.isCounted { routes?.begin(isWanted: false) }
        self.role = role
        self.version = version
        self.tls = tls
        self.routes = routes
        self.traffic = ConnectionTraffic(
            role: role.reported,
            reporter: self.reporter,
            routes: routes,
            hasTLS: tls != nil,
            socket: SocketFacts()
        )
    }

    /// It is counted, or may be.
    var isOfUse: Bool { self.isCounted || self.join != nil }

    public func handlerAdded(context: ChannelHandlerContext) {
        guard self.isCounted else { return }
        self.begin(context, SocketFacts(of: context))
    }

    func begin(_ context: ChannelHandlerContext, _ socket: SocketFacts, isLate: Bool = false) {
        let tlsEndedAt = isLate ? 0 : self.tlsEndedAt
        self.traffic = ConnectionTraffic(
            role: self.role.reported,
            reporter: self.reporter,
            routes: self.routes,
            hasTLS: self.tls != nil,
            socket: socket,
            isLate: isLate
        )
        self.tlsEndedAt = tlsEndedAt
        if self.version == .http2 { self.traffic.becomeHTTP2(socket) }
        // Other channels than those of sockets may not bear to be asked.
        self.options = self.tls == nil && socket.isSocket ? context.channel.syncOptions : nil
        self.asksChannel = self.options != nil
        self.tls?.plaintext = self
        self.tls?.countsWrites = self.isCounted
    }

    /// The handshake is over, and nothing of what was agreed on has passed.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if self.isCounted, case .handshakeCompleted(let negotiated) = event as? TLSUserEvent {
            if self.role == .client { self.tlsEndedAt = TrafficClock.nanoseconds() }
            if negotiated == "h2" { self.traffic.becomeHTTP2(SocketFacts(of: context)) }
        } else if case .handshakeCompleted("h2"?) = event as? TLSUserEvent {
            self.join = nil
        }
        if case .inputClosed? = event as? ChannelEvent { self.hasEnded = true }
        context.fireUserInboundEventTriggered(event)
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        self.settle()
        self.traffic.forgetWrites()
        self.close()
        self.leaveChannel()
    }

    // MARK: Bytes

    /// What was flushed before there was a connection is on its way by now.
    public func channelActive(context: ChannelHandlerContext) {
        self.settle()
        self.awaitRest(context)
        context.fireChannelActive()
    }

    /// Also the last word before the channel closes at the end of the stream.
    public func channelReadComplete(context: ChannelHandlerContext) {
        self.settle()
        context.fireChannelReadComplete()
    }

    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.settle()
        context.fireChannelWritabilityChanged()
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard self.isCounted || self.joins(context, received: data) else { return context.fireChannelRead(data) }
        // Before the answer to it.
        self.settle()
        // Not by `Self`, which the compiler leaves generic: three dynamic casts.
        let buffer = self.unwrapInboundIn(data)
        self.report(self.traffic.received(buffer.readableBytesUInt8Span, at: TrafficClock.nanoseconds()))
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard self.isCounted || self.joins(context, sending: data) else {
            return context.write(data, promise: promise)
        }
        let part = self.unwrapOutboundIn(data)
        // The end of a message is nothing to send, often.
        guard part.readableBytes > 0 else { return context.write(data, promise: promise) }
        if self.asksChannel {
            self.traffic.written(part)
            return context.write(data, promise: promise)
        }
        let sent = context.eventLoop.makePromise(of: Void.self)
        let failedJoins = self.failedJoins
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            guard failedJoins == self.failedJoins else { return }
            self.report(self.traffic.sent(part, at: TrafficClock.nanoseconds()))
        }
        // After us: whoever waits for it may close the connection, which is the end of what counts.
        if let promise { sent.futureResult.cascade(to: promise) }
        context.write(data, promise: sent)
    }

    public func flush(context: ChannelHandlerContext) {
        self.traffic.flush()
        context.flush()
        self.settle()
        self.awaitRest(context)
    }

    /// Counts what the kernel has taken.
    private func settle() {
        // A channel that is closed has forgotten what it had left.
        guard self.traffic.isOwed, let buffered = try? self.options?.getOption(.bufferedWritableBytes) else { return }
        self.report(self.traffic.taken(leaving: buffered, at: TrafficClock.nanoseconds()))
    }

    /// The socket is full: nothing tells when the kernel takes the rest but a promise behind it.
    private func awaitRest(_ context: ChannelHandlerContext) {
        // Behind what was not flushed it would be flushed along: that is the program's to say.
        guard self.traffic.isOwed, !self.traffic.hasUnflushed, !self.isWaiting, context.channel.isActive else { return }
        self.isWaiting = true
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            self.isWaiting = false
            self.settle()
            self.awaitRest(context)
        }
        context.writeAndFlush(Self.wrapOutboundOut(.byteBuffer(ByteBuffer())), promise: sent)
    }

    // MARK: TLS

    /// It is on its way to the TLS handler.
    func received(ciphertext buffer: ByteBuffer, _ context: ChannelHandlerContext) {
        if self.role == .server, self.join?.mayBegin == true, !self.isRecordOpen {
            self.isRecordOpen = true
            self.begin(context, SocketFacts(of: context).before(receiving: buffer.readableBytes), isLate: true)
        }
        guard self.isCounted || self.isRecordOpen else { return }
        self.traffic.received(ciphertext: buffer.readableBytesUInt8Span)
    }

    /// The kernel has it, and all writes that are in it are done.
    func sent(ciphertext buffer: ByteBuffer) {
        self.report(self.traffic.sent(ciphertext: buffer.readableBytesUInt8Span))
    }

    private func report(_ records: consuming [Report.Record]) {
        if self.traffic.isOutOfStep { return self.leave() }
        guard !records.isEmpty else { return }
        self.reporter.report(records)
        self.traffic.reuse(records)
    }

    // MARK: End

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.settle()
        // A TLS handler misses its end of the stream after a reset: that is not why.
        if !(self.error is IOError) { self.error = error }
        context.fireErrorCaught(error)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.close()
        self.leaveChannel()
        context.fireChannelInactive()
    }

    /// The program, or its library, closes the connection.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.settle()
        // What is written from now on fails, and is never among what the channel has left.
        if mode != .input { self.asksChannel = false }
        // Not because of an error, nor because there is nothing more to come.
        if mode == .all, self.error == nil, !self.hasEnded { self.isGivenUp = true }
        context.close(mode: mode, promise: promise)
    }

    /// An app may keep us: we don't keep its channel.
    func leaveChannel() {
        (self.options, self.asksChannel) = (nil, false)
    }

    private func close() {
        guard self.isCounted else { return }
        // An error that is not the channel's is TLS's: those of HTTP don't come by here.
        let isCut = self.tls != nil && self.error != nil
        self.report(self.traffic.close(self.ending, isCut: isCut, at: TrafficClock.nanoseconds()))
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
