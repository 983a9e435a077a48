import DequeModule
import TrafficModel
import TrafficReport

/// Exchanges that go on, and the last ones that ended. Bounded: the oldest of either are forgotten, which changes no total.
struct ExchangeTable {
    private struct Key: Hashable {
        var process: ProcessIdentity
        var exchange: UInt64

        /// All that tells those of different processes apart but their beginning: to hash a key is a good part of a record's work.
        func hash(into hasher: inout Hasher) {
            hasher.combine(self.exchange ^ UInt64(UInt32(bitPattern: self.process.pid)) << 40)
        }
    }

    fileprivate struct Open {
        var usage: ExchangeUsage
        /// The response's.
        var contentClass: ContentClass?
        /// Waits for that.
        var request: ContentPlace.Request?
        /// `nil`: of a server, or nobody saw it.
        var connection: ConnectionStart?
    }

    private struct Ended {
        var usage: ExchangeUsage
        var phases: Report.Phases
    }

    private let openLimit: Int
    private let recentLimit: Int
    private var open: [Key: Open] = [:]
    /// Oldest first; has keys of ended ones, too.
    private var openOrder: Deque<Key> = []
    private var recent: Deque<Ended> = []
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

    /// - Parameters:
    ///   - group: Of the sender.
    ///   - connection: Of the socket that carried the message, where the kernel saw how that was connected.
    mutating func add(
        _ message: Report.Message,
        _ share: MessageShare,
        of sender: ReportSender,
        _ group: EndpointTotals.Group,
        over connection: ConnectionStart? = nil,
        startedAt: Timestamp
    ) -> ContentPlace {
        let key = Key(process: sender.identity, exchange: message.exchange)
        let known = self.open.changeInPlace(key) { $0.add(message, share, group, connection, startedAt: startedAt) }
        if let known { return known }
        var entry = Open(
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
        let content = entry.add(message, share, group, connection, startedAt: startedAt)
        self.makeRoom(for: key)
        self.open[key] = entry
        return content
    }

    /// - Returns: The outcome with what the kernel adds to it, and the bytes of the exchange's messages.
    mutating func end(
        _ outcome: Report.Outcome,
        of sender: ReportSender,
        startedAt: Timestamp
    ) -> (outcome: Report.Outcome, bytes: UInt64, content: ContentPlace) {
        let key = Key(process: sender.identity, exchange: outcome.exchange)
        var entry =
            self.open.removeValue(forKey: key)
            ?? Open(
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
        var outcome = outcome
        if let connection = entry.connection { outcome.complete(with: connection) }
        entry.usage.startedAt = min(entry.usage.startedAt, startedAt)
        entry.usage.outcome = ExchangeOutcome(outcome.ending)
        if outcome.status != 0 { entry.usage.status = outcome.status }
        entry.usage.duration = outcome.duration / 1_000
        let bytes = (entry.usage.request?.message ?? 0) &+ (entry.usage.response?.message ?? 0)
        // With a status there was a response, which nobody has seen or remembers.
        let content = ContentPlace(
            contentClass: entry.contentClass ?? (outcome.status == 0 ? .none : .unknown),
            request: entry.request
        )
        self.recent.append(Ended(usage: entry.usage, phases: outcome.phases))
        self.recentKeys.insert(key)
        if self.recent.count > self.recentLimit {
            let oldest = self.recent.removeFirst().usage
            self.recentKeys.remove(Key(process: oldest.process, exchange: oldest.exchange))
        }
        return (outcome, bytes, content)
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

extension ExchangeTable.Open {
    fileprivate mutating func add(
        _ message: Report.Message,
        _ share: MessageShare,
        _ group: EndpointTotals.Group,
        _ connection: ConnectionStart?,
        startedAt: Timestamp
    ) -> ContentPlace {
        self.usage.add(message, share, startedAt: startedAt)
        if var known = connection {
            // The socket may have connected to someone else by the time of the response.
            known.times = self.connection?.times ?? known.times
            known.isFirst = known.isFirst || self.connection?.isFirst == true
            self.connection = known
        }
        guard share.isRequest else {
            let contentClass = ContentClass(message.contentClass)
            self.contentClass = contentClass
            return ContentPlace(contentClass: contentClass, request: self.request.take())
        }
        if self.contentClass == nil { self.request = .init(message: share, role: .init(message.role), in: group) }
        return ContentPlace(contentClass: self.contentClass ?? .unknown)
    }
}

extension ExchangeUsage {
    fileprivate mutating func add(_ message: Report.Message, _ share: MessageShare, startedAt: Timestamp) {
        self.startedAt = min(self.startedAt, startedAt)
        if message.chain != 0 { self.chain = message.chain }
        self.hop = message.hop
        if message.cookie != 0 { self.cookie = SocketCookie(rawValue: message.cookie) }
        self.quality = max(self.quality, share.quality)
        // What a response says of it, a request does not take back.
        if !share.isRequest || self.version == nil { self.version = HTTPVersion(message.version) ?? self.version }
        if share.isRequest {
            self.request = share.bytes
        } else {
            self.response = share.bytes
            self.status = message.status
        }
    }
}
