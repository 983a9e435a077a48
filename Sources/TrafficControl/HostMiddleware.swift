import Hummingbird
import TrafficModel

/// Refuses requests that were sent to a name that is not this host's.
///
/// A page in a browser can have its own name resolve to an address that the browser reaches and its maker does not (DNS rebinding), and would
/// be allowed to read the answers. Whoever uses an address, or `localhost`, asked no name server.
struct HostMiddleware: RouterMiddleware {
    private let names: Set<String>

    /// - Parameter names: In any case, without a port.
    init(names: Set<String>) {
        self.names = Set(names.map { $0.lowercased() })
    }

    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        let authority = request.head.authority ?? ""
        guard self.isThisHost(authority) else { throw Problem.otherHost(authority) }
        return try await next(request, context)
    }

    /// - Parameter authority: `host:port`, `[address]:port` or either without a port (RFC 3986 section 3.2).
    func isThisHost(_ authority: String) -> Bool {
        if authority.first == "[" {
            return InternetAddress(String(authority.dropFirst().prefix { $0 != "]" })) != nil
        }
        let host = authority.prefix { $0 != ":" }.lowercased()
        return host == "localhost" || InternetAddress(host) != nil || self.names.contains(host)
    }
}
