public import TrafficModel

/// What APIs are ordered by. Raw values are what `--sort` takes.
public enum EndpointSortKey: String, Sendable, Hashable, CaseIterable {
    /// Message bytes, both ways or one.
    case total, sent, received
    case requests, failures, wasted
    case p50, p90, p99, max
    case process, host, route

    /// Largest first for amounts, A to Z for names.
    func precedes(_ left: EndpointUsage, _ right: EndpointUsage) -> Bool {
        switch self {
        case .process where left.process.name != right.process.name: left.process.name < right.process.name
        case .host where left.host != right.host: (left.host ?? "") < (right.host ?? "")
        case .route where left.route != right.route: (left.route ?? "") < (right.route ?? "")
        case .process, .host, .route: Self.isFirst(left, right)
        default:
            self.amount(left) == self.amount(right) ? Self.isFirst(left, right) : self.amount(left) > self.amount(right)
        }
    }

    /// Of two that are equal.
    private static func isFirst(_ left: EndpointUsage, _ right: EndpointUsage) -> Bool {
        left.alphabetic < right.alphabetic
    }

    private func amount(_ endpoint: EndpointUsage) -> UInt64 {
        switch self {
        case .total, .process, .host, .route: endpoint.sent.message &+ endpoint.received.message
        case .sent: endpoint.sent.message
        case .received: endpoint.received.message
        case .requests: endpoint.requests
        case .failures: endpoint.failures
        case .wasted: endpoint.waste.total
        case .p50: endpoint.duration?.p50 ?? 0
        case .p90: endpoint.duration?.p90 ?? 0
        case .p99: endpoint.duration?.p99 ?? 0
        case .max: endpoint.duration?.max ?? 0
        }
    }
}

extension EndpointUsage {
    fileprivate var alphabetic: (String, String, String, String, String) {
        (self.host ?? "", self.route ?? "", self.contentClass?.rawValue ?? "", self.process.name, self.role.rawValue)
    }
}

extension Snapshot {
    /// - Parameter limit: At most so many.
    public func withEndpoints(sortedBy key: EndpointSortKey, limit: Int? = nil) -> Snapshot {
        var result = self
        result.endpoints = self.endpoints.map { Array($0.sorted(by: key.precedes).prefix(limit ?? .max)) }
        return result
    }
}

extension Table {
    /// A row per API, in the snapshot's order. Bytes are those of messages.
    ///
    /// - Parameter grouping: What its rows are told apart by.
    public static func endpoints(_ snapshot: Snapshot, by grouping: EndpointGrouping = .route) -> Table {
        let subject = Self.subject(grouping)
        return Table(
            columns: [
                Column("PROCESS", "process", cutTo: 8, rank: 6), Column("ROLE", "role", rank: 5),
            ] + subject.map(\.column) + [
                Column("REQ", "requests"), Column("RESP", "responses", rank: 0), Column("FAIL", "failures", rank: 8),
                Column("P50", "p50_us", rank: 4), Column("P90", "p90_us", rank: 7), Column("P99", "p99_us", rank: 1),
                Column("WASTED", "wasted_bytes", rank: 3), Column("SENT", "sent_bytes"),
                Column("RECV", "received_bytes"), Column("QUALITY", "quality", rank: 2),
            ],
            rows: (snapshot.endpoints ?? []).map { endpoint in
                let percentiles: [Cell] = [endpoint.duration?.p50, endpoint.duration?.p90, endpoint.duration?.p99]
                    .map { $0.map(Cell.microseconds) ?? .none }
                let names: [Cell] = subject.map { .text($0.text(endpoint) ?? "") }
                let counts: [Cell] = [endpoint.requests, endpoint.responses, endpoint.failures]
                    .map { .count(Int(clamping: $0)) }
                let bytes: [Cell] = [endpoint.waste.total, endpoint.sent.message, endpoint.received.message]
                    .map { .bytes($0) }
                return [.text(endpoint.process.name), .text(endpoint.role.rawValue)] + names + counts + percentiles
                    + bytes + [.text(endpoint.quality.rawValue)]
            }
        )
    }

