import NIOCore

/// What a socket's channel has left of the bytes that were written to it.
struct ChannelQueue {
    /// Kept, because every flush reads an option. `nil`: the channel has no socket and may not support the question, or
    /// it is not to be asked any more.
    private var options: (any NIOSynchronousChannelOptions)?
    private(set) var isAsked: Bool
    /// A write is on its way that tells when the kernel has taken the bytes before it.
    private var isWaiting = false

    /// - Parameter isSocket: Whether the channel has a socket.
    init(_ context: ChannelHandlerContext? = nil, isSocket: Bool = false) {
        self.options = isSocket ? context?.channel.syncOptions : nil
        self.isAsked = self.options != nil
    }

    /// Releases the channel, because an app may keep a handler. A closed channel does not know any more how many bytes
    /// it had left, and later writes fail.
    mutating func leave() { (self.options, self.isAsked) = (nil, false) }

    /// Bytes that the channel has left. `nil`: unknown.
    @inline(__always)
    var buffered: Int? { try? self.options?.getOption(.bufferedWritableBytes) }

    /// If the socket is full, only the promise of a later write tells when the kernel has taken the rest.
    ///
    /// - Parameters:
    ///   - queue: This queue, in its handler.
    ///   - again: Called then. It may wait again.
    static func await<Handler: AnyObject>(
        _ context: ChannelHandlerContext,
        _ handler: Handler,
        _ queue: ReferenceWritableKeyPath<Handler, ChannelQueue>,
        _ again: @escaping () -> Void
    ) {
        guard !handler[keyPath: queue].isWaiting, context.channel.isActive else { return }
        handler[keyPath: queue].isWaiting = true
        let sent = context.eventLoop.makePromise(of: Void.self)
        sent.futureResult.assumeIsolatedUnsafeUnchecked().whenSuccess {
            handler[keyPath: queue].isWaiting = false
            again()
        }
        context.writeAndFlush(NIOAny(IOData.byteBuffer(ByteBuffer())), promise: sent)
    }
}
