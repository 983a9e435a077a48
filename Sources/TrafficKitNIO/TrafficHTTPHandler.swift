public import NIOCore
import NIOTLS
public import TrafficKit
import TrafficReport

#if canImport(Glibc)
import Glibc
#endif

/// Counts the HTTP messages of a connection in the bytes that pass: HTTP/1.x, or HTTP/2 if TLS agrees on it (ALPN) or
/// `version` says so.
///
/// Without TLS the handler belongs at the head of the pipeline. With TLS it belongs behind the TLS handler, and a
/// ``TrafficTLSHandler`` belongs at the head. Messages are then reported with their bytes on the socket.
/// `channel.pipeline.syncOperations.addTrafficHandlers(role:)` puts the handlers in their places. Call that function in
/// a bootstrap's initializer or between two messages, because the handlers ask the kernel for the positions of the
/// socket's streams. Both handlers pass everything on unchanged. Sent bytes count when the kernel has taken them.
///
/// If the monitor runs without a listener when this handler is made, the handler only passes bytes on, and looks for a
/// listener when bytes come. Once there is a listener, the handler joins an HTTP/1.x connection where a request begins
/// (``LateJoin``), and the reported messages are `inferred`. The handler never joins an HTTP/2 connection: its fields
/// refer to earlier fields (RFC 7541), which the handler has not seen.
public final class TrafficHTTPHandler: ChannelDuplexHandler, RemovableChannelHandler, CountingHandler {
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
        /// HTTP/2 from here on: both sides know it, or have agreed on it.
        case http2
    }

    /// When the TLS handshake of a client's connection ended. 0: unknown, or no TLS. Code that adds the handler after
    /// the handshake must set this value.
    package var tlsEndedAt: UInt64 {
        get { self.traffic.tlsEndedAt }
        set { self.traffic.tlsEndedAt = newValue }
    }
    let role: Role
    let reporter: TrafficReporter
    private let version: Version
    let tls: TrafficTLSHandler?
    let routes: TrafficRoutes?
    var traffic: ConnectionTraffic
    var isCounted: Bool
    /// Finds a place where counting can begin. `nil`: the connection is counted, or never will be.
    var join: LateJoin?
    /// The monitor has got a listener, so the handler looks at what passes.
    var isLooking = false
    /// With TLS: records have come since the last response, and their plaintext has not come yet.
    var isRecordOpen = false
    /// The number of joins that were out of step.
    var failedJoins = 0
    private var error: (any Error)?
    private var isGivenUp = false
    /// The other side sends no more, and the channel stays open (half-closed).
    private var hasEnded = false
    private var eventLoop: (any EventLoop)?
    /// A task is scheduled that tells messages of exchanges that go on.
    private var willTell = false
    /// As long as records wait for the next datagram, at most.
    private static let patience = TimeAmount.milliseconds(100)
    /// With TLS: the TLS handler encrypts what is flushed. Before, it keeps it until the handshake is over.
    private var isHandshakeOver = false

    /// - Parameters:
    ///   - role: Whether this process sends the requests (client) or receives them (server).
    ///   - version: The HTTP version that the connection speaks.
    ///   - monitor: The monitor that gets the reports. While it is stopped, nothing is reported.
    ///   - tls: The handler at the head of the same pipeline, if the connection has TLS.
    ///   - routes: The names that a server's router gives the requests of this connection.
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

    /// The connection is counted, or may be later.
    var isOfUse: Bool { self.isCounted || self.join != nil }

    public func handlerAdded(context: ChannelHandlerContext) {
        // A handler that is added to a connection is added behind its handshake.
        self.isHandshakeOver = context.channel.isActive
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
        self.eventLoop = context.eventLoop
        self.traffic.queue = ChannelQueue(context, isSocket: self.tls == nil && socket.isSocket)
        self.tls?.plaintext = self
        self.tls?.begin(context, isSocket: socket.isSocket)
    }

    /// The TLS handshake is over. No byte of the agreed protocol has passed yet.
    public func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case .handshakeCompleted = event as? TLSUserEvent { self.isHandshakeOver = true }
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
        self.tls?.plaintext = nil
    }

    // MARK: Bytes

    /// Bytes that were flushed before the connection was made are on their way by now.
    public func channelActive(context: ChannelHandlerContext) {
        self.settle()
        self.awaitRest(context)
        context.fireChannelActive()
    }

    /// NIO also calls this before it closes the channel at the end of the stream.
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
        // Not called on `Self`: the compiler would leave the call generic, with three dynamic casts.
        let buffer = self.unwrapInboundIn(data)
        self.isHandshakeOver = true
        self.act(self.traffic.received(buffer.readableBytesUInt8Span, at: TrafficClock.nanoseconds()))
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        guard self.isCounted || !self.traffic.queue.isClosing && self.joins(context, sending: data) else {
            return context.write(data, promise: promise)
        }
        let part = self.unwrapOutboundIn(data)
        // The end of a message is often an empty write.
        guard part.readableBytes > 0, self.traffic.written(part) == .byCaller else {
            return context.write(data, promise: promise)
        }
        let sent = context.eventLoop.makePromise(of: Void.self)
        let failedJoins = self.failedJoins
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            guard failedJoins == self.failedJoins else { return }
            self.act(self.traffic.sent(part, at: TrafficClock.nanoseconds()))
        }
        // The bytes count first: code that waits for `promise` may close the connection, and that ends the counting.
        if let promise { sent.futureResult.cascade(to: promise) }
        context.write(data, promise: sent)
    }

    public func flush(context: ChannelHandlerContext) {
        self.traffic.flush()
        context.flush()
        let actions = self.traffic.settle()
        self.act(actions)
        if actions.contains(.await) { self.awaitRest(context) }
    }

    func settle() {
        // Nearly always nothing is owed, and then a look costs less than exclusive access.
        if self.traffic.isOwed { self.act(self.traffic.settle()) }
    }

    var awaitsKernel: Bool { self.traffic.awaitsKernel }

    var queue: ChannelQueue {
        get { self.traffic.queue }
        set { self.traffic.queue = newValue }
    }

    @inline(__always)
    private func act(_ actions: ConnectionTraffic.Actions) {
        guard !actions.isEmpty else { return }
        if actions.contains(.leave) { return self.leave() }
        if actions.contains(.report) {
            let records = self.traffic.takeRecords()
            self.reporter.report(records)
        }
        if actions.contains(.tellLater) { self.tellLater() }
    }

    /// An exchange is one record if it ends soon. If it goes on, its request is told meanwhile.
    private func tellLater() {
        guard !self.willTell, self.isCounted, let eventLoop else { return }
        self.willTell = true
        eventLoop.assumeIsolatedUnsafeUnchecked().scheduleTask(in: Self.patience) {
            self.willTell = false
            if self.isCounted { self.act(self.traffic.tellOpen()) }
        }
    }

    // MARK: TLS

    /// Ciphertext that is on its way to the TLS handler.
    func received(ciphertext buffer: ByteBuffer, _ context: ChannelHandlerContext) {
        if self.role == .server, self.join?.mayBegin == true, !self.isRecordOpen {
            self.isRecordOpen = true
            self.begin(context, SocketFacts(of: context).before(receiving: buffer.readableBytes), isLate: true)
        }
        guard self.isCounted || self.isRecordOpen else { return }
        self.traffic.received(ciphertext: buffer.readableBytesUInt8Span)
    }

    /// - Returns: Bytes of flushed plaintext that were not in earlier ciphertext.
    func encrypted() -> Int { self.isHandshakeOver ? self.traffic.encrypted() : 0 }

    /// Ciphertext that the kernel has taken.
    func sent(ciphertext buffer: ByteBuffer, _ plaintext: Int) {
        guard self.isCounted else { return }
        self.act(self.traffic.sent(ciphertext: buffer.readableBytesUInt8Span, plaintext: plaintext))
    }

    // MARK: End

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.settle()
        // After a reset the TLS handler also reports a missing end of the stream. The reset is the cause, so it is
        // kept.
        if !(self.error is IOError) { self.error = error }
        context.fireErrorCaught(error)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.close()
        self.leaveChannel()
        context.fireChannelInactive()
    }

    /// The program, or its HTTP library, closes the connection.
    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.settle()
        self.traffic.queue.close(mode)
        // The client gives up only if there was no error and the other side could still send.
        if mode == .all, self.error == nil, !self.hasEnded { self.isGivenUp = true }
        context.close(mode: mode, promise: promise)
    }

    func leaveChannel() {
        self.traffic.queue.leave()
        self.tls?.end()
    }

    private func close() {
        guard self.isCounted else { return }
        // An error that does not come from the channel comes from TLS: errors of HTTP handlers do not pass this
        // handler.
        let isCut = self.tls != nil && self.error != nil
        self.act(self.traffic.close(self.ending, isCut: isCut, at: TrafficClock.nanoseconds()))
    }

    /// How exchanges end that are not over.
    private var ending: Report.Ending {
        guard let error = self.error as? IOError else {
            // The client does not wait for the rest: its time is up, or its task is cancelled.
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