    private static func subject(
        _ grouping: EndpointGrouping
    ) -> [(column: Column, text: (EndpointUsage) -> String?)] {
        let host = (Column("HOST", "host", cutTo: 10), { (endpoint: EndpointUsage) in endpoint.host })
        return switch grouping {
        case .route: [host, (Column("ROUTE", "route", cutTo: 12), { $0.route })]
        case .host: [host]
        case .type: [(Column("TYPE", "content_class"), { $0.contentClass?.rawValue })]
        }
    }

    /// A row per exchange, in the report's order.
    public static func exchanges(_ exchanges: [ExchangeUsage]) -> Table {
        Table(
            columns: [
                Column("STARTED", "started_at", rank: 4), Column("PID", "pid", rank: 3),
                Column("PROCESS", "process_name", cutTo: 8, rank: 5), Column("ROLE", "role", rank: 1),
                Column("METHOD", "method", cutTo: 4, rank: 7), Column("HTTP", "network_protocol_version", rank: 1),
                Column("HOST", "host", cutTo: 10),
                Column("ROUTE", "route", cutTo: 12), Column("STATUS", "status", rank: 6),
                Column("OUTCOME", "outcome"), Column("TIME", "duration_us"),
                Column("PHASES", "phases", rank: 10), Column("SENT", "sent_bytes", rank: 8),
                Column("RECV", "received_bytes", rank: 9), Column("HOP", "hop", rank: 0),
                Column("QUALITY", "quality", rank: 2),
            ],
            rows: exchanges.map { exchange in
                let (sent, received) =
                    exchange.role == .client
                    ? (exchange.request, exchange.response) : (exchange.response, exchange.request)
                return [
                    .text(exchange.startedAt.timeOfDay), .count(Int(exchange.process.pid)),
                    .text(exchange.processName), .text(exchange.role.rawValue), .text(exchange.method),
                    exchange.version.map { .text($0.rawValue) } ?? .none,
                    .text(exchange.host), .text(exchange.route),
                    exchange.status.map { .count(Int($0)) } ?? .none,
                    .text(exchange.outcome?.rawValue ?? (exchange.response == nil ? "waiting" : "receiving")),
                    exchange.duration.map(Cell.microseconds) ?? .none, .text(PhaseBar.text(exchange.phases)),
                    sent.map { .bytes($0.message) } ?? .none, received.map { .bytes($0.message) } ?? .none,
                    .count(Int(exchange.hop)), .text(exchange.quality.rawValue),
                ]
            }
        )
    }
}

/// The phases of an exchange in ten letters, each for a tenth of the time: `dcttswwwrr`.
public enum PhaseBar {
    private static let length = 10

    /// The longest remainders get the letters that are over, so that there always are ten; a phase too short for one has none.
    ///
    /// - Parameter phases: Microseconds.
    public static func text(_ phases: [ExchangePhase: UInt64]) -> String {
        let whole = phases.values.reduce(0.0) { $0 + Double($1) }
        guard whole > 0 else { return "" }
        var parts = ExchangePhase.allCases.map { phase in
            let exact = Double(phases[phase] ?? 0) / whole * Double(Self.length)
            return (letter: phase.letter, count: Int(exact), rest: exact - exact.rounded(.down))
        }
        let missing = Self.length - parts.reduce(0) { $0 + $1.count }
        for index in parts.indices.sorted(by: { parts[$0].rest > parts[$1].rest }).prefix(missing) {
            parts[index].count += 1
        }
        return parts.map { String(repeating: $0.letter, count: $0.count) }.joined()
    }
}

extension ExchangePhase {
    fileprivate var letter: String { String(self.rawValue.prefix(1)) }
}

extension Timestamp {
    /// `07:21:16.123`, UTC.
    fileprivate var timeOfDay: String { String(self.description.dropFirst(11).dropLast()) }
}
