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
public final class TrafficTLSHandler: ChannelDuplexHandler, RemovableChannelHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = IOData
    public typealias OutboundOut = IOData

    /// The handler on the plaintext side, which keeps this handler. `nil`: the connection is not counted.
    weak var plaintext: TrafficHTTPHandler?
    /// Sent bytes count, too. While this is `false`, writes are not reported to `plaintext`.
    var countsWrites = false

    public init() {}

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.plaintext?.received(ciphertext: self.unwrapInboundIn(data), context)
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // No current TLS handler writes files.
        guard self.countsWrites, case .byteBuffer(let buffer) = self.unwrapOutboundIn(data) else {
            return context.write(data, promise: promise)
        }
        let promise = promise ?? context.eventLoop.makePromise()
        let handler = NIOLoopBound((self, buffer), eventLoop: context.eventLoop)
        promise.futureResult.whenSuccess {
            let (handler, buffer) = handler.value
            handler.plaintext?.sent(ciphertext: buffer)
        }
        context.write(data, promise: promise)
    }
}
