/// Decides which exchanges the app wants in its reports. The bytes of other exchanges stay in the process's totals, as
/// `excluded`.
public struct TrafficFilter: Hashable, Sendable {
    /// Some hosts, and some paths of these hosts.
    public struct Rule: Hashable, Sendable {
        /// `nil`: every host.
        private let host: String?
        private let includesSubdomains: Bool
        private let pathPrefix: String

        /// - Parameters:
        ///   - host: `api.example`, or `*.example` for all hosts below it; without a port, in any case. `nil`: every
        ///     host.
        ///   - path: The path begins with this text, up to the end of a segment: `/private` fits `/private/1` and not
        ///     `/privateer`.
        public init(host: String? = nil, path: String = "/") {
            let host = host?.lowercased()
            self.includesSubdomains = host?.hasPrefix("*.") == true
            self.host = self.includesSubdomains ? host.map { String($0.dropFirst()) } : host
            self.pathPrefix = path.hasSuffix("/") ? String(path.dropLast()) : path
        }

        func fits(host: String, path: String) -> Bool {
            if let own = self.host {
                guard self.includesSubdomains ? host.hasSuffix(own) : host == own else { return false }
            }
            guard path.hasPrefix(self.pathPrefix) else { return false }
            let next = path.dropFirst(self.pathPrefix.count).first
            return next == nil || next == "/" || next == "?" || next == "#"
        }
    }

    /// Empty: all exchanges.
    public var include: [Rule]
    /// Exceptions from the included exchanges.
    public var exclude: [Rule]

    public init(include: [Rule] = [], exclude: [Rule] = []) {
        self.include = include
        self.exclude = exclude
    }

    /// The filter admits all exchanges.
    var isEmpty: Bool { self.include.isEmpty && self.exclude.isEmpty }

    /// - Parameters:
    ///   - host: In lower case, without a port.
    ///   - path: Without a query.
    func admits(host: String, path: String) -> Bool {
        (self.include.isEmpty || self.include.contains { $0.fits(host: host, path: path) })
            && !self.exclude.contains { $0.fits(host: host, path: path) }
    }
}
