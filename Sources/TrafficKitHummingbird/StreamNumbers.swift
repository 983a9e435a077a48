import HummingbirdCore
import NIOCore
import NIOHTTP2
import Synchronization

/// The numbers of HTTP/2 streams, by their channels. The server answers requests on other threads, and asking a channel
/// there for its number takes longer than the answer.
///
/// One object is a handler of each stream's channel. It notes the number of the channel's stream.
final class StreamNumbers: ChannelInboundHandler, RemovableChannelHandler, Sendable {
    typealias InboundIn = Never  // nothing is looked at

    private let numbers = Mutex<[ObjectIdentifier: Int]>([:])

    func handlerAdded(context: ChannelHandlerContext) {
        // With HTTP/1.1 this is the connection's own channel, which has no number and does not support the question.
        guard Self.isStream(context.channel),
            let number = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)
        else { return }
        self.numbers.withLock { $0[ObjectIdentifier(context.channel)] = Int(number) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.numbers.withLock { $0[ObjectIdentifier(context.channel)] = nil }
    }

    /// The parent of a stream's channel is the connection's channel, whose parent is the server's channel.
    static func isStream(_ channel: any Channel) -> Bool { channel.parent?.parent != nil }

    /// - Returns: A configuration whose channels are noted here.
    func noting(_ configuration: HTTP1Channel.Configuration) -> HTTP1Channel.Configuration {
        var noting = configuration
        noting.additionalChannelHandlers = {
            let others = configuration.additionalChannelHandlers()
            return others.isEmpty ? [self] : [self] + others
        }
        return noting
    }

    /// - Returns: `nil` if `channel` is not the channel of an open stream.
    func number(of channel: any Channel) -> Int? {
        self.numbers.withLock { $0[ObjectIdentifier(channel)] }
    }
}
