public import Hummingbird

extension HTTPResponderBuilder where Responder.Context: RequestContext {
    /// The same router, which also reports its path of a request's endpoint (`/users/{id}`) as the route of the
    /// exchange: `Application(router: router.reportingRoutes(), server: .http1(reportingTo: .shared))`.
    ///
    /// Requests without an endpoint are `_unmatched`. Files that `FileMiddleware` finds keep their redacted path. This
    /// function does nothing if the server was not built with
    /// ``HummingbirdCore/HTTPServerBuilder/http1(reportingTo:configuration:)`` or a similar function of this module.
    /// The function returns a router because a middleware would cost a request three times as much.
    public func reportingRoutes() -> ReportingRouter<Self> { ReportingRouter(base: self) }
}

/// A router whose responder reports its routes; see ``Hummingbird/HTTPResponderBuilder/reportingRoutes()``.
public struct ReportingRouter<Base: HTTPResponderBuilder>: HTTPResponderBuilder
where Base.Responder.Context: RequestContext {
    let base: Base

    public func buildResponder() -> ReportingResponder<Base.Responder> {
        ReportingResponder(base: self.base.buildResponder())
    }
}

/// A responder that reports the routes of another responder.
public struct ReportingResponder<Base: HTTPResponder>: HTTPResponder where Base.Context: RequestContext {
    let base: Base

    public func respond(to request: Request, context: Base.Context) async throws -> Response {
        let route = RequestRoute.current
        route?.begin()
        // The path is known once the router has looked, also if the endpoint throws.
        defer { if let route, route.isWanted { route.name(context.endpointPath) } }
        return try await self.base.respond(to: request, context: context)
    }
}
