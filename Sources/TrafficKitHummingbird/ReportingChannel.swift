import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP2
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
        let routes = TrafficRoutes(of: self.router, streamNumber: RequestRoute.streamNumber)
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
        await RequestRoute.$current.withValue(RequestRoute(routes: routes)) {
            await self.base.handle(value: value.base, logger: logger)
        }
    }
}

/// Where to report the router's path of the current request.
struct RequestRoute: Sendable {
    /// For the connection of this task. `nil`: the connection is not counted.
    @TaskLocal static var current: RequestRoute?

    let routes: TrafficRoutes
    /// The channel of the request's HTTP/2 stream. `nil` for HTTP/1.x.
    var stream: (any Channel)?

    /// Names are asked for on this connection.
    var isWanted: Bool { self.routes.isWanted }

    /// The router has the request.
    func begin() { self.routes.router.note() }

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
        if let stream {
            self.routes.answer(answer, ofStreamOf: stream)
        } else {
            self.routes.answer(answer)
        }
    }

    /// A responder that tells the requests of an HTTP/1.x connection apart. Each request is answered before the next is
    /// read.
    static func telling(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            Self.current?.routes.beginRequest()
            try await responder(request, writer, channel)
        }
    }

    /// The same for connections that may speak either version. Each stream of HTTP/2 has a channel of its own. The
    /// server answers on other threads, and asking a channel there for its number takes longer than the answer. So the
    /// channel goes with the answer.
    static func tellingStreams(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            guard var route = Self.current else { return try await responder(request, writer, channel) }
            guard Self.isStream(channel) else {
                route.routes.beginRequest()
                return try await responder(request, writer, channel)
            }
            route.stream = channel
            // A closure cannot consume a captured writer. An optional writer would allow it, but costs thousands of
            // instructions, because the program asks for the type's layout at run time.
            let place = UnsafeMutablePointer<ResponseWriter>.allocate(capacity: 1)
            place.initialize(to: writer)
            defer { place.deallocate() }
            try await Self.$current.withValue(route) { try await responder(request, place.move(), channel) }
        }
    }

    /// The parent of a stream's channel is the connection's channel, whose parent is the server's channel.
    private static func isStream(_ channel: any Channel) -> Bool { channel.parent?.parent != nil }

    /// Called on the channel's event loop.
    @Sendable static func streamNumber(_ channel: any Channel) -> Int? {
        (try? channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)).map { Int($0) }
    }
}
