import Synchronization
import TrafficReport

/// The names of the targets that come again and again: working one out takes longer than all the rest of an exchange.
///
/// It keeps no query and nothing long, and forgets everything when it is full.
final class NameCache: Sendable {
    private static let limit = 512
    private static let longestMethod = 32
    private static let longestTarget = 128
    /// A name of 253 characters (RFC 1035 section 2.3.4) and a port.
    private static let longestHost = 260

    static func keeps(_ request: HTTP1Head.Request) -> Bool {
        request.method.utf8.count <= Self.longestMethod && request.host.utf8.count <= Self.longestHost
            && request.target.utf8.count <= Self.longestTarget && !request.target.utf8.contains(UInt8(ascii: "?"))
    }

    private let names = Mutex<[HTTP1Head.Request: Report.Name?]>([:])

    func name(of request: HTTP1Head.Request, _ work: () -> Report.Name?) -> Report.Name? {
        guard Self.keeps(request) else { return work() }
        if let known = self.names.withLock({ $0[request] }) { return known }
        let name = work()
        self.names.withLock { names in
            if names.count >= Self.limit { names.removeAll(keepingCapacity: true) }
            names[request] = .some(name)
        }
        return name
    }
}

enum HostNaming {
    /// Of `Host` or an authority (RFC 3986 section 3.2): without user and port, in lower case.
    static func host(of authority: String) -> String {
        if authority.utf8.allSatisfy(Self.isPlain) { return authority }
        var host = Substring(authority)
        if let at = host.lastIndex(of: "@") { host = host[host.index(after: at)...] }
        if host.hasPrefix("[") {
            if let end = host.firstIndex(of: "]") { host = host[...end] }
        } else if let colon = host.firstIndex(of: ":"), host[host.index(after: colon)...].allSatisfy(\.isNumber) {
            host = host[..<colon]
        }
        return host.lowercased()
    }

    /// Nothing to leave out or to change.
    private static func isPlain(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"):
            true
        default: false
        }
    }
}
