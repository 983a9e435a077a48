import DequeModule
import TrafficModel
import TrafficReport

/// Exchanges that go on, and the last ones that ended. Bounded: the oldest of either are forgotten, which changes no total.
struct ExchangeTable {
    private struct Key: Hashable {
        var process: ProcessIdentity
        var exchange: UInt64
    }

    private struct Entry {
        var usage: ExchangeUsage
        var phases = Report.Phases()
    }

    private let openLimit: Int
    private let recentLimit: Int
    private var open: [Key: Entry] = [:]
    /// Oldest first; has keys of ended ones, too.
    private var openOrder: Deque<Key> = []
    private var recent: Deque<Entry> = []
    private var recentKeys: Set<Key> = []

    init(openLimit: Int = 8_192, recentLimit: Int = 1_000) {
        self.openLimit = openLimit
        self.recentLimit = recentLimit
    }

    /// Whether this kind of record of this exchange has been here.
    func has(_ message: Report.Message, isRequest: Bool, of process: ProcessIdentity) -> Bool {
        let key = Key(process: process, exchange: message.exchange)
        guard let index = self.open.index(forKey: key) else { return self.recentKeys.contains(key) }
        return isRequest ? self.open.values[index].usage.request != nil : self.open.values[index].usage.response != nil
    }

    func has(_ outcome: Report.Outcome, of process: ProcessIdentity) -> Bool {
        self.recentKeys.contains(Key(process: process, exchange: outcome.exchange))
    }

    mutating func add(
        _ message: Report.Message,
        isRequest: Bool,
        of sender: ReportSender,
        startedAt: Timestamp,
        quality: JoinQuality
    ) {
        let key = Key(process: sender.identity, exchange: message.exchange)
        if self.open.index(forKey: key) == nil {
            self.makeRoom(for: key)
            self.open[key] = Entry(
                usage: ExchangeUsage(
                    process: sender.identity,
                    processName: sender.name,
                    exchange: message.exchange,
                    role: EndpointRole(message.role),
                    method: message.method,
                    host: message.host,
                    route: message.route,
                    startedAt: startedAt
                )
            )
        }
        self.open[key]?.usage.add(message, isRequest: isRequest, startedAt: startedAt, quality: quality)
    }

    /// - Returns: Bytes of the exchange's messages.
    mutating func end(_ outcome: Report.Outcome, of sender: ReportSender, startedAt: Timestamp) -> UInt64 {
        let key = Key(process: sender.identity, exchange: outcome.exchange)
        var entry =
            self.open.removeValue(forKey: key)
            ?? Entry(
                usage: ExchangeUsage(
                    process: sender.identity,
                    processName: sender.name,
                    exchange: outcome.exchange,
                    role: EndpointRole(outcome.role),
                    method: outcome.method,
                    host: outcome.host,
                    route: outcome.route,
                    startedAt: startedAt
                )
            )
        entry.usage.startedAt = min(entry.usage.startedAt, startedAt)
        entry.usage.outcome = ExchangeOutcome(outcome.ending)
        if outcome.status != 0 { entry.usage.status = outcome.status }
        entry.usage.duration = outcome.duration / 1_000
        entry.phases = outcome.phases
        let bytes = (entry.usage.request?.message ?? 0) &+ (entry.usage.response?.message ?? 0)
        self.recent.append(entry)
        self.recentKeys.insert(key)
        if self.recent.count > self.recentLimit {
            let oldest = self.recent.removeFirst().usage
            self.recentKeys.remove(Key(process: oldest.process, exchange: oldest.exchange))
        }
        return bytes
    }

    private mutating func makeRoom(for key: Key) {
        self.openOrder.append(key)
        while self.open.count >= self.openLimit || self.openOrder.count > 2 * self.openLimit {
            self.open[self.openOrder.removeFirst()] = nil
        }
    }

    /// The newest last: those that ended, in the order of their ends, then those that go on.
    var snapshot: [ExchangeUsage] {
        self.recent.map { entry in
            var usage = entry.usage
            usage.phases = entry.phases.named
            return usage
        } + self.open.values.map(\.usage).sorted { ($0.startedAt, $0.exchange) < ($1.startedAt, $1.exchange) }
    }
}

extension ExchangeUsage {
    fileprivate mutating func add(
        _ message: Report.Message,
        isRequest: Bool,
        startedAt: Timestamp,
        quality: JoinQuality
    ) {
        self.startedAt = min(self.startedAt, startedAt)
        if message.chain != 0 { self.chain = message.chain }
        self.hop = message.hop
        if message.cookie != 0 { self.cookie = SocketCookie(rawValue: message.cookie) }
        self.quality = max(self.quality, quality)
        if isRequest {
            self.request = MessageBytes(message)
        } else {
            self.response = MessageBytes(message)
            self.status = message.status
        }
    }
}
