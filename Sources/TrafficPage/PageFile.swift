/// A file of the page that the daemon serves. The page is static: all numbers come from the API.
public struct PageFile: Sendable {
    public let name: String
    public let mediaType: String
    private let text: StaticString

    public var bytes: [UInt8] {
        Array(unsafe UnsafeBufferPointer(start: self.text.utf8Start, count: self.text.utf8CodeUnitCount))
    }

    /// What the browser asks for first, at `/`, and the files that it needs, at `/page/NAME`.
    public static let all: [PageFile] = PageContents.all.map { name, text in
        PageFile(name: name, mediaType: Self.mediaType(of: name), text: text)
    }

    public static let index = "index.html"

    private static func mediaType(of name: String) -> String {
        switch name.split(separator: ".").last {
        case "html": "text/html; charset=utf-8"
        case "js": "text/javascript; charset=utf-8"
        case "css": "text/css; charset=utf-8"
        case "svg": "image/svg+xml"
        default: "application/octet-stream"
        }
    }

    /// Of requests.
    public var path: String { self.name == Self.index ? "/" : "/page/\(self.name)" }

    /// Whether a path of a request is one of the page's files.
    public static func isPath(_ path: String) -> Bool { path == "/" || path.hasPrefix("/page/") }

    /// The page asks no host but the daemon's own, and runs no script but its own. Texts never become markup
    /// (w3.org/TR/trusted-types): names of processes are chosen by strangers.
    public static let contentSecurityPolicy = """
        default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; \
        form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'
        """
}
