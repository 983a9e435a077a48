public import HummingbirdCore
public import TrafficKit
import TrafficKitNIO

#if TLS
public import HummingbirdHTTP2
public import NIOSSL
#endif

extension HTTPServerBuilder {
    /// HTTP/1.1 as with `.http1()`, and the server reports what its connections move: `Application(router: router,
    /// server: .http1(reportingTo: .shared))`.
    ///
    /// With TLS, write `.tls(.http1(reportingTo: .shared), tlsConfiguration: …)`. Without the package's trait `TLS`, the
    /// bytes of such a connection are counted, and its requests are not. With `router.reportingRoutes()` in place of the
    /// router, the reports have the router's routes.
    public static func http1(
        reportingTo monitor: TrafficMonitor,
        configuration: HTTP1Channel.Configuration = .init()
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ReportingChannel(
                base: HTTP1Channel(responder: RequestRoutes.telling(responder), configuration: configuration),
                monitor: monitor
            )
        }
    }

    #if TLS
    /// TLS with HTTP/2 for clients that ask for it and HTTP/1.1 for other clients, as with
    /// `.http2Upgrade(tlsConfiguration:)`. The server reports what its connections move.
    ///
    /// - Throws: If the configuration has no usable certificate.
    public static func http2Upgrade(
        reportingTo monitor: TrafficMonitor,
        tlsConfiguration: TLSConfiguration,
        configuration: HTTP2UpgradeChannel.Configuration = .init()
    ) throws -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ReportingChannel(
                base: try HTTP2UpgradeChannel(
                    tlsConfiguration: tlsConfiguration,
                    configuration: configuration,
                    responder: RequestRoutes.tellingStreams(responder)
                ),
                monitor: monitor
            )
        }
    }

    /// HTTP/2 without TLS, as with `.plaintextHTTP2()`, for clients that know that the server speaks it. The server
    /// reports what its connections move.
    public static func plaintextHTTP2(
        reportingTo monitor: TrafficMonitor,
        configuration: HTTP2Channel.Configuration = .init()
    ) -> HTTPServerBuilder {
        HTTPServerBuilder { responder in
            ReportingChannel(
                base: HTTP2Channel(responder: RequestRoutes.tellingStreams(responder), configuration: configuration),
                monitor: monitor,
                version: .http2
            )
        }
    }
    #endif
}
