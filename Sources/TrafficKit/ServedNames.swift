import Synchronization
import TrafficReport

/// What a process's servers call their exchanges, within bounds: the host and the path of a request come from whoever asks.
///
/// A daemon has rows for 2,000 names of a service and never takes one back, so strangers must not fill them. What is beyond the bounds is
/// ``other``, as the daemon calls it too, so its bytes are in that row.
final class ServedNames: Sendable {
    static let other = "_other"
    /// The route of requests that a router has no name for. OpenTelemetry gives them none (`http.route` is absent).
    static let unmatched = "_unmatched"
    /// Hosts that have a name, where the app does not say which are its own. A server answers for a few as a rule.
    static let mostHosts = 32
    /// Hosts with a path each, where the path is the route: half of a service's rows.
    static let mostPaths = 1_000
    /// RFC 1035 section 2.3.4.
    private static let longestHost = 253

    private struct Met {
        var hosts: Set<String> = []
        /// By their hashes, with a key of this process, so that no stranger can say how much memory they take.
        var paths: Set<Int> = []
    }

    /// The app's; `nil`: it does not say.
    private let own: Set<String>?
    private let met = Mutex(Met())

    /// - Parameter own: Hosts that always have a name, and nothing else has. `nil`: the first that come.
    init(own: [String]?) {
        self.own = own.map { Set($0.map { $0.lowercased() }) }
    }

    /// - Parameters:
    ///   - host: Without a port, in lower case.
    ///   - route: As ``RouteNaming`` makes it.
    ///   - isPath: Of the request's path alone.
    func name(host: String, route: String, isPath: Bool) -> (host: String, route: String) {
        self.met.withLock { met in
            // A host with nothing but requests for what is not there has no name.
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
