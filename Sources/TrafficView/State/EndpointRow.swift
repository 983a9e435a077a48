import TrafficModel

/// The numbers of an endpoint below an open process: of this process alone, or of all processes of its executable.
struct EndpointRow: Sendable {
    var role: EndpointRole
    var subject: EndpointSubject
    var requests: UInt64
    var responses: UInt64
    var failures: UInt64
    /// Bytes of messages, as in ``received``.
    var sent: UInt64
    var received: UInt64
    var quality: JoinQuality
    /// Microseconds. `nil` in a process's own row: durations are known only for all processes together.
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

    /// Whether the row sums up the endpoints beyond a limit. A process and its executable sum up different endpoints.
    var isRest: Bool { self.subject == self.subject.other }

    /// The name of the endpoint, host or content class.
    var name: String {
        switch self.subject {
        case _ where self.isRest: "\(EndpointUsage.other): all others"
        case .route(let host, let route): host + route
        case .host(let host): host
        case .content(let contentClass): contentClass.rawValue
        }
    }
}

extension ListBuilder {
    /// Appends the process's own endpoints. Where those are unknown, appends the endpoints of its executable and marks
    /// them as such. They are unknown for an exited process, or where the daemon does not tell processes apart.
    func appendEndpoints(of process: UsageRow, depth: Int, _ snapshot: Snapshot, to rows: inout [ListRow]) {
        guard let endpoints = snapshot.endpoints, let index = process.members.first,
            let member = snapshot.processes?[index]
        else {
            rows.append(.init(id: .note(of: process.id), depth: depth, isLast: true, content: .pending(.endpoints)))
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
        self.append(Array(ordered.indices), .endpoints, of: process.id, depth: depth, to: &rows) { index in
            let row = ordered[index]
            return (.endpoint(row.role, row.subject, of: process.id), .endpoint(row))
        }
    }
}
