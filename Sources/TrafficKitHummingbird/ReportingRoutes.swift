public import Hummingbird

extension HTTPResponderBuilder where Responder.Context: RequestContext {
    /// The same router, which hands its path of a request's endpoint (`/users/{id}`) over as the route of the exchange:
    /// `Application(router: router.reportingRoutes(), server: .http1(reportingTo: .shared))`.
    ///
    /// Requests without an endpoint are `_unmatched`, and files that `FileMiddleware` finds keep their redacted path. It does nothing where the server was not built with
    /// ``HummingbirdCore/HTTPServerBuilder/http1(reportingTo:configuration:)`` or one of its kind. It is no middleware, which would cost a
    /// request three times as much.
    public func reportingRoutes() -> ReportingRouter<Self> { ReportingRouter(base: self) }
}

/// A router whose responder tells its routes; see ``Hummingbird/HTTPResponderBuilder/reportingRoutes()``.
public struct ReportingRouter<Base: HTTPResponderBuilder>: HTTPResponderBuilder
where Base.Responder.Context: RequestContext {
    let base: Base

    public func buildResponder() -> ReportingResponder<Base.Responder> {
        ReportingResponder(base: self.base.buildResponder())
    }
}

/// A responder that tells the routes of another one.
public struct ReportingResponder<Base: HTTPResponder>: HTTPResponder where Base.Context: RequestContext {
    let base: Base

    public func respond(to request: Request, context: Base.Context) async throws -> Response {
        guard let route = RequestRoute.current, route.isWanted else {
            return try await self.base.respond(to: request, context: context)
        }
        route.begin()
        // Known once the router has looked, also where the endpoint throws.
        defer { route.name(context.endpointPath) }
        return try await self.base.respond(to: request, context: context)
    }
}
