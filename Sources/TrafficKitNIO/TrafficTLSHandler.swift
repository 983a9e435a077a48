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
        let run = self.writes.append(buffer)
        if self.queue.isAsked { return context.write(data, promise: promise) }
        // A promise of our own, because the program's may be of another event loop.
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            if run == self.writes.run { self.sent(1) }
        }
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
        self.sent(self.writes.taken(buffered))
    }

    private func sent(_ count: Int) {
        for _ in 0..<count {
            // Code that the reports call may write again.
            guard let part = self.writes.removeFirst() else { return }
            self.plaintext?.sent(ciphertext: part.buffer, part.plaintext)
        }
    }

    var awaitsKernel: Bool { !self.writes.isEmpty }
}

/// Written ciphertext that the kernel has not taken, oldest first.
///
/// One value, because Swift enforces exclusive access to each property of a handler at run time.
private struct PendingCiphertext {
    /// With the bytes of plaintext in each part.
    private var parts: [(buffer: ByteBuffer, plaintext: Int)] = []
    private var bytes = 0
    /// How many of the parts the channel was told to send.
    private var flushed = 0
    /// Goes up when the parts are dropped.
    private(set) var run = 0

    var isEmpty: Bool { self.parts.isEmpty }

    /// - Returns: The run that the part belongs to.
    mutating func append(_ buffer: ByteBuffer) -> Int {
        self.parts.append((buffer, 0))
        self.bytes += buffer.readableBytes
        return self.run
    }

    /// - Parameter plaintext: Returns the bytes of plaintext that are not in earlier parts. Called if there are new parts.
    mutating func flush(_ plaintext: () -> Int) {
        guard self.flushed < self.parts.count else { return }
        self.parts[self.parts.count - 1].plaintext += plaintext()
        self.flushed = self.parts.count
    }

    /// - Parameter buffered: Bytes that the channel has left.
    /// - Returns: How many parts the kernel has taken whole.
    func taken(_ buffered: Int) -> Int {
        var (taken, count) = (self.bytes - buffered, 0)
        while count < self.parts.count, self.parts[count].buffer.readableBytes <= taken {
            taken -= self.parts[count].buffer.readableBytes
            count += 1
        }
        return count
    }

    mutating func removeFirst() -> (buffer: ByteBuffer, plaintext: Int)? {
        // Nearly always there is one part.
        guard let part = self.parts.count == 1 ? self.parts.popLast() : self.parts.first else { return nil }
        if !self.parts.isEmpty { self.parts.removeFirst() }
        self.bytes -= part.buffer.readableBytes
        self.flushed -= min(1, self.flushed)
        return part
    }

    mutating func drop() { (self.parts, self.bytes, self.flushed, self.run) = ([], 0, 0, self.run + 1) }
}
