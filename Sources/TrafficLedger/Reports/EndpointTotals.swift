import TrafficModel
import TrafficReport

/// The same exchanges three times: by route, by host, and by the content class of the responses. Each of the three adds
/// up to the same sum. The rows by route also have a part for each running process.
struct EndpointTotals: Codable {
    /// A service in each grouping, and the process that sent the records if it still runs.
    struct Group {
        fileprivate var route: EndpointAccounts.Group
        fileprivate var host: EndpointAccounts.Group
        fileprivate var content: EndpointAccounts.Group
        fileprivate var owner: OwnEndpoints.Owner?
    }

    /// What a record is about, in the words of the reports.
    struct Place {
        fileprivate let role: Report.Role
        fileprivate let name: Report.Name

        init(_ role: Report.Role, _ name: Report.Name) {
            (self.role, self.name) = (role, name)
        }
    }

    private struct Rows {
        var route: EndpointAccounts.Row
        var host: EndpointAccounts.Row
        var own: OwnEndpoints.Place?
    }

    /// The rows of a name that came before.
    private struct Found {
        var group: Int
        var owner: OwnEndpoints.Owner?
        var place: Place
        var rows: Rows

        func isOf(_ group: Group, _ place: Place) -> Bool {
            self.group == group.route.index && self.place.role == place.role
                && self.place.name.isIdentical(to: place.name) && self.owner == group.owner
        }
    }

    /// The rows of names, by the number of the name. To look at the texts of a name is a good part of a record's work.
    /// A name takes the place of another name with the same number.
    private struct Memory: NotSaved {
        private static let count = 1_024
        private var found = [Found?](repeating: nil, count: Self.count)

        subscript(number: Int) -> Found? {
            get { self.found[number & (Self.count - 1)] }
            set { self.found[number & (Self.count - 1)] = newValue }
        }
    }

    private var found = Memory()
    /// Records whose name or service has no row of its own.
    private(set) var inOther: UInt64 = 0
    private var routes = EndpointAccounts()
    private var hosts = EndpointAccounts()
    private var contents = EndpointAccounts()
    private var own = OwnEndpoints()
    private var series = RouteSeries()
    // To look up a name is most of the work of a record. These tables avoid a second look-up.
    /// Rows of hosts, by the index of the route's row.
    private var hostRows: [EndpointAccounts.Row?] = []
    /// Rows of content classes, by group, role and class.
    private var contentRows: [EndpointAccounts.Row?] = []

    /// - Parameter owner: `nil` if the process has ended.
    mutating func group(_ group: ProcessGroup, of owner: OwnEndpoints.Owner? = nil) -> Group {
        Group(
            route: self.routes.group(group),
            host: self.hosts.group(group),
            content: self.contents.group(group),
            owner: owner
        )
    }

    /// The process has no part of its own any more.
    mutating func end(_ process: ProcessIdentity) {
        if self.own.end(process) { self.found = Memory() }
    }

    /// - Parameter content: The content row of the exchange, which its response decides.
    mutating func add(
        _ share: ExchangeShare,
        _ group: Group,
        _ place: Place,
        _ content: ContentPlace
    ) {
        self.moveRequest(of: content)
        let rows = self.rows(of: place, in: group)
        if rows.route.isShared { self.inOther += 1 }
        self.routes.add(share, to: rows.route)
        self.hosts.add(share, to: rows.host)
        let contentRow = self.contentRow(of: content.contentClass, EndpointRole(place.role), in: group.content)
        self.contents.add(share, to: contentRow)
        if let own = rows.own { self.own.add(share, to: own) }
    }

    private mutating func rows(of place: Place, in group: Group) -> Rows {
        if let found = self.found[place.name.number], found.isOf(group, place) { return found.rows }
        let name = EndpointName(place.role, place.name)
        let route = self.routes.row(of: name, in: group.route)
        self.series.add(route.index, self.routes.name(of: route.index), of: self.routes.process(of: route.index))
        let rows = Rows(
            route: route,
            host: self.hostRow(of: name, route, in: group.host),
            own: group.owner.map { self.own.place(of: route.index, name.role, for: $0) }
        )
        self.found[place.name.number] = Found(group: group.route.index, owner: group.owner, place: place, rows: rows)
        return rows
    }

    /// Moves a request that waited for its response's class to the row of that class.
    private mutating func moveRequest(of content: ContentPlace) {
        guard let request = content.request, content.contentClass != .unknown else { return }
        let (group, role) = (request.group, request.role)
        let (old, new) = (ContentClass.unknown, content.contentClass)
        self.contents.move(
            request.message,
            from: self.contentRow(of: old, role, in: group),
            to: self.contentRow(of: new, role, in: group)
        )
    }

    private mutating func hostRow(
        of name: EndpointName,
        _ route: EndpointAccounts.Row,
        in group: EndpointAccounts.Group
    ) -> EndpointAccounts.Row {
        guard !route.isShared else { return self.hosts.row(of: name.host, in: group) }
        if let row = self.hostRows.at(route.index) { return row }
        let row = self.hosts.row(of: name.host, in: group)
        self.hostRows.put(row, at: route.index)
        return row
    }

