public import NIOCore
public import TrafficKit
import TrafficReport

#if canImport(Glibc)
import Glibc
#endif

/// Counts the HTTP/1.x messages of a connection without TLS, in the bytes that pass between the socket and the pipeline.
///
/// Belongs at the head of the pipeline, before anything has been sent or received: `channel.pipeline.addHandler(_, position: .first)` in a bootstrap's
/// initializer. It hands on everything as it is. What is sent counts when the kernel has taken it.
public final class TrafficHTTP1Handler: ChannelDuplexHandler, RemovableChannelHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = IOData
    public typealias OutboundOut = IOData

    /// Which side of the connection this process is.
    public enum Role: Sendable {
        case client, server
    }

    private let monitor: TrafficMonitor
    private var exchanges: HTTP1Exchanges
    private var error: (any Error)?

    /// - Parameters:
    ///   - role: Whether requests go out or come in here.
    ///   - monitor: What it tells. While that is stopped nothing is reported.
    public init(role: Role, monitor: TrafficMonitor = .shared) {
        self.monitor = monitor
        self.exchanges = HTTP1Exchanges(
            role: role == .client ? .client : .server,
            makeExchange: { monitor.makeExchange() },
            naming: { host, target in monitor.name(host: host, target: target) }
        )
    }

    public func handlerAdded(context: ChannelHandlerContext) {
        guard let provider = context.channel as? any SocketOptionProvider else { return }
        let handler = NIOLoopBound(self, eventLoop: context.eventLoop)
        // Completes at once: this is the channel's event loop.
        let cookie: EventLoopFuture<UInt64> = provider.unsafeGetSocketOption(
            level: .init(rawValue: SOL_SOCKET),
            name: .init(rawValue: SO_COOKIE)
        )
        cookie.whenSuccess { handler.value.exchanges.cookie = $0 }
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        self.close()
    }

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = Self.unwrapInboundIn(data)
        let monitor = self.monitor
        self.exchanges.received(buffer.readableBytesUInt8Span, at: TrafficClock.nanoseconds()) { monitor.report($0) }
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let part = Self.unwrapOutboundIn(data)
        let promise = promise ?? context.eventLoop.makePromise()
        let handler = NIOLoopBound((self, part), eventLoop: context.eventLoop)
        promise.futureResult.whenSuccess {
            let (handler, part) = handler.value
            handler.taken(part)
        }
        context.write(data, promise: promise)
    }

    private func taken(_ part: IOData) {
        let (time, monitor) = (TrafficClock.nanoseconds(), self.monitor)
        switch part {
        case .byteBuffer(let buffer):
            self.exchanges.sent(buffer.readableBytesUInt8Span, at: time) { monitor.report($0) }
        case .fileRegion(let region):
            self.exchanges.sentUnseen(UInt64(region.readableBytes), at: time) { monitor.report($0) }
        }
    }

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.error = error
        context.fireErrorCaught(error)
    }

    public func channelInactive(context: ChannelHandlerContext) {
        self.close()
        context.fireChannelInactive()
    }

    private func close() {
        let monitor = self.monitor
        self.exchanges.close(self.ending, at: TrafficClock.nanoseconds()) { monitor.report($0) }
    }

    /// Of exchanges that have no response.
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
