import NIOCore

/// What a socket's channel has left of the bytes that were written to it.
struct ChannelQueue {
    /// Kept, because every flush reads an option. `nil`: the channel has no socket and may not support the question, or
    /// it is not to be asked any more.
    private var options: (any NIOSynchronousChannelOptions)?
    private(set) var isAsked: Bool
    /// The program has closed its side of the connection. The channel still sends what it has left, and refuses later
    /// writes.
    private(set) var isClosing = false
    /// A write is on its way that tells when the kernel has taken the bytes before it.
    fileprivate var isWaiting = false

    /// - Parameter isSocket: Whether the channel has a socket.
    init(_ context: ChannelHandlerContext? = nil, isSocket: Bool = false) {
        self.options = isSocket ? context?.channel.syncOptions : nil
        self.isAsked = self.options != nil
    }

    /// The program, or its HTTP library, closes the connection.
    mutating func close(_ mode: CloseMode) {
        switch mode {
        // A closed channel never counts later writes among the bytes that it has left.
        case .all: self.leave()
        case .output: self.isClosing = true
        case .input: break
        }
    }

    /// Releases the channel, because an app may keep a handler. A closed channel does not know any more how many bytes
    /// it had left, and later writes fail.
    mutating func leave() { (self.options, self.isAsked) = (nil, false) }

    /// Bytes that the channel has left. `nil`: unknown.
    @inline(__always)
    var buffered: Int? { try? self.options?.getOption(.bufferedWritableBytes) }
}

/// A handler that counts what the kernel has taken of its writes.
protocol CountingHandler: AnyObject {
    var queue: ChannelQueue { get set }
    /// Writes may wait to be counted, and the handler may wait for them.
    var awaitsKernel: Bool { get }

    /// Counts what the kernel has taken.
    func settle()
}

extension CountingHandler {
    /// If the socket is full, only the promise of a later write tells when the kernel has taken the rest.
    func awaitRest(_ context: ChannelHandlerContext) {
        guard self.awaitsKernel, self.queue.isAsked, !self.queue.isWaiting, context.channel.isActive else { return }
        self.queue.isWaiting = true
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            self.queue.isWaiting = false
            self.settle()
            self.awaitRest(context)
        }
        context.writeAndFlush(NIOAny(IOData.byteBuffer(ByteBuffer())), promise: sent)
    }
}
