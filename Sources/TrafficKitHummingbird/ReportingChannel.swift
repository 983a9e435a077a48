public import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
public import TrafficKit
import TrafficKitNIO

extension HTTPServerBuilder {
    /// HTTP/1.1 as `.http1()` does it, and what its connections move is reported: `Application(router: router, server: .http1(reportingTo: .shared))`.
    ///
    /// With TLS it is `.tls(.http1(reportingTo: .shared), tlsConfiguration: …)`. Add a ``TrafficMiddleware`` to the router to have its routes in the
    /// reports. Connections with HTTP/2 are not counted.
    public static func http1(
        reportingTo monitor: TrafficMonitor,
        configuration: HTTP1Channel.Configuration = .init()
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ReportingChannel(
                base: HTTP1Channel(
                    responder: { request, writer, channel in
                        // One after the other on a connection: each is answered before the next is read.
                        RoutesOfConnection.current?.beginRequest()
                        try await responder(request, writer, channel)
                    },
                    configuration: configuration
                ),
                monitor: monitor
            )
        }
    }
}

/// Of the connection whose task this is.
enum RoutesOfConnection {
    @TaskLocal static var current: TrafficRoutes?
}

/// A channel for HTTP/1.1 that counts.
struct ReportingChannel: ServerChildChannel {
    struct Value: ServerChildChannelValue {
        let base: HTTP1Channel.Value
        let routes: TrafficRoutes

        var channel: any Channel { self.base.channel }
    }

    let base: HTTP1Channel
    let monitor: TrafficMonitor

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let routes = TrafficRoutes()
        return channel.eventLoop.makeCompletedFuture {
            let pipeline = channel.pipeline.syncOperations
            // There before us, where this is within a channel for TLS.
            let tls = try? pipeline.handler(type: NIOSSLServerHandler.self)
            try pipeline.addTrafficHandlers(role: .server, monitor: self.monitor, behind: tls, routes: routes)
        }.flatMap {
            self.base.setup(channel: channel, logger: logger)
        }.map {
            Value(base: $0, routes: routes)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await RoutesOfConnection.$current.withValue(value.routes) {
            await self.base.handle(value: value.base, logger: logger)
        }
    }
}
