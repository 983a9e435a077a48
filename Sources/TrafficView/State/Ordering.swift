import TrafficModel

/// What rows are ordered by. Raw values are what `--sort` takes.
public enum SortKey: String, Sendable, Hashable, CaseIterable {
    case pid, user, name, unit, sockets
    /// Bytes per second, both ways together.
    case rate
    case sentRate = "sent-rate"
    case receivedRate = "received-rate"
    /// Bytes since counting began, both ways together.
    case total
    case sent, received
    /// Of the payload, the part that reports say the purpose of.
    case coverage

    /// Whether the largest comes first unless reversed: so for amounts, not for names.
    public var isDescending: Bool {
        switch self {
        case .pid, .user, .name, .unit: false
        case .sockets, .rate, .sentRate, .receivedRate, .total, .sent, .received, .coverage: true
        }
    }

    /// The same question asked of rates or of totals; `self` where it is about neither.
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

/// Which numbers lead where there is no room for both.
public enum Measure: Sendable, Hashable {
    case rates, totals
}

/// What makes one row of the list. Raw values are what `--group` takes.
public enum Grouping: String, Sendable, Hashable, CaseIterable {
    case process, executable, unit, user, remote

    func next(_ step: Int) -> Grouping {
        let all = Self.allCases
        let index = all.firstIndex(of: self) ?? 0
        return all[(index + step + all.count) % all.count]
    }
}

/// One order for all rows. It is total: rows with equal values stand by pid, the running ones first, then by name, so that nothing jumps while the
/// numbers stand still.
public struct RowOrder: Sendable, Hashable {
    public var key: SortKey
    public var isReversed: Bool

    public init(_ key: SortKey, isReversed: Bool = false) {
        self.key = key
        self.isReversed = isReversed
    }

    /// What is left of exited processes has totals and nothing else to be ordered by.
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
        case .coverage: ascending = less(left.coverage ?? -1, right.coverage ?? -1)
        default: ascending = less(self.value(left.bytes, left.rates), self.value(right.bytes, right.rates))
        }
        if let ascending { return ascending != self.isDescending }
        if left.isRunning != right.isRunning { return left.isRunning }
        return (left.pid ?? 0, left.started, left.name) < (right.pid ?? 0, right.started, right.name)
    }

    /// Sockets have no pid, user or unit of their own; for those keys they stand by remote address.
    func precedes(_ left: SocketUsage, _ right: SocketUsage) -> Bool {
        switch self.key {
        case .pid, .user, .name, .unit, .sockets, .coverage: break
        default:
            if let less = less(self.value(left.bytes, left.rates), self.value(right.bytes, right.rates)) {
                return less != self.isDescending
            }
        }
        if (left.closedAt == nil) != (right.closedAt == nil) { return left.closedAt == nil }
        if let less = less(left.remote.address.description, right.remote.address.description) { return less }
        return (left.remote.port, left.serial) < (right.remote.port, right.serial)
    }

    /// An API has messages' bytes and no rates; by anything else than received it stands by both ways.
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

/// `nil` for equal values.
private func less<Value: Comparable>(_ left: Value, _ right: Value) -> Bool? {
    left == right ? nil : left < right
}
