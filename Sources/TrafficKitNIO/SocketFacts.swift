import NIOCore

#if canImport(Glibc)
import Glibc
#endif

/// What the kernel says of a channel's socket.
struct SocketFacts {
    /// `SO_COOKIE`.
    let cookie: UInt64

    /// - Returns: `nil` where the channel has no socket, as in tests of pipelines, or it is closed.
    init?(of context: ChannelHandlerContext) {
        let cookie = try? context.pipeline.syncOperations.withUnsafeTransportIfAvailable(
            of: NIOBSDSocket.Handle.self
        ) { socket in
            var cookie: UInt64 = 0
            var length = socklen_t(MemoryLayout<UInt64>.size)
            return getsockopt(socket, SOL_SOCKET, SO_COOKIE, &cookie, &length) == 0 ? cookie : 0
        }
        guard let cookie else { return nil }
        self.cookie = cookie
    }
}
