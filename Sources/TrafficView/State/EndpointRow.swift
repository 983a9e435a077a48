import TrafficModel

/// The numbers of an API below an open process: the process's own, or those of all processes of its executable.
struct EndpointRow: Sendable {
    var role: EndpointRole
    var subject: EndpointSubject
    var requests: UInt64
    var responses: UInt64
    var failures: UInt64
    /// Of messages. The same for the next.
    var sent: UInt64
    var received: UInt64
    var quality: JoinQuality
    /// Microseconds; `nil` of a process's own: durations are known of all together.
    var p90: UInt64?
    var isOwn: Bool

    init(_ endpoint: EndpointUsage) {
        self.role = endpoint.role
        self.subject = endpoint.subject
        self.requests = endpoint.requests
        self.responses = endpoint.responses
        self.failures = endpoint.failures
        self.sent = endpoint.sent.message
        self.received = endpoint.received.message
        self.quality = endpoint.quality
        self.p90 = endpoint.duration?.p90
        self.isOwn = false
    }

    init(own endpoint: ProcessEndpoint) {
        self.role = endpoint.role
        self.subject = .route(host: endpoint.host, route: endpoint.route)
        self.requests = endpoint.requests
        self.responses = endpoint.responses
        self.failures = endpoint.failures
        self.sent = endpoint.sent
        self.received = endpoint.received
        self.quality = endpoint.quality
        self.isOwn = true
    }

    /// What exceeded a limit: in a process's own row and in its executable's these are different APIs.
    var isRest: Bool { self.subject == self.subject.other }

    /// What it is about.
    var name: String {
        switch self.subject {
        case _ where self.isRest: "\(EndpointUsage.other): all further APIs"
        case .route(let host, let route): host + route
        case .host(let host): host
        case .content(let contentClass): contentClass.rawValue
        }
    }
}

extension ListBuilder {
    /// A process's own APIs. Of one that exited, or where the daemon does not tell them apart, those of its executable, marked as such.
    func appendEndpoints(of process: UsageRow, depth: Int, _ snapshot: Snapshot, to rows: inout [ListRow]) {
        guard let endpoints = snapshot.endpoints, let index = process.members.first,
            let member = snapshot.processes?[index]
        else {
            rows.append(.init(id: .note(of: process.id), depth: depth, isLast: true, content: .pending(.APIs)))
            return
        }
        let group = ProcessGroup(member.details)
        let listed =
            member.endpoints?.map(EndpointRow.init(own:))
            ?? endpoints.filter { $0.process == group }.map { EndpointRow($0) }
        if member.endpoints == nil && !listed.isEmpty {
            let mark = ListRow.Content.ofExecutable(hasExited: member.state == .exited)
            rows.append(ListRow(id: .note(of: process.id), depth: depth, content: mark))
        }
        let ordered = listed.sorted(by: self.order.precedes)
        self.append(Array(ordered.indices), .APIs, of: process.id, depth: depth, to: &rows) { index in
            let row = ordered[index]
            return (.endpoint(row.role, row.subject, of: process.id), .endpoint(row))
        }
    }
}
