import TrafficModel

/// All APIs of all services, within bounds: what exceeds them adds up under `_other`.
struct EndpointAccounts {
    private let limitPerGroup: Int
    private let limit: Int
    private var groups: [ProcessGroup: [EndpointName: EndpointAccount]] = [:]
    private var count = 0

    /// - Parameters:
    ///   - limitPerGroup: APIs of one service.
    ///   - limit: APIs of all. Each service has one or two rows more, for the rest.
    init(limitPerGroup: Int = 2_000, limit: Int = 8_000) {
        self.limitPerGroup = limitPerGroup
        self.limit = limit
    }

    /// The one place where messages and outcomes become part of an API's totals.
    mutating func change(_ group: ProcessGroup, _ name: EndpointName, _ change: (inout EndpointAccount) -> Void) {
        var (group, name) = (group, name)
        if self.groups[group]?[name] == nil {
            // A service that is new where there is no room any more has no row of its own.
            if self.groups[group] == nil && self.count >= self.limit { group = .other }
            let isFull = self.groups[group, default: [:]].count >= self.limitPerGroup || self.count >= self.limit
            if isFull { name = name.other }
            if self.groups[group]?[name] == nil { self.count += 1 }
        }
        change(&self.groups[group, default: [:]][name, default: EndpointAccount(group, name)])
    }

    mutating func summarize() {
        self.groups.forEachInPlace { $0.forEachInPlace { $0.summarize() } }
    }

    var usages: [EndpointUsage] {
        self.groups.values.flatMap { $0.values.map(\.usage) }.sorted { $0.order < $1.order }
    }
}

extension EndpointUsage {
    /// The same endpoints come in the same order.
    fileprivate var order: (String, String, String, String, String) {
        (self.process.name, self.process.executable ?? "", self.role.rawValue, self.host, self.route)
    }
}