    private mutating func contentRow(
        of contentClass: ContentClass,
        _ role: EndpointRole,
        in group: EndpointAccounts.Group
    ) -> EndpointAccounts.Row {
        let place = (group.index << 1 | (role == .server ? 1 : 0)) << 4 | contentClass.place
        if let row = self.contentRows.at(place) { return row }
        let row = self.contents.row(of: EndpointName(role, .content(contentClass)), in: group)
        self.contentRows.put(row, at: place)
        return row
    }

    mutating func summarize() {
        self.routes.summarize()
        self.hosts.summarize()
        self.contents.summarize()
    }

    var byRoute: [EndpointUsage] { self.routes.usages }

    /// See ``EndpointAccounts/sums``.
    var sumsByRoute: [EndpointSum] { self.routes.sums }

    var seriesSums: MetricsReading.Sums<EndpointSeries, EndpointSeriesCounts> {
        self.series.sums(of: self.routes.seriesCounts)
    }

    /// A process that has executed another program was part of two services. Endpoints with the same name are added up.
    func own(of process: ProcessIdentity) -> [ProcessEndpoint] {
        var usages: [EndpointName: ProcessEndpoint] = [:]
        for part in self.own.parts(of: process) {
            let name = self.name(of: part.whole)
            guard case .route(let host, let route) = name.subject else { continue }
            part.add(to: &usages[name, default: ProcessEndpoint(role: name.role, host: host, route: route)])
        }
        return usages.values.sorted { ($0.role.rawValue, $0.host, $0.route) < ($1.role.rawValue, $1.host, $1.route) }
    }

    private func name(of whole: OwnEndpoints.Whole) -> EndpointName {
        switch whole {
        case .row(let index): self.routes.name(of: index)
        case .rest(let role): EndpointName(role, .route(host: EndpointUsage.other, route: EndpointUsage.other))
        }
    }

    var otherwise: [EndpointGrouping: [EndpointUsage]] {
        [.host: self.hosts.usages, .type: self.contents.usages.filter { !$0.isEmpty }]
    }
}

extension [EndpointAccounts.Row?] {
    fileprivate func at(_ index: Int) -> EndpointAccounts.Row? { index < self.count ? self[index] : nil }

    fileprivate mutating func put(_ row: EndpointAccounts.Row, at index: Int) {
        if index >= self.count { self += repeatElement(nil, count: index + 1 - self.count) }
        self[index] = row
    }
}

extension ContentClass {
    /// A number below 16.
    fileprivate var place: Int {
        switch self {
        case .none: 0
        case .json: 1
        case .html: 2
        case .image: 3
        case .script: 4
        case .stream: 5
        case .form: 6
        case .text: 7
        case .other: 8
        case .unknown: 9
        }
    }
}

extension EndpointUsage {
    /// Everything that was in this row counts in other rows now.
    fileprivate var isEmpty: Bool { self.requests == 0 && self.responses == 0 && self.outcomes.isEmpty }
}

/// The part of a message that counts in a row.
struct MessageShare: Codable {
    var isRequest: Bool
    var bytes: MessageBytes
    var decodedBody: UInt64?
    var contentClass: Report.ContentClass
    /// The message's part of the socket's wire bytes.
    var wire: UInt64
    var quality: JoinQuality

    init(_ message: Report.Exchange.Message, isRequest: Bool, wire: UInt64, quality: JoinQuality) {
        self.isRequest = isRequest
        self.bytes = MessageBytes(message)
        self.decodedBody = message.decodedBodyBytes
        self.contentClass = message.contentClass
        self.wire = wire
        self.quality = quality
    }
}

/// The parts of an exchange record that count.
struct ExchangeShare {
    var request: MessageShare?
    var response: MessageShare?
    var outcome: Report.Exchange.Outcome?
    /// With an outcome: the bytes of the exchange's messages.
    var bytes: UInt64 = 0
    /// With an outcome, if the response is known.
    var responseKey: ResponseKey?

    var isEmpty: Bool { self.request == nil && self.response == nil && self.outcome == nil }
}

/// What two responses have in common if they count as the same. No report has a body, so a body is its length.
struct ResponseKey: Codable, Equatable {
    private let status: UInt16
    private let body: UInt64
    private let decodedBody: UInt64?

    /// - Returns: `nil` if nobody knows how long the body is.
    init?(_ message: Report.Exchange.Message) {
        let isUnknown = message.bodyBytes == 0 && message.decodedBodyBytes == nil && message.contentClass != .none
        guard !isUnknown else { return nil }
        (self.status, self.body, self.decodedBody) = (message.status, message.bodyBytes, message.decodedBodyBytes)
    }
}

/// The content row of a record, which the response of its exchange decides.
struct ContentPlace {
    /// A request that came before its response, and the place where the request was counted.
    struct Request: Codable {
        var message: MessageShare
        var role: EndpointRole
        fileprivate var group: EndpointAccounts.Group

        init(message: MessageShare, role: EndpointRole, in group: EndpointTotals.Group) {
            self.message = message
            self.role = role
            self.group = group.content
        }
    }

    var contentClass: ContentClass
    /// The request of this exchange. It belongs to the same class, and was counted as `unknown` until now.
    var request: Request?
}
