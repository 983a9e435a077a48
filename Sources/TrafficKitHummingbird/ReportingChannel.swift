import HummingbirdCore
import Logging
import NIOCore
import NIOSSL
import TrafficKit
import TrafficKitNIO

/// A channel that counts what passes through the connections of another channel.
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
            // The TLS handler comes from `base`. If this channel is inside a channel for TLS, the handler was there
            // before.
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

/// Where to report the router's path of the current request.
struct RequestRoute: Sendable {
    /// For the connection of this task. `nil`: the connection is not counted.
    @TaskLocal static var current: RequestRoute?

    let routes: TrafficRoutes
    let router: RouterPresence
    /// The number of the HTTP/2 stream. `nil` for HTTP/1.x.
    var stream: Int?

    /// Names are asked for on this connection.
    var isWanted: Bool { self.routes.isWanted }

    /// The router has the request.
    func begin() { self.router.note() }

    /// - Parameter endpoint: What the router says of the request: its path, or a word from the responder or middleware
    ///   that answered in place of the router.
    func name(_ endpoint: String?) {
        let answer: RouteAnswer =
            switch endpoint {
            case let path? where path.utf8.first == UInt8(ascii: "/"): .template(path)
            case nil, "NotFound": .unmatched
            // A file of that name, or a word of a middleware: the request's path is the name.
            default: .path
            }
        self.routes.answer(answer, ofStream: self.stream)
    }

    /// A responder that tells the requests of an HTTP/1.x connection apart. Each request is answered before the next is
    /// read.
    static func telling(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            Self.current?.routes.beginRequest()
            try await responder(request, writer, channel)
        }
    }

    /// The same for connections that may speak either version.
    static func telling(
        _ responder: @escaping HTTPChannelHandler.Responder,
        _ streams: StreamNumbers
    ) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            guard var route = Self.current else { return try await responder(request, writer, channel) }
            guard let stream = streams.number(of: channel) else {
                // A stream that has ended has no number either.
                if !StreamNumbers.isStream(channel) { route.routes.beginRequest() }
                return try await responder(request, writer, channel)
            }
            route.stream = stream
            var writer: ResponseWriter? = writer
            try await Self.$current.withValue(route) { try await responder(request, writer.take()!, channel) }
        }
    }
}
