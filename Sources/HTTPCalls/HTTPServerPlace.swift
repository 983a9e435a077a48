import FoundationEssentials

/// Where a server listens.
package enum HTTPServerPlace: Sendable {
    case socket(path: String)
    /// - Parameter tls: Whom to believe; `nil` without TLS.
    case network(host: String, port: Int, tls: TLSTrust?)
}

/// The parts of a URL that a request needs.
package struct HTTPTarget: Sendable, Hashable {
    package let isEncrypted: Bool
    /// A name or an address, without the brackets of IPv6.
    package let host: String
    package let port: Int
    /// For the field `Host` (RFC 9110 section 7.2).
    package let authority: String
    /// Path and query.
    package let path: String

    /// - Returns: `nil` if the text is no URL of `http` or `https`.
    package init?(_ text: String) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(), ["http", "https"].contains(scheme),
            let host = url.host(), !host.isEmpty
        else { return nil }
        self.isEncrypted = scheme == "https"
        self.host = host.first == "[" ? String(host.dropFirst().dropLast()) : host
        self.port = url.port ?? (self.isEncrypted ? 443 : 80)
        self.authority = (self.host.contains(":") ? "[\(self.host)]" : host) + (url.port.map { ":\($0)" } ?? "")
        let path = url.path(percentEncoded: true)
        self.path = (path.isEmpty ? "/" : path) + (url.query(percentEncoded: true).map { "?\($0)" } ?? "")
    }
}
