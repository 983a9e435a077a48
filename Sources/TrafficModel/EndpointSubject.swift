/// What tells the rows of one service apart. Raw values are what `--by` takes.
public enum EndpointGrouping: String, Sendable, CaseIterable {
    case route, host, type
}

/// What the exchanges of a row have in common.
public enum EndpointSubject: Sendable, Hashable {
    /// The host in lower case, without a port; the route a template, `/users/{id}`.
    case route(host: String, route: String)
    case host(String)
    /// What the responses' bodies are. An exchange counts as `unknown` until its response says, and as `none` where none came.
    case content(ContentClass)

    init(from container: KeyedDecodingContainer<EndpointUsage.CodingKeys>) throws {
        if let word = try container.decodeIfPresent(String.self, forKey: .contentClass) {
            self = .content(ContentClass(rawValue: word) ?? .unknown)
            return
        }
        let host = try container.decode(String.self, forKey: .host)
        let route = try container.decodeIfPresent(String.self, forKey: .route)
        self = route.map { .route(host: host, route: $0) } ?? .host(host)
    }

    /// Where what exceeds a limit adds up.
    package var other: EndpointSubject {
        switch self {
        case .route: .route(host: EndpointUsage.other, route: EndpointUsage.other)
        case .host: .host(EndpointUsage.other)
        case .content: .content(.other)
        }
    }
}

extension EndpointUsage {
    /// `nil` where the exchanges are those of several. The same for the next two.
    public var host: String? {
        switch self.subject {
        case .route(let host, _), .host(let host): host
        case .content: nil
        }
    }

    public var route: String? {
        if case .route(_, let route) = self.subject { route } else { nil }
    }

    public var contentClass: ContentClass? {
        if case .content(let contentClass) = self.subject { contentClass } else { nil }
    }
}

extension Snapshot {
    /// With these rows for its endpoints, and no others.
    public func withEndpoints(by grouping: EndpointGrouping) -> Snapshot {
        var result = self
        if grouping != .route { result.endpoints = self.groupedEndpoints[grouping] }
        result.groupedEndpoints = [:]
        return result
    }
}
