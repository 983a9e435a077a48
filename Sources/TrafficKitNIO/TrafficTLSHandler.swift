public import NIOCore
import TrafficKit
import TrafficReport

/// Counts what a TLS connection moves between the socket and its TLS handler, for the ``TrafficHTTPHandler`` behind that.
///
/// Belongs at the head of the pipeline, before anything has been sent or received. It reads the headers of TLS records, which are not encrypted, and
/// nothing else, so it fits any TLS handler that hands on at once what it can decrypt, in one piece or several, and encrypts what it is to flush
/// in one write. It hands on everything as it is. What is sent counts when the kernel has taken it.
public final class TrafficTLSHandler: ChannelDuplexHandler, RemovableChannelHandler {
    public typealias InboundIn = ByteBuffer
    public typealias InboundOut = ByteBuffer
    public typealias OutboundIn = IOData
    public typealias OutboundOut = IOData

    /// The one on the plaintext side; it keeps us. `nil`: the connection is not counted.
    weak var plaintext: TrafficHTTPHandler?
    /// What is sent counts, too. Before, nobody has to be told of it.
    var countsWrites = false

    public init() {}

    public func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.plaintext?.received(ciphertext: self.unwrapInboundIn(data), context)
        context.fireChannelRead(data)
    }

    public func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        // No TLS handler of today writes files.
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
