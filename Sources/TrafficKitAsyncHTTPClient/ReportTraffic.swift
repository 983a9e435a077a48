public import AsyncHTTPClient
import NIOCore
import NIOSSL
public import TrafficKit
import TrafficKitNIO

extension HTTPClient.Configuration {
    /// Reports what the client's connections move: `configuration.reportTraffic()`, before the client is made with it.
    ///
    /// Exact for HTTP/1.1, with TLS and without, to the byte of the socket's streams: a connection's handshake is in its own record, every hop of
    /// a redirect is an exchange of its own. The client works as it would without. Not counted are connections with HTTP/2, which are made
    /// where the server offers it: `httpVersion = .http1Only` keeps to what can be counted. What a proxy was told before the first request is
    /// in no message.
    ///
    /// It takes the place of `http1_1ConnectionDebugInitializer` and calls what was there first.
    public mutating func reportTraffic(to monitor: TrafficMonitor = .shared) {
        let previous = self.http1_1ConnectionDebugInitializer
        self.http1_1ConnectionDebugInitializer = { channel in
            let before = previous?(channel) ?? channel.eventLoop.makeSucceededVoidFuture()
            return before.hop(to: channel.eventLoop).map {
                let pipeline = channel.pipeline.syncOperations
                // A connection that can't be counted is still a connection: it may have closed by now.
                try? pipeline.addTrafficHandlers(
                    role: .client,
                    monitor: monitor,
                    behind: try? pipeline.handler(type: NIOSSLClientHandler.self)
                )
            }
        }
    }
}
