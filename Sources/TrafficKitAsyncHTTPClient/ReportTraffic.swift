public import AsyncHTTPClient
import NIOCore
import NIOSSL
public import TrafficKit
import TrafficKitNIO

extension HTTPClient.Configuration {
    /// Reports what the client's connections move. Call `configuration.reportTraffic()` before the client is made with
    /// the configuration.
    ///
    /// The reports are exact to the byte of the socket's streams, with TLS and without. A connection's handshake is in
    /// its own record, and every hop of a redirect is an exchange of its own. The client works as it would without
    /// reports. With HTTP/2 the connection's first frames count as part of the handshake, because the handlers can be
    /// added only after these frames have passed. What the client told a proxy before the first request is in no
    /// message.
    ///
    /// This function replaces `http1_1ConnectionDebugInitializer` and `http2ConnectionDebugInitializer`. The
    /// replacements call the previous initializers first.
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
            // The client calls this when the connection may be used, which ends the handshake: with HTTP/2 the client
            // also waits for the server's settings.
            let tlsEndedAt = TrafficClock.nanoseconds()
            let before = previous?(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            return before.hop(to: channel.eventLoop).map {
                let pipeline = channel.pipeline.syncOperations
                // The connection works even if it can't be counted, for example because it has closed by now.
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
