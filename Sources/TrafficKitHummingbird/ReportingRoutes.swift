public import Hummingbird
import TrafficKitNIO

extension HTTPResponderBuilder where Responder.Context: RequestContext {
    /// The same router, which also reports its path of a request's endpoint (`/users/{id}`) as the route of the
    /// exchange: `Application(router: router.reportingRoutes(), server: .http1(reportingTo: .shared))`.
    ///
    /// Requests without an endpoint are `_unmatched`. Files that `FileMiddleware` finds keep their redacted path. This
    /// function does nothing if the server was not built with
    /// ``HummingbirdCore/HTTPServerBuilder/http1(reportingTo:configuration:)`` or a similar function of this module.
    /// A responder around this router must ask it in the request's own task; with HTTP/2 the exchange is otherwise
    /// `_unmatched`. The function returns a router because a middleware would cost a request three times as much.
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

    @inline(__always)  // into the witness, which would be a frame more
    public func respond(to request: Request, context: Base.Context) async throws -> Response {
        let routes = RequestRoutes.current
        routes?.router.note()
        // The path is known once the router has looked, also if the endpoint throws.
        defer { if let routes { RequestRoutes.name(context.endpointPath, routes) } }
        return try await self.base.respond(to: request, context: context)
    }
}
