import DequeModule
import TrafficModel
import TrafficReport

/// Exchanges that go on, and the last ones that ended. Bounded: the oldest of either are forgotten, which changes no total.
struct ExchangeTable {
    private struct Key: Hashable {
        var process: ProcessIdentity
        var exchange: UInt64
    }

    private let openLimit: Int
    private let recentLimit: Int
    private var open: [Key: ExchangeUsage] = [:]
    /// Oldest first; has keys of ended ones, too.
    private var openOrder: Deque<Key> = []
    private var recent: Deque<ExchangeUsage> = []
    private var recentKeys: Set<Key> = []

    init(openLimit: Int = 8_192, recentLimit: Int = 1_000) {
        self.openLimit = openLimit
        self.recentLimit = recentLimit
    }

    /// Whether this kind of record of this exchange has been here.
    func has(_ message: Report.Message, isRequest: Bool, of process: ProcessIdentity) -> Bool {
        let key = Key(process: process, exchange: message.exchange)
        guard let known = self.open[key] else { return self.recentKeys.contains(key) }
        return (isRequest ? known.request : known.response) != nil
    }

    func has(_ outcome: Report.Outcome, of process: ProcessIdentity) -> Bool {
        self.recentKeys.contains(Key(process: process, exchange: outcome.exchange))
    }

    mutating func add(
        _ message: Report.Message,
        isRequest: Bool,
        of process: ProcessIdentity,
        named name: String,
        startedAt: Timestamp,
        quality: JoinQuality
    ) {
        let key = Key(process: process, exchange: message.exchange)
        var usage =
            self.open[key]
            ?? self.begin(
                key,
                ExchangeUsage(
                    process: process,
                    processName: name,
                    exchange: message.exchange,
                    role: EndpointRole(message.role),
                    method: message.method,
                    host: message.host,
                    route: message.route,
                    startedAt: startedAt
                )
            )
        usage.startedAt = min(usage.startedAt, startedAt)
        usage.chain = message.chain == 0 ? usage.chain : message.chain
        usage.hop = message.hop
        usage.cookie = message.cookie == 0 ? usage.cookie : SocketCookie(rawValue: message.cookie)
        usage.quality = max(usage.quality, quality)
        if isRequest {
            usage.request = MessageBytes(message)
        } else {
            usage.response = MessageBytes(message)
            usage.status = message.status
        }
        self.open[key] = usage
    }

    /// - Returns: Bytes of the exchange's messages.
    mutating func end(
        _ outcome: Report.Outcome,
        of process: ProcessIdentity,
        named name: String,
        startedAt: Timestamp
    ) -> UInt64 {
        let key = Key(process: process, exchange: outcome.exchange)
        var usage =
            self.open.removeValue(forKey: key)
            ?? ExchangeUsage(
                process: process,
                processName: name,
                exchange: outcome.exchange,
                role: EndpointRole(outcome.role),
                method: outcome.method,
                host: outcome.host,
                route: outcome.route,
                startedAt: startedAt
            )
        usage.startedAt = min(usage.startedAt, startedAt)
        usage.outcome = ExchangeOutcome(outcome.ending)
        usage.status = outcome.status == 0 ? usage.status : outcome.status
        usage.duration = outcome.duration / 1_000
        usage.phases = outcome.phases.named.mapValues { UInt64($0) }
        self.recent.append(usage)
        self.recentKeys.insert(key)
        if self.recent.count > self.recentLimit {
            let oldest = self.recent.removeFirst()
            self.recentKeys.remove(Key(process: oldest.process, exchange: oldest.exchange))
        }
        return (usage.request?.message ?? 0) &+ (usage.response?.message ?? 0)
    }

    private mutating func begin(_ key: Key, _ usage: ExchangeUsage) -> ExchangeUsage {
        self.openOrder.append(key)
        while self.open.count >= self.openLimit || self.openOrder.count > 2 * self.openLimit {
            self.open[self.openOrder.removeFirst()] = nil
        }
        return usage
    }

    /// The newest last: those that ended, in the order of their ends, then those that go on.
    var snapshot: [ExchangeUsage] {
        Array(self.recent)
            + self.open.values.sorted { ($0.startedAt, $0.exchange) < ($1.startedAt, $1.exchange) }
    }
}
