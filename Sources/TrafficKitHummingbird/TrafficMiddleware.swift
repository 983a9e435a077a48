public import Hummingbird
import TrafficKitNIO

/// Hands the router's path of a request's endpoint (`/users/{id}`) over as the route of its exchange: `router.add(middleware: TrafficMiddleware())`.
///
/// Belongs before other middleware. Requests without an endpoint keep their redacted path. It does nothing where the server was not built with
/// ``HummingbirdCore/HTTPServerBuilder/http1(reportingTo:configuration:)`` or one of its kind.
public struct TrafficMiddleware<Context: RequestContext>: RouterMiddleware {
    public init() {}

    public func handle(
        _ request: Request,
        context: Context,
        next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        Self.name(context)
        // A router of result builders knows it once it has come to the endpoint.
        defer { Self.name(context) }
        return try await next(request, context)
    }

    private static func name(_ context: Context) {
        // What is no path is the name of a middleware that answers itself.
        guard let path = context.endpointPath, path.hasPrefix("/") else { return }
        RequestRoute.current?.name(path)
    }
}
