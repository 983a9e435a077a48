public import TrafficModel

/// What endpoints are ordered by. Raw values are the values of `--sort`.
public enum EndpointSortKey: String, Sendable, Hashable, CaseIterable {
    /// Message bytes: both directions together, or one direction.
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

    /// Decides between two endpoints that are equal by the key.
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

/// What exchanges are ordered by. Raw values are what `--sort` takes.
public enum ExchangeSortKey: String, Sendable, Hashable, CaseIterable {
    case started, time, sent, received, status
}

extension ExchangeUsage {
    /// The message that its process sent; `nil` where no record of the message came.
    fileprivate var sent: MessageBytes? { self.role == .client ? self.request : self.response }

    /// The message that its process received; `nil` where no record of the message came.
    fileprivate var received: MessageBytes? { self.role == .client ? self.response : self.request }
}

extension ExchangeReport {
    /// - Parameters:
    ///   - key: Of `started` the newest is last; of the others the largest is first, and an exchange without one last.
    ///   - isReversed: The other way round.
    ///   - limit: At most so many: by `started` the newest, else the first.
    public func sorted(
        by key: ExchangeSortKey,
        reversed isReversed: Bool = false,
        limit: Int? = nil
    ) -> ExchangeReport {
        var result = self
        if key != .started {
            // Equal ones stay in their order: by the end, as the report has them.
            result.exchanges = self.exchanges.enumerated().sorted {
                let (left, right) = (self.amount($0.element, key), self.amount($1.element, key))
                return left == right ? $0.offset < $1.offset : left > right
            }.map(\.element)
        }
        if isReversed { result.exchanges.reverse() }
        let limit = limit ?? .max
        let isNewestLast = key == .started && !isReversed
        result.exchanges = Array(isNewestLast ? result.exchanges.suffix(limit) : result.exchanges.prefix(limit))
        return result
    }

    private func amount(_ exchange: ExchangeUsage, _ key: ExchangeSortKey) -> UInt64 {
        switch key {
        case .started: 0
        case .time: exchange.duration ?? 0
        case .sent: exchange.sent?.message ?? 0
        case .received: exchange.received?.message ?? 0
        case .status: UInt64(exchange.status ?? 0)
        }
    }
}

extension Snapshot {
    /// - Parameters:
    ///   - isReversed: Smallest first for amounts, Z to A for names.
    ///   - limit: The most endpoints to keep.
    public func withEndpoints(
        sortedBy key: EndpointSortKey,
        reversed isReversed: Bool = false,
        limit: Int? = nil
    ) -> Snapshot {
        var result = self
        result.endpoints = self.endpoints.map { endpoints in
            let sorted = endpoints.sorted { isReversed ? key.precedes($1, $0) : key.precedes($0, $1) }
            return Array(sorted.prefix(limit ?? .max))
        }
        return result
    }
}

extension Table {
    /// A row per endpoint, in the snapshot's order. Bytes are those of messages.
    ///
    /// - Parameter grouping: What tells the rows of a process apart.
    public static func endpoints(_ snapshot: Snapshot, by grouping: EndpointGrouping = .route) -> Table {
        let subject = Self.subject(grouping)
        return Table(
            columns: [
                Column("PROCESS", cutTo: 8, rank: 6), Column("ROLE", rank: 5),
            ] + subject.map(\.column) + [
                Column("REQ"), Column("RESP", rank: 0), Column("FAIL", rank: 8),
                Column("P50", rank: 4), Column("P90", rank: 7), Column("P99", rank: 1),
                Column("WASTED", rank: 3), Column("SENT"),
                Column("RECV"), Column("QUALITY", rank: 2),
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
        let host = (Column("HOST", cutTo: 10), { (endpoint: EndpointUsage) in endpoint.host })
        return switch grouping {
        case .route: [host, (Column("ROUTE", cutTo: 12), { $0.route })]
        case .host: [host]
        case .type: [(Column("TYPE"), { $0.contentClass?.rawValue })]
        }
    }

    /// A row per exchange, in the report's order.
    public static func exchanges(_ exchanges: [ExchangeUsage]) -> Table {
        Table(
            columns: [
                Column("STARTED", rank: 4), Column("PID", rank: 3),
                Column("PROCESS", cutTo: 8, rank: 5), Column("ROLE", rank: 1),
                Column("METHOD", cutTo: 4, rank: 7), Column("HTTP", rank: 1),
                Column("HOST", cutTo: 10),
                Column("ROUTE", cutTo: 12), Column("STATUS", rank: 6),
                Column("OUTCOME"), Column("TIME"),
                Column("PHASES", rank: 10), Column("SENT", rank: 8),
                Column("RECV", rank: 9), Column("HOP", rank: 0),
                Column("QUALITY", rank: 2),
            ],
            rows: exchanges.map { exchange in
                [
                    .text(exchange.startedAt.timeOfDay), .count(Int(exchange.process.pid)),
                    .text(exchange.processName), .text(exchange.role.rawValue), .text(exchange.method),
                    exchange.version.map { .text($0.rawValue) } ?? .none,
                    .text(exchange.host), .text(exchange.route),
                    exchange.status.map { .count(Int($0)) } ?? .none,
                    .text(exchange.outcome?.rawValue ?? (exchange.response == nil ? "waiting" : "receiving")),
                    exchange.duration.map(Cell.microseconds) ?? .none, .text(PhaseBar.text(exchange.phases)),
                    exchange.sent.map { .bytes($0.message) } ?? .none,
                    exchange.received.map { .bytes($0.message) } ?? .none,
                    .count(Int(exchange.hop)), .text(exchange.quality.rawValue),
                ]
            }
        )
    }
}

/// The phases of an exchange in ten letters, each for a tenth of the time: `dcttswwwrr`.
public enum PhaseBar {
    private static let length = 10

    /// There are always ten letters: the phases with the largest remainders get the letters that are left over. A phase
    /// that is too short gets no letter.
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
