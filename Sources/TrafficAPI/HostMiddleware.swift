import HTTPTypes
import Hummingbird
import TrafficModel
import TrafficPage

/// Refuses requests that were sent to a name that is not this host's, and requests of pages of other sites.
///
/// A web page can let its own name resolve to an address that the browser can reach and the page's author can't (DNS
/// rebinding). The browser would then let the page read the answers. A client that uses an address or `localhost` asked
/// no name server.
struct HostMiddleware: RouterMiddleware {
    private let names: Set<String>
    private let takesPlainNames: Bool
    /// Browsers send one of these with every request, and programs that look for numbers do not.
    private static let ofBrowsers: [HTTPField.Name] = [.acceptLanguage, .referer, .origin]

    /// - Parameters:
    ///   - names: In upper or lower case, without a port.
    ///   - takesPlainNames: Whether a client that is no browser may use any name without a dot: clients of a Unix socket
    ///     write anything there.
    init(names: Set<String>, takesPlainNames: Bool = false) {
        self.names = Set(names.map { $0.lowercased() })
        self.takesPlainNames = takesPlainNames
    }

    func handle(
        _ request: Request,
        context: ControlContext,
        next: (Request, ControlContext) async throws -> Response
    ) async throws -> Response {
        let authority = request.head.authority ?? ""
        let isPlain =
            self.takesPlainNames && !authority.contains(".")
            && !Self.ofBrowsers.contains { request.headers[$0] != nil }
        guard isPlain || self.isThisHost(authority) else { throw Problem.otherHost(authority) }
        // Of requests whose answers a page could read, a browser names the page's origin (RFC 6454 section 7); of all, most
        // browsers say whether the page is of another site. Other clients send neither.
        // A link on another site may lead to the page, which has no numbers and can't be in a frame.
        let isLink = request.headers[.secFetchMode] == "navigate" && PageFile.isPath(request.uri.path)
        if !isLink, let site = request.headers[.secFetchSite], site != "none", site != "same-origin" {
            throw Problem.otherOrigin("another site")
        }
        if let origin = request.headers[.origin] {
            let scheme = ["http://", "https://"].first { origin.hasPrefix($0) }
            guard let scheme, origin.dropFirst(scheme.count) == authority else { throw Problem.otherOrigin(origin) }
        }
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

extension HTTPField.Name {
    /// Of W3C's Fetch Metadata Request Headers.
    fileprivate static var secFetchSite: Self { Self("Sec-Fetch-Site")! }
    fileprivate static var secFetchMode: Self { Self("Sec-Fetch-Mode")! }
}
