import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1
import NIOHTTPTypesHTTP1
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
        // The first Host field is the authority; a second one is an error (RFC 9112 section 3.2).
        guard request.headers[.secondHost] == nil else { throw Problem.severalHosts }
        try self.check(authority, isOfBrowser: Self.ofBrowsers.contains { request.headers[$0] != nil })
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

    func check(_ authority: String, isOfBrowser: Bool) throws(Problem) {
        guard let host = Self.host(of: authority) else { throw .malformedHost(authority) }
        let isPlain = self.takesPlainNames && !isOfBrowser && !host.contains(".")
        guard isPlain || self.isThisHost(host) else { throw .otherHost(authority) }
    }

    /// The host in `host:port`, `[address]:port` or either without a port (RFC 9110 section 7.2). `nil` for anything
    /// else: an address in front of another name must not pass for the host.
    private static func host(of authority: String) -> Substring? {
        let end =
            authority.first == "["
            ? authority.firstIndex(of: "]").map(authority.index(after:))
            : authority.firstIndex(of: ":") ?? authority.endIndex
        guard let end else { return nil }
        let (host, port) = (authority[..<end], authority[end...].dropFirst())
        let isDigit = { (byte: UInt8) in (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
        guard authority[end...].first ?? ":" == ":", port.utf8.allSatisfy(isDigit), !host.contains("@") else {
            return nil
        }
        return host
    }

    private func isThisHost(_ host: Substring) -> Bool {
        if host.first == "[" { return InternetAddress(String(host.dropFirst().dropLast())) != nil }
        let name = host.lowercased()
        return name == "localhost" || InternetAddress(name) != nil || self.names.contains(name)
    }
}

/// Replaces the Host field of a request whose target is a URI by that URI's authority, as a server must (RFC 9112 section
/// 3.2.2). The library's conversion of requests would go by the field.
final class TargetHostHandler: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    /// A handler that puts this one where requests still have their target.
    static func installer() -> any RemovableChannelHandler { Installer() }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = self.unwrapInboundIn(data), let authority = Self.authority(of: head.uri),
            head.headers["Host"].count <= 1  // otherwise the request is refused
        else { return context.fireChannelRead(data) }
        head.headers.replaceOrAdd(name: "Host", value: String(authority))
        context.fireChannelRead(self.wrapInboundOut(.head(head)))
    }

    /// - Returns: `nil` for a target that is a path.
    private static func authority(of target: String) -> Substring? {
        guard target.first != "/", let scheme = target.firstRange(of: "://") else { return nil }
        return target[scheme.upperBound...].prefix { !"/?#".contains($0) }
    }

    private final class Installer: ChannelInboundHandler, RemovableChannelHandler {
        typealias InboundIn = NIOAny

        func handlerAdded(context: ChannelHandlerContext) {
            let pipeline = context.pipeline.syncOperations
            do {
                let codec = try pipeline.handler(type: HTTP1ToHTTPServerCodec.self)
                try pipeline.addHandler(TargetHostHandler(), position: .before(codec))
            } catch {
                context.close(promise: nil)
            }
        }
    }
}

extension HTTPField.Name {
    /// HTTPTypes has the first one in the request's authority.
    fileprivate static var secondHost: Self { Self("Host")! }
    /// Of W3C's Fetch Metadata Request Headers.
    fileprivate static var secFetchSite: Self { Self("Sec-Fetch-Site")! }
    fileprivate static var secFetchMode: Self { Self("Sec-Fetch-Mode")! }
}
