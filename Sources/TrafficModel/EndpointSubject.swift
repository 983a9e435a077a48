/// How the rows of one service are told apart. The raw values are the values that `--by` takes.
public enum EndpointGrouping: String, Sendable, CaseIterable {
    case route, host, type
}

/// What the exchanges of a row have in common.
public enum EndpointSubject: Sendable, Hashable, Codable {
    /// The host is in lower case, without a port. The route is a template, `/users/{id}`.
    case route(host: String, route: String)
    case host(String)
    /// The content class of the responses' bodies. An exchange counts as `unknown` until its response tells the class,
    /// and as `none` if no response came.
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

    /// The subject of the row in which everything beyond a limit adds up.
    package var other: EndpointSubject {
        switch self {
        case .route: .route(host: EndpointUsage.other, route: EndpointUsage.other)
        case .host: .host(EndpointUsage.other)
        case .content: .content(.other)
        }
    }
}

extension EndpointUsage {
    /// `nil` if the exchanges are of several hosts. The same holds for the next two.
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
