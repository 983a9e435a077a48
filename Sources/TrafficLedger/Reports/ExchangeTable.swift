import DequeModule
import TrafficModel
import TrafficReport

/// Exchanges that go on, and the last exchanges that ended. Limited for each process and user: the oldest exchanges of
/// the process or user are forgotten, which changes no total.
struct ExchangeTable {
    private struct Key: Hashable {
        var process: ProcessIdentity
        var exchange: UInt64

        /// Hashes what tells exchanges of different processes apart, except the start time of the process. To hash a
        /// key is a good part of a record's work.
        func hash(into hasher: inout Hasher) {
            hasher.combine(self.exchange ^ UInt64(UInt32(bitPattern: self.process.pid)) << 40)
        }
    }

    /// The place of an exchange in the order of its process or user. The exchange may have ended since, and another
    /// exchange may go on under the same key.
    private struct Place {
        var key: Key
        var number: UInt64
    }

    fileprivate struct Open {
        var usage: ExchangeUsage
        /// How many exchanges were remembered before this exchange.
        var number: UInt64 = 0
        /// The user of the sender.
        var user: UInt32
        /// The content class of the response.
        var contentClass: ContentClass?
        /// The request, while it waits for that class.
        var request: ContentPlace.Request?
        /// `nil` for a server, or if the kernel did not see how the connection began.
        var connection: ConnectionStart?
    }

    private struct Ended {
        var usage: ExchangeUsage
        var phases: Report.Phases
        /// How many exchanges had ended before this exchange.
        var number: UInt64
    }

    private let endedLimit: Allowance
    private var open: [Key: Open] = [:]
    private var budget: Budget<ProcessIdentity>
    // Oldest first. These orders have places of ended exchanges, too.
    private var orderOfProcess: [ProcessIdentity: Deque<Place>] = [:]
    private var orderOfUser: [UInt32: Deque<Place>] = [:]
    /// The users as which a process has sent remembered exchanges.
    private var usersOfProcess: [ProcessIdentity: Set<UInt32>] = [:]
    private var remembered: UInt64 = 0
    /// The last exchanges that ended, by user.
    private var recent: [UInt32: Deque<Ended>] = [:]
    private var recentKeys: Set<Key> = []
    private var ends: UInt64 = 0
    /// How many exchanges that went on were forgotten, or not remembered at all, because there was no room.
    private(set) var forgotten: UInt64 = 0

    init(open: Allowance = ReportLimits.openExchanges, ended: Allowance = ReportLimits.endedExchanges) {
        self.budget = Budget(open)
        self.endedLimit = ended
    }

    /// Whether a record of this kind has already come for this exchange.
    func has(_ message: Report.Message, isRequest: Bool, of process: ProcessIdentity) -> Bool {
        let key = Key(process: process, exchange: message.exchange)
        guard let index = self.open.index(forKey: key) else { return self.recentKeys.contains(key) }
        return isRequest ? self.open.values[index].usage.request != nil : self.open.values[index].usage.response != nil
    }

    func has(_ outcome: Report.Outcome, of process: ProcessIdentity) -> Bool {
        self.recentKeys.contains(Key(process: process, exchange: outcome.exchange))
    }

