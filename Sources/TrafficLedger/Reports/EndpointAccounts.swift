import TrafficLimits
import TrafficModel
import TrafficReport

/// All rows of all services in one grouping, limited for each user (``ReportLimits/Rows``). What exceeds a limit adds
/// up under `_other`.
///
/// A row stays for good, and a name always stands for the same row. No user's rows make room for another user's rows.
struct EndpointAccounts: Codable {
    /// A service. The ledger finds the service once for all records of a datagram.
    struct Group: Codable {
        fileprivate(set) var index: Int
        /// This is the group of the rest, which other services share.
        fileprivate var isShared = false
    }

    /// The place of a name's totals, for good.
    struct Row: Codable {
        fileprivate(set) var index: Int
        /// This is the row of the rest, which other names share.
        fileprivate(set) var isShared = false
    }

    private struct Service: Codable {
        var group: ProcessGroup
        var endpoints: [EndpointName: Int] = [:]
    }

    /// How much of the limits a user has used.
    private struct Share: Codable {
        var services = 0
        var rows = 0
        var fine = 0
    }

    private let limits: ReportLimits.Rows
    private var groups: [ProcessGroup: Int] = [:]
    private var services: [Service] = []
    private var accounts: [EndpointAccount] = []
    /// `nil`: of the group `_other` that blocks of ids, and users beyond all limits, share.
    private var shares: [PayingUser?: Share] = [:]
    private var fine = 0

    /// - Parameter limits: A service and a user may have one or two more rows in each role, for the rest.
    init(limits: ReportLimits.Rows = .init()) {
        self.limits = limits
    }

    /// If a service is new and its user has no room left, the service has no rows of its own.
    mutating func group(_ group: ProcessGroup) -> Group {
        if let index = self.groups[group] { return Group(index: index) }
        let share = self.shares[group.payer, default: Share()]
        let hasRoom =
            share.services < self.limits.servicesOfUser && share.rows < self.limits.ofUser
            && self.services.count < self.limits.services && self.accounts.count < self.limits.all
        if hasRoom { return Group(index: self.add(group)) }
        let other = ProcessGroup.other(of: group.uid)
        if let index = self.groups[other] { return Group(index: index, isShared: true) }
        // Users beyond all limits share one group.
        let isCrowded = self.shares.count > self.limits.services
        let rest = isCrowded ? ProcessGroup.other(of: nil) : other
        return Group(index: self.groups[rest] ?? self.add(rest), isShared: true)
    }

    private mutating func add(_ group: ProcessGroup) -> Int {
        self.shares[group.payer, default: Share()].services += 1
        self.groups[group] = self.services.count
        self.services.append(Service(group: group))
        return self.services.count - 1
    }

    /// The row of a name. Makes a new row if there is none. From then on, the name always stands for this row.
    mutating func row(of name: EndpointName, in group: Group) -> Row {
        if let index = self.services[group.index].endpoints[name] { return Row(index: index, isShared: group.isShared) }
        let service = self.services[group.index].group
        let isFull =
            self.services[group.index].endpoints.count >= self.limits.ofService
            || self.shares[service.payer, default: Share()].rows >= self.limits.ofUser
            || self.accounts.count >= self.limits.all
        let name = isFull ? name.other : name
        let index = self.services[group.index].endpoints[name] ?? self.accounts.count
        if index == self.accounts.count {
            self.services[group.index].endpoints[name] = index
            self.shares[service.payer, default: Share()].rows += 1
            self.accounts.append(EndpointAccount(service, name))
        }
        return Row(index: index, isShared: isFull || group.isShared)
    }

    func name(of index: Int) -> EndpointName { self.accounts[index].name }

    func process(of index: Int) -> ProcessGroup { self.accounts[index].group }

    mutating func add(_ share: ExchangeShare, to row: Row) {
        // A look at the account in the array would copy it.
        let needsHistogram = Self.add(share, to: &self.accounts[row.index])
        if needsHistogram { self.makeHistogram(row.index) }
    }

    /// - Returns: Whether the account needs a histogram now.
    private static func add(_ share: ExchangeShare, to account: inout EndpointAccount) -> Bool {
        account.add(share)
        return account.needsHistogram
    }

    /// Moves a request from one row to another.
    mutating func move(_ request: MessageShare, from old: Row, to new: Row) {
        self.accounts[old.index].remove(request)
        self.accounts[new.index].add(request)
    }

    private mutating func makeHistogram(_ index: Int) {
        let user = self.accounts[index].group.payer
        let isFine = self.fine < self.limits.fine && self.shares[user, default: Share()].fine < self.limits.fineOfUser
        if isFine {
            self.fine += 1
            self.shares[user, default: Share()].fine += 1
        }
        self.accounts[index].makeHistogram(isFine: isFine)
    }

    mutating func summarize() {
        for index in self.accounts.indices { self.accounts[index].summarize() }
    }

    /// In the order in which the rows were made. Takes little time for each row.
    var sums: [EndpointSum] { self.accounts.compactMap(\.sum) }

    /// Like ``sums``, for series.
    var seriesCounts: [(endpoint: ServiceEndpoint, counts: EndpointSeriesCounts)] {
        self.accounts.compactMap(\.seriesCounts)
    }

    var usages: [EndpointUsage] {
        self.accounts.map(\.usage).sorted { $0.order < $1.order }
    }
}

extension EndpointUsage {
    /// Sorts the same endpoints into the same order each time.
    fileprivate var order: (String, String, String, String, String, String) {
        (
            self.process.name, self.process.executable ?? "", self.role.rawValue, self.host ?? "", self.route ?? "",
            self.contentClass?.rawValue ?? ""
        )
    }
}

extension ReportLimits.Rows: NotSaved {}

/// The name of a row within its process group.
struct EndpointName: Hashable, Codable {
    var role: EndpointRole
    var subject: EndpointSubject

    init(_ role: EndpointRole, _ subject: EndpointSubject) {
        self.role = role
        self.subject = subject
    }

    /// - Parameter name: A name that is ``TrafficReport/Report/Name/bounded``.
    init(_ role: Report.Role, _ name: Report.Name) {
        self.init(EndpointRole(role), .route(host: name.host, route: name.route))
    }

    /// The row of the host, of which this row is a part.
    var host: EndpointName {
        guard case .route(let host, _) = self.subject else { return self }
        return EndpointName(self.role, .host(host))
    }

    /// The row in which everything beyond the group's limit adds up.
    var other: EndpointName { EndpointName(self.role, self.subject.other) }
}

extension Report.Name {
    /// The name, with each part cut that is longer than the limits. Names stay in memory as long as exchanges and rows
    /// do.
    var bounded: Report.Name {
        let limits = ReportLimits.self
        // In native strings, these counts are stored numbers.
        guard
            self.method.utf8.count > limits.longestMethod || self.host.utf8.count > limits.longestHost
                || self.route.utf8.count > limits.longestRoute
        else { return self }
        return Report.Name(
            method: self.method.cut(to: limits.longestMethod),
            host: self.host.cut(to: limits.longestHost),
            route: self.route.cut(to: limits.longestRoute)
        )
    }
}

extension String {
    /// - Parameter limit: In bytes.
    fileprivate func cut(to limit: Int) -> String {
        guard self.utf8.count > limit else { return self }
        var end = self.utf8.index(self.startIndex, offsetBy: limit)
        while end.samePosition(in: self.unicodeScalars) == nil { end = self.utf8.index(before: end) }
        return String(self[..<end])
    }
}
