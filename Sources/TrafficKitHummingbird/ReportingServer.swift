public import HummingbirdCore
public import HummingbirdHTTP2
public import NIOSSL
public import TrafficKit
import TrafficKitNIO

extension HTTPServerBuilder {
    /// HTTP/1.1 as `.http1()` does it, and what its connections move is reported: `Application(router: router, server: .http1(reportingTo: .shared))`.
    ///
    /// With TLS it is `.tls(.http1(reportingTo: .shared), tlsConfiguration: …)`. With `router.reportingRoutes()` in the router's place its routes
    /// are in the reports.
    public static func http1(
        reportingTo monitor: TrafficMonitor,
        configuration: HTTP1Channel.Configuration = .init()
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ReportingChannel(
                base: HTTP1Channel(responder: RequestRoute.telling(responder), configuration: configuration),
                monitor: monitor
            )
        }
    }

    /// TLS with HTTP/2 for those who ask for it, and HTTP/1.1 for the others, as `.http2Upgrade(tlsConfiguration:)` does it, reported.
    ///
    /// - Throws: Where the configuration has no usable certificate.
    public static func http2Upgrade(
        reportingTo monitor: TrafficMonitor,
        tlsConfiguration: TLSConfiguration,
        configuration: HTTP2UpgradeChannel.Configuration = .init()
    ) throws -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            let streams = StreamNumbers()
            var configuration = configuration
            configuration.streamConfiguration = streams.noting(configuration.streamConfiguration)
            return ReportingChannel(
                base: try HTTP2UpgradeChannel(
                    tlsConfiguration: tlsConfiguration,
                    configuration: configuration,
                    responder: RequestRoute.telling(responder, streams)
                ),
                monitor: monitor
            )
        }
    }

    /// HTTP/2 without TLS for clients that know of it, as `.plaintextHTTP2()` does it, reported.
    public static func plaintextHTTP2(
        reportingTo monitor: TrafficMonitor,
        configuration: HTTP2Channel.Configuration = .init()
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            let streams = StreamNumbers()
            var configuration = configuration
            configuration.streamConfiguration = streams.noting(configuration.streamConfiguration)
            return ReportingChannel(
                base: HTTP2Channel(responder: RequestRoute.telling(responder, streams), configuration: configuration),
                monitor: monitor,
                version: .http2
            )
        }
    }
}
