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
    }
}
