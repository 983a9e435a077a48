public import NIOCore
import TrafficKit
import TrafficReport

/// Counts what a TLS connection moves between the socket and its TLS handler, for the ``TrafficHTTPHandler`` behind the
/// TLS handler.
///
/// This handler belongs at the head of the pipeline, before anything is sent or received. It reads only the headers of
/// TLS records, which are not encrypted. So it fits any TLS handler that passes on at once what it can decrypt, in one
/// piece or several, and that encrypts what it flushes in one write. This handler passes everything on unchanged. Sent
/// bytes count when the kernel has taken them.
public final class TrafficTLSHandler: ChannelDuplexHandler, RemovableChannelHandler, CountingHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = IOData
    public typealias OutboundOut = IOData

    /// The handler on the plaintext side. `nil`: the connection is not counted. Both handlers keep each other until one
    /// is removed: a weak reference would make each reference to the other handler slow.
    var plaintext: TrafficHTTPHandler?
    private var writes = PendingCiphertext()
    var queue = ChannelQueue()

    public init() {}

    /// Sent bytes count, too, from here on.
    func begin(_ context: ChannelHandlerContext, isSocket: Bool) {
        self.writes.drop()
        self.queue = ChannelQueue(context, isSocket: isSocket)
    }

    /// Sent bytes do not count any more.
    func end() {
        self.writes.drop()
        self.queue.leave()
    }

    // MARK: Inbound

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        // The sent bytes count before the answer to them.
        self.settle()
        self.plaintext?.received(ciphertext: self.unwrapInboundIn(data), context)
        context.fireChannelRead(data)
    }

    /// Bytes that were flushed before the connection was made are on their way by now.
    public func channelActive(context: ChannelHandlerContext) {
        self.settle()
        self.awaitRest(context)
        context.fireChannelActive()
    }

    public func channelReadComplete(context: ChannelHandlerContext) {
        self.settle()
        context.fireChannelReadComplete()
    }

    public func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.settle()
        context.fireChannelWritabilityChanged()
    }

    public func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.settle()
        context.fireErrorCaught(error)
    }

    // MARK: Outbound

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // No current TLS handler writes files.
        guard !self.queue.isClosing, let plaintext = self.plaintext, plaintext.isCounted,
            case .byteBuffer(let buffer) = self.unwrapOutboundIn(data), buffer.readableBytes > 0
        else { return context.write(data, promise: promise) }
        let number = self.writes.append(buffer)
        if self.queue.isAsked { return context.write(data, promise: promise) }
        // A promise of our own, because the program's may be of another event loop.
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess { self.sent(upTo: number + 1) }
        if let promise { sent.futureResult.cascade(to: promise) }
        context.write(data, promise: sent)
    }

    public func flush(context: ChannelHandlerContext) {
        // All plaintext that was flushed is in the ciphertext so far.
        if let plaintext { self.writes.flush { plaintext.encrypted() } }
        context.flush()
        self.settle()
        self.awaitRest(context)
    }

    public func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        self.settle()
        self.queue.close(mode)
        context.close(mode: mode, promise: promise)
    }

    public func handlerRemoved(context: ChannelHandlerContext) {
        self.settle()
        self.queue.leave()
        self.plaintext = nil
    }

    /// Counts the writes of which the kernel has taken every byte.
    func settle() {
        guard self.awaitsKernel, let buffered = self.queue.buffered else { return }
        self.sent(upTo: self.writes.taken(buffered))
    }

    /// - Parameter end: The number of the first part that the kernel has not taken whole.
    private func sent(upTo end: Int) {
        // Code that the reports call may write again, and so come here again.
        while let part = self.writes.removeFirst(before: end) {
            self.plaintext?.sent(ciphertext: part.buffer, part.plaintext)
        }
    }

    var awaitsKernel: Bool { !self.writes.isEmpty }
}
