import HummingbirdCore
import Logging
import NIOCore
import TrafficKit
import TrafficKitNIO

#if TLS
import NIOHTTP2
import NIOSSL
#endif

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
        let routes = TrafficRoutes(of: self.router, streamNumber: RequestRoutes.streamNumber)
        return self.base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // The TLS handler comes from `base`. If this channel is inside a channel for TLS, the handler was there
            // before.
            #if TLS
            let tls = try? pipeline.handler(type: NIOSSLServerHandler.self)
            #else
            let tls: (any ChannelHandler)? = nil
            #endif
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
        await RequestRoutes.$current.withValue(routes) {
            await self.base.handle(value: value.base, logger: logger)
        }
    }
}

/// Where to report the router's path of the current request.
enum RequestRoutes {
    /// For the connection of this task. `nil`: the connection is not counted.
    @TaskLocal static var current: TrafficRoutes?

    /// Names are asked for on the connection of this task.
    static var areWanted: Bool { Self.current?.isWanted == true }

    /// A responder that tells the requests of an HTTP/1.x connection apart. Each request is answered before the next is
    /// read.
    static func telling(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            Self.current?.beginRequest()
            try await responder(request, writer, channel)
        }
    }

    /// The same for connections that may speak either version. Each stream of HTTP/2 has a channel and a task of its
    /// own. The server answers on other threads, and asking a channel there for its number takes longer than the
    /// answer. So the channel goes with the answer. The router is not told of the channel, but runs in the same task: a
    /// task-local value for each stream would cost a request five times as much, with two allocations.
    static func tellingStreams(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTPChannelHandler.Responder {
        { request, writer, channel in
            let (routes, task) = (Self.current, Self.task)
            if Self.isStream(channel) {
                routes?.beginRequest(ofStreamOf: channel, in: task)
            } else {
                routes?.beginRequest()
            }
            defer { routes?.endRequest(in: task) }
            try await responder(request, writer, channel)
        }
    }

    /// The router has answered a request of this task.
    ///
    /// - Parameter endpoint: What the router says of the request: its path, or a word from the responder or middleware
    ///   that answered in place of the router.
    static func name(_ endpoint: String?, _ routes: TrafficRoutes) {
        guard routes.isWanted else { return }
        let answer: RouteAnswer =
            switch endpoint {
            case let path? where path.utf8.first == UInt8(ascii: "/"): .template(path)
            case nil, "NotFound": .unmatched
            // A file of that name, or a word of a middleware: the request's path is the name.
            default: .path
            }
        routes.answer(answer) { Self.task }
    }

    /// Differs from all other tasks that run now: where the task is in memory. Its hash would take longer than all the
    /// rest.
    private static var task: UInt { withUnsafeCurrentTask { unsafeBitCast($0, to: UInt.self) } }

    /// The parent of a stream's channel is the connection's channel, whose parent is the server's channel.
    private static func isStream(_ channel: any Channel) -> Bool { channel.parent?.parent != nil }

    /// Called on the channel's event loop.
    @Sendable static func streamNumber(_ channel: any Channel) -> Int? {
        #if TLS
        (try? channel.syncOptions?.getOption(HTTP2StreamChannelOptions.streamID)).map { Int($0) }
        #else
        nil
        #endif
    }
}
