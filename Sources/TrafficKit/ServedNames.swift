import Synchronization
import TrafficReport

/// Bounds the names of exchanges of a process's servers, because clients choose the host and the path of a request.
///
/// The daemon has rows for 2,000 endpoints of a service and never takes a row back, so strangers must not fill them.
/// Names beyond the bounds become ``other``. The daemon uses the same text, so the bytes are in its row `_other`.
final class ServedNames: Sendable {
    static let other = "_other"
    /// The route of requests that the router does not know. OpenTelemetry gives these requests no route (`http.route`
    /// is absent).
    static let unmatched = "_unmatched"
    /// Hosts with a name of their own, if the app does not list its hosts. Most servers answer for a few hosts.
    static let mostHosts = 32
    /// Pairs of a host and a path, where the path is the route: half of a service's rows.
    static let mostPaths = 1_000
    /// Bytes of a host (RFC 1035 section 2.3.4).
    private static let longestHost = 253

    private struct Met {
        var hosts: Set<String> = []
        /// Hashes of host and route with a key of this process. So strangers cannot choose how much memory the set
        /// takes.
        var paths: Set<Int> = []
    }

    /// The app's own hosts; `nil`: the app does not list them.
    private let own: Set<String>?
    private let met = Mutex(Met())

    /// - Parameter own: The only hosts that have a name of their own. `nil`: the first hosts that come.
    init(own: [String]?) {
        self.own = own.map { Set($0.map { $0.lowercased() }) }
    }

    /// - Parameters:
    ///   - host: Without a port, in lower case.
    ///   - route: As ``RouteNaming`` makes it.
    ///   - isPath: Only the request's path makes the route.
    func name(host: String, route: String, isPath: Bool) -> (host: String, route: String) {
        self.met.withLock { met in
            // A host gets no name of its own from requests that are all unmatched.
            let host = self.has(host, &met, isNew: route != Self.unmatched) ? host : Self.other
            guard isPath else { return (host, route) }
            var hasher = Hasher()
            hasher.combine(host)
            hasher.combine(route)
            let path = hasher.finalize()
            if met.paths.contains(path) { return (host, route) }
            guard met.paths.count < Self.mostPaths else { return (host, Self.other) }
            met.paths.insert(path)
            return (host, route)
        }
    }

    private func has(_ host: String, _ met: inout Met, isNew: Bool) -> Bool {
        if let own { return own.contains(host) }
        if met.hosts.contains(host) { return true }
        guard isNew, met.hosts.count < Self.mostHosts, host.utf8.count <= Self.longestHost else { return false }
        met.hosts.insert(host)
        return true
    }
}
