import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import TrafficKit
import TrafficKitNIO

/// A channel that counts what passes through another one's.
struct ReportingChannel<Base: ServerChildChannel>: ServerChildChannel {
    struct Value: ServerChildChannelValue {
        let base: Base.Value
        /// `nil`: the connection is not counted.
        let routes: TrafficRoutes?

        var channel: any Channel { self.base.channel }
    }

    let base: Base
    let monitor: TrafficMonitor
    let version: TrafficHTTPHandler.Version
    private let router = RouterPresence()

    init(base: Base, monitor: TrafficMonitor, version: TrafficHTTPHandler.Version = .http1) {
        (self.base, self.monitor, self.version) = (base, monitor, version)
    }

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let routes = TrafficRoutes(of: self.router)
        return self.base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // Of the other channel, or there before, where this is within a channel for TLS.
            let tls = try? pipeline.handler(type: NIOSSLServerHandler.self)
            let isCounted = try pipeline.addTrafficHandlers(
                role: .server,
                version: self.version,
                monitor: self.monitor,
                behind: tls,
                tlsEndedAt: 0,
                routes: routes
            )
            return Value(base: value, routes: isCounted ? routes : nil)
        }
    }

    func handle(value: Value, logger: Logger) async {
        guard let routes = value.routes else { return await self.base.handle(value: value.base, logger: logger) }
        await RequestRoute.$current.withValue(RequestRoute(routes: routes, router: self.router)) {
            await self.base.handle(value: value.base, logger: logger)
        }
    }
}

/// Where the router's path of the request at hand belongs.
struct RequestRoute: Sendable {
    /// Of the connection whose task this is; `nil`: it is not counted.
    @TaskLocal static var current: RequestRoute?

    let routes: TrafficRoutes
    let router: RouterPresence
    /// Of HTTP/2.
    var stream: Int?

    /// Somebody listens to the connection.
    var isWanted: Bool { self.routes.isWanted }

    /// The router has the request.
    func begin() { self.router.note() }

    /// - Parameter endpoint: What the router says of it: its path, or a word of whoever answered in its place.
    func name(_ endpoint: String?) {
        let answer: RouteAnswer =
            switch endpoint {
            case let path? where path.utf8.first == UInt8(ascii: "/"): .template(path)
            case nil, "NotFound": .unmatched
            // A file of that name, or a middleware's own: the path says it.
            default: .path
            }
        self.routes.answer(answer, ofStream: self.stream)
    }

    /// A responder that tells apart what a connection's requests are called, of HTTP/1.x: each is answered before the next is read.
    static func telling(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            Self.current?.routes.beginRequest()
            try await responder(request, writer, channel)
        }
    }

    /// The same of connections that may speak either version.
    static func telling(
        _ responder: @escaping HTTPChannelHandler.Responder,
        _ streams: StreamNumbers
    ) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            guard var route = Self.current else { return try await responder(request, writer, channel) }
            guard let stream = streams.number(of: channel) else {
                // A stream that is gone has no number.
                if !StreamNumbers.isStream(channel) { route.routes.beginRequest() }
                return try await responder(request, writer, channel)
            }
            route.stream = stream
            var writer: ResponseWriter? = writer
            try await Self.$current.withValue(route) { try await responder(request, writer.take()!, channel) }
        }
    }
}
