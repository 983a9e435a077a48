import NIOCore
import TrafficKit

extension SocketFacts {
    /// All are 0 where the channel has no socket, as in tests of pipelines, or it is closed; the bytes where it is none of TCP, or not
    /// connected yet.
    init(of context: ChannelHandlerContext) {
        let isActive = context.channel.isActive
        let facts = try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { SocketFacts(of: $0, isConnected: isActive) }
        self = (facts ?? nil) ?? SocketFacts()
        // Other channels than those of sockets may not bear to be asked.
        guard self.cookie != 0, let unsent = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes) else {
            return
        }
        self.add(unsent: unsent)
    }
}
