import Hummingbird
import HummingbirdCore
import Logging
import NIOCore

/// A channel with the floor's handler, and a slot for the route of each connection.
struct FloorChannel<Base: ServerChildChannel>: ServerChildChannel {
    struct Value: ServerChildChannelValue {
        let base: Base.Value
        let route: FloorRoute

        var channel: any Channel { self.base.channel }
    }

    let base: Base
    let socket: FloorSocket
    let isHTTP2: Bool
    let parses: Bool

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        let route = FloorRoute()
        return self.base.setup(channel: channel, logger: logger).flatMapThrowing { value in
            let handler = FloorHandler(
                role: .server,
                isHTTP2: self.isHTTP2,
                parses: self.parses,
                socket: self.socket,
                route: route,
                options: channel.syncOptions
            )
            try channel.pipeline.syncOperations.addHandler(handler, position: .first)
            return Value(base: value, route: route)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await FloorRoute.$current.withValue(value.route) {
            await self.base.handle(value: value.base, logger: logger)
        }
    }
}

/// A router that puts its path into the slot.
struct FloorRouter<Base: HTTPResponderBuilder>: HTTPResponderBuilder where Base.Responder.Context: RequestContext {
    let base: Base

    func buildResponder() -> FloorResponder<Base.Responder> { FloorResponder(base: self.base.buildResponder()) }
}

struct FloorResponder<Base: HTTPResponder>: HTTPResponder where Base.Context: RequestContext {
    let base: Base

    func respond(to request: Request, context: Base.Context) async throws -> Response {
        defer { FloorRoute.current?.put(context.endpointPath) }
        return try await self.base.respond(to: request, context: context)
    }
}
