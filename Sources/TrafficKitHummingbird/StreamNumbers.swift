import HummingbirdCore
import NIOCore
import NIOHTTP2
import Synchronization

/// The numbers of HTTP/2's streams, by their channels: requests are answered on other threads, and to ask a channel there takes longer than to
/// answer.
///
/// It is a handler of each stream's channel, the same one of all, which notes the channel's number.
final class StreamNumbers: ChannelInboundHandler, RemovableChannelHandler, Sendable {
    typealias InboundIn = Never  // nothing is looked at

    private let numbers = Mutex<[ObjectIdentifier: Int]>([:])

    func handlerAdded(context: ChannelHandlerContext) {
        // The connection's own channel, with HTTP/1.1, has no number to give, and doesn't bear to be asked.
        guard Self.isStream(context.channel),
            let number = try? context.channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)
        else { return }
        self.numbers.withLock { $0[ObjectIdentifier(context.channel)] = Int(number) }
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.numbers.withLock { $0[ObjectIdentifier(context.channel)] = nil }
    }

    /// A stream's channel belongs to a connection's, and that to the server's.
    static func isStream(_ channel: any Channel) -> Bool { channel.parent?.parent != nil }

    /// - Returns: A configuration of channels that are noted here.
    func noting(_ configuration: HTTP1Channel.Configuration) -> HTTP1Channel.Configuration {
        var noting = configuration
        noting.additionalChannelHandlers = {
            let others = configuration.additionalChannelHandlers()
            return others.isEmpty ? [self] : [self] + others
        }
        return noting
    }

    /// `nil`: it is no stream's.
    func number(of channel: any Channel) -> Int? {
        self.numbers.withLock { $0[ObjectIdentifier(channel)] }
    }
}
