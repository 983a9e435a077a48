import ArgumentParser
import FoundationEssentials

/// Where a daemon listens.
enum DaemonAddress: Hashable, Sendable {
    /// Its control socket, on this machine. The kernel tells the daemon who asks.
    case socket(path: String)
    /// Over TCP, unencrypted. The daemon does not know who asks.
    case network(DaemonURL)

    var isLocal: Bool { if case .socket = self { true } else { false } }
}

extension DaemonAddress: CustomStringConvertible {
    var description: String {
        switch self {
        case .socket(let path): path
        case .network(let url): url.description
        }
    }
}

/// The base URL of a daemon's API, such as `http://127.0.0.1:10419`, or below a path of a proxy.
struct DaemonURL: Hashable, Sendable {
    /// A name or an address, without the brackets of IPv6.
    let host: String
    let port: Int
    /// What comes before `/v1`: without a slash at its end.
    let path: String

    /// - Throws: `ValidationError`, which says what is wrong.
    init(_ text: String) throws {
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), let url = URL(string: text),
            let scheme = url.scheme?.lowercased(), let host = url.host(), !host.isEmpty
        else { throw ValidationError("it must be such as http://127.0.0.1:10419") }
        guard scheme != "https" else {
            throw ValidationError(
                "trafficd has no TLS: use ssh -L 10419:127.0.0.1:10419 HOST, and http://127.0.0.1:10419 here"
            )
        }
        guard scheme == "http" else { throw ValidationError("it must begin with http://") }
        guard url.user() == nil, url.password() == nil else { throw ValidationError("trafficd knows no users") }
        guard url.query() == nil, url.fragment == nil else {
            throw ValidationError("it must end before ? and #, and before /v1")
        }
        if let port = url.port, !(1...65_535).contains(port) { throw ValidationError("\(port) is no port") }
        self.host = host.first == "[" ? String(host.dropFirst().dropLast()) : host
        self.port = url.port ?? 80
        let path = url.path(percentEncoded: true)
        self.path = String(path.reversed().drop { $0 == "/" }.reversed())
    }

    /// Host and port as in the field `Host` (RFC 9112 section 3.2).
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == 80 ? host : "\(host):\(self.port)"
    }
}

extension DaemonURL: CustomStringConvertible {
    var description: String { "http://\(self.authority)\(self.path)" }
}