    /// - Parameters:
    ///   - group: The group of the sender.
    ///   - connection: How the socket of the message was connected, if the kernel saw that.
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
            ),
            user: sender.user
        )
        let content = entry.add(message, share, group, connection, startedAt: startedAt)
        self.remember(entry, as: key)
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
            self.forget(key)
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
                ),
                user: sender.user
            )
        var outcome = outcome
        if let connection = entry.connection { outcome.complete(with: connection) }
        entry.usage.startedAt = min(entry.usage.startedAt, startedAt)
        entry.usage.outcome = ExchangeOutcome(outcome.ending)
        if outcome.status != 0 { entry.usage.status = outcome.status }
        entry.usage.duration = outcome.duration / 1_000
        let bytes = (entry.usage.request?.message ?? 0) &+ (entry.usage.response?.message ?? 0)
        // A status means that there was a response. The ledger has not seen that response, or no longer remembers it.
        let content = ContentPlace(
            contentClass: entry.contentClass ?? (outcome.status == 0 ? .none : .unknown),
            request: entry.request
        )
        self.keep(Ended(usage: entry.usage, phases: outcome.phases, number: self.ends), as: key, of: sender.user)
        return (outcome, bytes, content)
    }

    /// Lists an exchange that ended. It takes the place of the oldest ended exchange of its user, or of the users who
    /// have most.
    private mutating func keep(_ ended: Ended, as key: Key, of user: UInt32) {
        self.ends += 1
        self.recent[user, default: []].append(ended)
        self.recentKeys.insert(key)
        if self.recent[user, default: []].count > self.endedLimit.user { return self.dropOldestEnded(1, of: user) }
        // Not for each exchange beyond the limit, because this looks at all users.
        guard self.recentKeys.count > self.endedLimit.all + self.endedLimit.all / 4 else { return }
        for (user, count) in FairShare.surplus(of: self.recent.mapValues(\.count), limit: self.endedLimit.all) {
            self.dropOldestEnded(count, of: user)
        }
    }

    private mutating func dropOldestEnded(_ count: Int, of user: UInt32) {
        for _ in 0..<count {
            let oldest = self.recent.changeInPlace(user) { $0.popFirst()?.usage } ?? nil
            if let oldest { self.recentKeys.remove(Key(process: oldest.process, exchange: oldest.exchange)) }
        }
        if self.recent[user]?.isEmpty == true { self.recent[user] = nil }
    }

    /// Makes room among the exchanges of the same process or user. If none of them can go, the new exchange is not
    /// remembered.
    private mutating func remember(_ entry: Open, as key: Key) {
        if self.budget.held(by: key.process) >= self.budget.allowance.process {
            self.forgetOldest(of: key.process)
        }
        if !self.budget.hasRoom(of: key.process, entry.user) {
            self.forgetOldest(of: entry.user)
        }
        guard self.budget.take(of: key.process, entry.user) else {
            self.forgotten += 1
            return
        }
        var entry = entry
        entry.number = self.remembered
        self.remembered += 1
        self.open[key] = entry
        let place = Place(key: key, number: entry.number)
        self.orderOfProcess[key.process, default: []].append(place)
        self.orderOfUser[entry.user, default: []].append(place)
        self.usersOfProcess[key.process, default: []].insert(entry.user)
        self.tidy(key.process, entry.user)
    }

    private mutating func forgetOldest(of process: ProcessIdentity) {
        while let place = self.orderOfProcess.changeInPlace(process, { $0.popFirst() }) ?? nil {
            if self.forget(place) { return }
        }
    }

    private mutating func forgetOldest(of user: UInt32) {
        while let place = self.orderOfUser.changeInPlace(user, { $0.popFirst() }) ?? nil {
            if self.forget(place) { return }
        }
    }

    /// - Returns: `false` if the exchange had ended.
    private mutating func forget(_ place: Place) -> Bool {
        guard self.open[place.key]?.number == place.number, self.forget(place.key) != nil else { return false }
        self.forgotten += 1
        return true
    }

    /// Removes ended exchanges from the orders once most places are theirs.
    private mutating func tidy(_ process: ProcessIdentity, _ user: UInt32) {
        let open = self.open
        let (ofProcess, ofUser) = (self.budget.held(by: process), self.budget.held(byUser: user))
        self.orderOfProcess.changeInPlace(process) { order in
            if order.count > 2 * ofProcess + 64 { order.removeAll { open[$0.key]?.number != $0.number } }
        }
        self.orderOfUser.changeInPlace(user) { order in
            if order.count > 2 * ofUser + 64 { order.removeAll { open[$0.key]?.number != $0.number } }
        }
    }

    private mutating func forget(_ key: Key) -> Open? {
        guard let entry = self.open.removeValue(forKey: key) else { return nil }
        self.budget.add(-1, of: key.process, entry.user)
        return entry
    }

    /// Forgets a process that is no longer listed.
    mutating func forget(process: ProcessIdentity) {
        for place in self.orderOfProcess.removeValue(forKey: process) ?? [] { _ = self.forget(place.key) }
        for user in self.usersOfProcess.removeValue(forKey: process) ?? [] where self.budget.held(byUser: user) == 0 {
            self.orderOfUser[user] = nil
        }
    }

    /// Newest last: first the exchanges that ended, in the order of their ends, then the exchanges that go on.
    var snapshot: [ExchangeUsage] {
        self.recent.values.joined().sorted { $0.number < $1.number }.map { entry in
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
            // By the time of the response, the socket may have connected to another peer.
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
        // A request does not overwrite the version that a response told.
        if !share.isRequest || self.version == nil { self.version = HTTPVersion(message.version) ?? self.version }
        if share.isRequest {
            self.request = share.bytes
        } else {
            self.response = share.bytes
            self.status = message.status
        }
    }
}
