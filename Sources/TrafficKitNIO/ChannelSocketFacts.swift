import NIOCore
import TrafficKit

extension SocketFacts {
    /// All values are 0 if the channel has no socket (as in tests of pipelines) or is closed. The kernel's byte counts
    /// are 0 if the socket is not a TCP socket or is not connected yet.
    init(of context: ChannelHandlerContext) {
        let isActive = context.channel.isActive
        let facts = try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { SocketFacts(of: $0, isConnected: isActive) }
        self = (facts ?? nil) ?? SocketFacts()
        // Only a socket's channel is asked: another channel may not support the question.
        guard self.cookie != 0, let unsent = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes) else {
            return
        }
        self.add(unsent: unsent)
    }
}
