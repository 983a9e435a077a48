public import AsyncHTTPClient
import NIOCore
import NIOSSL
public import TrafficKit
import TrafficKitNIO

extension HTTPClient.Configuration {
    /// Reports what the client's connections move: `configuration.reportTraffic()`, before the client is made with it.
    ///
    /// Exact to the byte of the socket's streams, with TLS and without: a connection's handshake is in its own record, every hop of a redirect is an
    /// exchange of its own. The client works as it would without. Of HTTP/2 the connection's first frames count as the handshake's, since nobody
    /// can be there before they have passed. What a proxy was told before the first request is in no message.
    ///
    /// It takes the place of `http1_1ConnectionDebugInitializer` and `http2ConnectionDebugInitializer` and calls what was there first.
    public mutating func reportTraffic(to monitor: TrafficMonitor = .shared) {
        self.http1_1ConnectionDebugInitializer = Self.counting(
            .http1,
            monitor,
            after: self.http1_1ConnectionDebugInitializer
        )
        self.http2ConnectionDebugInitializer = Self.counting(
            .http2,
            monitor,
            after: self.http2ConnectionDebugInitializer
        )
    }

    private typealias Initializer = @Sendable (any Channel) -> EventLoopFuture<Void>

    private static func counting(
        _ version: TrafficHTTPHandler.Version,
        _ monitor: TrafficMonitor,
        after previous: Initializer?
    ) -> Initializer {
        { channel in
            // The client calls this when the connection may be used, which ends the handshake: its HTTP/2 waits for the server's settings, too.
            let tlsEndedAt = TrafficClock.nanoseconds()
            let before = previous?(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            return before.hop(to: channel.eventLoop).map {
                let pipeline = channel.pipeline.syncOperations
                // A connection that can't be counted is still a connection: it may have closed by now.
                _ = try? pipeline.addTrafficHandlers(
                    role: .client,
                    version: version,
                    monitor: monitor,
                    behind: try? pipeline.handler(type: NIOSSLClientHandler.self),
                    tlsEndedAt: tlsEndedAt
                )
            }
        }
    }
}
