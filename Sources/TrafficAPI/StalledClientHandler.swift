import NIOCore

/// Closes the connection of a client that reads nothing for too long while bytes wait to be sent to it, because these
/// bytes take memory.
///
/// The server writes a body in pieces. So a slow client that takes a piece now and then is not closed.
final class StalledClientHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = NIOAny

    private let timeout: TimeAmount
    private var deadline: Scheduled<Void>?

    init(timeout: TimeAmount) {
        self.timeout = timeout
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.deadline?.cancel()
        self.deadline = nil
        if !context.channel.isWritable {
            let channel = context.channel
            self.deadline = context.eventLoop.scheduleTask(in: self.timeout) {
                channel.close(promise: nil)
            }
        }
        context.fireChannelWritabilityChanged()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.deadline?.cancel()
    }
}
