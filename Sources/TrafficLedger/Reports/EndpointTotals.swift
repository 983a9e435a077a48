import TrafficModel
import TrafficReport

/// The same exchanges three times: by route, by host, and by what the responses are. Whichever is added up, it comes to the same.
struct EndpointTotals {
    /// A service in each of them.
    struct Group {
        fileprivate var route: EndpointAccounts.Group
        fileprivate var host: EndpointAccounts.Group
        fileprivate var content: EndpointAccounts.Group
    }

    private var routes = EndpointAccounts()
    private var hosts = EndpointAccounts()
    private var contents = EndpointAccounts()

    mutating func group(_ group: ProcessGroup) -> Group {
        Group(route: self.routes.group(group), host: self.hosts.group(group), content: self.contents.group(group))
    }

    /// - Parameter content: Where the message belongs, by its exchange's response.
    mutating func add(_ message: MessageShare, _ group: Group, _ name: EndpointName, _ content: ContentPlace) {
        self.routes.change(group.route, name) { $0.add(message) }
        self.hosts.change(group.host, name.host) { $0.add(message) }
        self.settle(content)
        self.contents.change(group.content, .init(name.role, content.subject)) { $0.add(message) }
    }

    /// - Parameter bytes: Of the exchange's messages.
    mutating func add(
        _ outcome: Report.Outcome,
        bytes: UInt64,
        _ group: Group,
        _ name: EndpointName,
        _ content: ContentPlace
    ) {
        self.routes.change(group.route, name) { $0.add(outcome, bytes: bytes) }
        self.hosts.change(group.host, name.host) { $0.add(outcome, bytes: bytes) }
        self.settle(content)
        self.contents.change(group.content, .init(name.role, content.subject)) { $0.add(outcome, bytes: bytes) }
    }

    /// A request that waited for its response's class goes where that belongs.
    private mutating func settle(_ content: ContentPlace) {
        guard let request = content.request, content.contentClass != .unknown else { return }
        let group = request.group.content
        self.contents.change(group, .init(request.role, .content(.unknown))) { $0.remove(request.message) }
        self.contents.change(group, .init(request.role, content.subject)) { $0.add(request.message) }
    }

    mutating func summarize() {
        self.routes.summarize()
        self.hosts.summarize()
        self.contents.summarize()
    }

    var byRoute: [EndpointUsage] { self.routes.usages }

    var otherwise: [EndpointGrouping: [EndpointUsage]] {
        [.host: self.hosts.usages, .type: self.contents.usages.filter { !$0.isEmpty }]
    }
}

extension EndpointUsage {
    /// All that was in it counts elsewhere now.
    fileprivate var isEmpty: Bool { self.requests == 0 && self.responses == 0 && self.outcomes.isEmpty }
}

/// What of a message counts in a row.
struct MessageShare {
    var isRequest: Bool
    var bytes: MessageBytes
    var decodedBody: UInt64?
    var contentClass: Report.ContentClass
    /// What of the socket's wire bytes is its part.
    var wire: UInt64
    var quality: JoinQuality

    init(_ message: Report.Message, isRequest: Bool, wire: UInt64, quality: JoinQuality) {
        self.isRequest = isRequest
        self.bytes = MessageBytes(message)
        self.decodedBody = message.decodedBodyBytes
        self.contentClass = message.contentClass
        self.wire = wire
        self.quality = quality
    }
}

/// Where a record belongs by what its exchange's response is.
struct ContentPlace {
    /// A request that came before its response, and where it was counted.
    struct Request {
        var message: MessageShare
        var role: EndpointRole
        var group: EndpointTotals.Group
    }

    var contentClass: ContentClass
    /// That of this exchange, which belongs there, too, and was `unknown` until now.
    var request: Request?

    var subject: EndpointSubject { .content(self.contentClass) }
}
