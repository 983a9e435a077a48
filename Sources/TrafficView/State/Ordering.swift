import TrafficModel

/// What rows are ordered by. Raw values are the values of `--sort`.
public enum SortKey: String, Sendable, Hashable, CaseIterable, Codable {
    case pid, user, name, unit, sockets
    /// Bytes per second, both ways together.
    case rate
    case sentRate = "sent-rate"
    case receivedRate = "received-rate"
    /// Bytes since counting began, both ways together.
    case total
    case sent, received
    /// The share of the payload that reports explain.
    case explained

    /// Whether the largest comes first unless reversed: true for amounts, false for names.
    public var isDescending: Bool {
        switch self {
        case .pid, .user, .name, .unit: false
        case .sockets, .rate, .sentRate, .receivedRate, .total, .sent, .received, .explained: true
        }
    }

    /// The same key, about rates or about totals. `self` where the key is about neither.
    func asked(of measure: Measure) -> SortKey {
        switch (self, measure) {
        case (.rate, .totals), (.total, .totals): .total
        case (.rate, .rates), (.total, .rates): .rate
        case (.sentRate, .totals), (.sent, .totals): .sent
        case (.sentRate, .rates), (.sent, .rates): .sentRate
        case (.receivedRate, .totals), (.received, .totals): .received
        case (.receivedRate, .rates), (.received, .rates): .receivedRate
        default: self
        }
    }
}

/// Which numbers stay where there is no room for both.
public enum Measure: String, Sendable, Hashable, Codable {
    case rates, totals
}

/// What makes one row of the list. Raw values are the values of `--group`.
public enum Grouping: String, Sendable, Hashable, CaseIterable, Codable {
    case process, executable, unit, user, remote

    func next(_ step: Int) -> Grouping {
        let all = Self.allCases
        let index = all.firstIndex(of: self) ?? 0
        return all[(index + step + all.count) % all.count]
    }
}

/// One order for all rows, without ties, so that no row moves while the numbers stay the same. Of rows with equal
/// values, running rows come first. Then rows are ordered by pid, start and name.
public struct RowOrder: Sendable, Hashable {
    public var key: SortKey
    public var isReversed: Bool

    public init(_ key: SortKey, isReversed: Bool = false) {
        self.key = key
        self.isReversed = isReversed
    }

    /// The row of exited processes has only totals. Where the order is not about totals, that row comes last.
    private var isAboutTotals: Bool { self.key == .total || self.key == .sent || self.key == .received }

    private var isDescending: Bool { self.key.isDescending != self.isReversed }

    func precedes(_ left: UsageRow, _ right: UsageRow) -> Bool {
        let ascending: Bool?
        if (left.id == .exited) != (right.id == .exited), !self.isAboutTotals { return right.id == .exited }
        switch self.key {
        case .pid: ascending = less(left.pid ?? 0, right.pid ?? 0)
        case .user: ascending = less(left.user ?? "", right.user ?? "")
        case .name: ascending = less(left.name, right.name)
        case .unit: ascending = less(left.unit ?? "", right.unit ?? "")
        case .sockets: ascending = less(left.sockets, right.sockets)
        case .explained: ascending = less(left.explainedShare ?? -1, right.explainedShare ?? -1)
        default: ascending = less(self.value(left.bytes, left.rates), self.value(right.bytes, right.rates))
        }
        if let ascending { return ascending != self.isDescending }
        if left.isRunning != right.isRunning { return left.isRunning }
        return (left.pid ?? 0, left.started, left.name) < (right.pid ?? 0, right.started, right.name)
    }

    /// Sockets have no pid, user or unit of their own. For such keys sockets are ordered by remote address.
    func precedes(_ left: SocketUsage, _ right: SocketUsage) -> Bool {
        switch self.key {
        case .pid, .user, .name, .unit, .sockets, .explained: break
        default:
            if let less = less(self.value(left.bytes, left.rates), self.value(right.bytes, right.rates)) {
                return less != self.isDescending
            }
        }
        if (left.closedAt == nil) != (right.closedAt == nil) { return left.closedAt == nil }
        if let less = less(left.remote.address.description, right.remote.address.description) { return less }
        return (left.remote.port, left.serial) < (right.remote.port, right.serial)
    }

    /// An endpoint has bytes of messages and no rates. Keys about sent or received use that direction, other keys use
    /// both.
    func precedes(_ left: EndpointRow, _ right: EndpointRow) -> Bool {
        if let less = less(self.amount(left), self.amount(right)) { return !less }
        return (left.name, left.role.rawValue) < (right.name, right.role.rawValue)
    }

    private func amount(_ endpoint: EndpointRow) -> UInt64 {
        switch self.key {
        case .sent, .sentRate: endpoint.sent
        case .received, .receivedRate: endpoint.received
        default: endpoint.sent &+ endpoint.received
        }
    }

    private func value(_ bytes: ByteCounts, _ rates: PayloadRates) -> Double {
        switch self.key {
        case .sentRate: rates.sent
        case .receivedRate: rates.received
        case .total: Double(bytes.payloadSoFar.total)
        case .sent: Double(bytes.payloadSoFar.sent)
        case .received: Double(bytes.payloadSoFar.received)
        default: rates.total
        }
    }
}

/// - Returns: `nil` for equal values.
private func less<Value: Comparable>(_ left: Value, _ right: Value) -> Bool? {
    left == right ? nil : left < right
}
