import FoundationEssentials
import TrafficModel

/// Where a daemon listens.
enum DaemonAddress: Hashable, Sendable {
    /// Its control socket, on this machine. The kernel tells the daemon who asks.
    case socket(path: String)
    /// Over TCP, with or without TLS. The daemon does not know who asks.
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
    let isEncrypted: Bool
    /// A name or an address, without the brackets of IPv6.
    let host: String
    let port: Int
    /// What comes before `/v1`: without a slash at its end.
    let path: String

    /// What is wrong with a text. The message does not have the text, which may have a password.
    struct Fault: Error, CustomStringConvertible {
        let description: String

        init(_ description: String) { self.description = description }
    }

    init(_ text: String) throws(Fault) {
        guard text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }), let url = URL(string: text),
            let scheme = url.scheme?.lowercased(), let host = url.host(), !host.isEmpty
        else { throw Fault("it must be such as http://127.0.0.1:10419") }
        guard scheme == "http" || scheme == "https" else { throw Fault("it must begin with http:// or https://") }
        guard scheme == "http" || BuildTraits.hasTLS else { throw Fault(BuildTraits.noTLS) }
        guard url.user() == nil, url.password() == nil else { throw Fault("trafficd knows no users") }
        guard url.query() == nil, url.fragment == nil else {
            throw Fault("it must end before ? and #, and before /v1")
        }
        // `host()` leaves a zone encoded, and a zone means nothing to the other machine.
        guard !host.contains("%") else { throw Fault("a host with % is not possible") }
        // Not `url.port`, which is `nil` for a port of too many digits.
        let authority = text.dropFirst(scheme.count + 3).prefix { $0 != "/" }
        let behind = authority.lastIndex(of: "]").map { authority[$0...].dropFirst() } ?? authority.drop { $0 != ":" }
        let usual: UInt16 = scheme == "https" ? 443 : 80
        guard let port = behind.count > 1 ? UInt16(behind.dropFirst()) : usual, port > 0 else {
            throw Fault("its port is not from 1 to 65535")
        }
        self.isEncrypted = scheme == "https"
        self.host = host.first == "[" ? String(host.dropFirst().dropLast()) : host
        self.port = Int(port)
        let path = url.path(percentEncoded: true)
        self.path = String(path.reversed().drop { $0 == "/" }.reversed())
    }

    /// Host and port as in the field `Host` (RFC 9112 section 3.2).
    var authority: String {
        let host = self.host.contains(":") ? "[\(self.host)]" : self.host
        return "\(host):\(self.port)"
    }
}

extension DaemonURL: CustomStringConvertible {
    var description: String { "http\(self.isEncrypted ? "s" : "")://\(self.authority)\(self.path)" }
}
