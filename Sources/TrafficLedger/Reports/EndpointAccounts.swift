import TrafficModel

/// All rows of all services in one grouping, within bounds: what exceeds them adds up under `_other`.
struct EndpointAccounts {
    /// A service, found once for all records of a datagram.
    struct Group {
        fileprivate(set) var index: Int
        /// It is that of the rest, and so of other services, too.
        fileprivate var isShared = false
    }

    /// Where a name's totals are, for good.
    struct Row {
        fileprivate(set) var index: Int
        /// It is that of the rest, and so of other names, too.
        fileprivate(set) var isShared = false
    }

    private let limitPerGroup: Int
    private let limit: Int
    private var groups: [ProcessGroup: Int] = [:]
    private var names: [(group: ProcessGroup, endpoints: [EndpointName: Int])] = []
    private var accounts: [EndpointAccount] = []

    /// - Parameters:
    ///   - limitPerGroup: Rows of one service.
    ///   - limit: Rows of all. Each service has one or two rows more, for the rest.
    init(limitPerGroup: Int = 2_000, limit: Int = 8_000) {
        self.limitPerGroup = limitPerGroup
        self.limit = limit
    }

    /// A service that is new where there is no room any more has no row of its own.
    mutating func group(_ group: ProcessGroup) -> Group {
        if let index = self.groups[group] { return Group(index: index) }
        let group = max(self.accounts.count, self.names.count) < self.limit ? group : .other
        if let index = self.groups[group] { return Group(index: index, isShared: group == .other) }
        self.groups[group] = self.names.count
        self.names.append((group, [:]))
        return Group(index: self.names.count - 1, isShared: group == .other)
    }

    /// The row of a name, a new one where there is none. A name stands for the same row ever after.
    mutating func row(of name: EndpointName, in group: Group) -> Row {
        if let index = self.names[group.index].endpoints[name] {
            return Row(index: index, isShared: group.isShared)
        }
        let isFull =
            self.names[group.index].endpoints.count >= self.limitPerGroup || self.accounts.count >= self.limit
        let name = isFull ? name.other : name
        let index = self.names[group.index].endpoints[name] ?? self.accounts.count
        if index == self.accounts.count {
            self.names[group.index].endpoints[name] = index
            self.accounts.append(EndpointAccount(self.names[group.index].group, name))
        }
        return Row(index: index, isShared: isFull || group.isShared)
    }

    /// The one place where messages and outcomes become part of a row's totals.
    mutating func change(_ row: Row, _ change: (inout EndpointAccount) -> Void) {
        change(&self.accounts[row.index])
    }

    mutating func summarize() {
        for index in self.accounts.indices { self.accounts[index].summarize() }
    }

    var usages: [EndpointUsage] {
        self.accounts.map(\.usage).sorted { $0.order < $1.order }
    }
}

extension EndpointUsage {
    /// The same endpoints come in the same order.
    fileprivate var order: (String, String, String, String, String, String) {
        (
            self.process.name, self.process.executable ?? "", self.role.rawValue, self.host ?? "", self.route ?? "",
            self.contentClass?.rawValue ?? ""
        )
    }
}
