import DequeModule
import TrafficLimits
import TrafficModel
import TrafficReport

/// Exchanges that go on, and the last exchanges that ended. Limited for each process and user: the oldest exchanges of
/// the process or user are forgotten, which changes no total.
struct ExchangeTable: Codable {
    private struct Key: Hashable, Codable {
        var process: ProcessIdentity
        var exchange: UInt64

        /// Leaves out the start time of the process, because to hash a key is a good part of a record's work. A sender
        /// chooses the number, so the pid is hashed apart from it: no choice makes keys of different processes collide.
        func hash(into hasher: inout Hasher) {
            hasher.combine(self.exchange)
            hasher.combine(self.process.pid)
        }
    }

    /// The place of an exchange in the order of its process or user. The exchange may have ended since, and another
    /// exchange may go on under the same key.
    private struct Place: Codable {
        var key: Key
        var number: UInt64
    }

    fileprivate struct Open: Codable {
        var listed: ListedExchange
        /// How many exchanges were remembered before this exchange.
        var number: UInt64 = 0
        /// The user of the sender.
        var user: PayingUser
        /// The content class of the response.
        var contentClass: ContentClass?
        /// The request, while it waits for that class.
        var request: ContentPlace.Request?
        /// `nil` for a server, or if the kernel did not see how the connection began.
        var connection: ConnectionStart?
    }

    private struct Ended: Codable {
        var listed: ListedExchange
        /// How many exchanges had ended before this exchange.
        var number: UInt64
    }

    private struct Limits: NotSaved {
        var open = ReportLimits.openExchanges
        var ended = ReportLimits.endedExchanges
    }

    private var limits = Limits()
    private var open: [Key: Open] = [:]
    private var budget = Budget<ProcessIdentity>()
    // Oldest first. These orders have places of ended exchanges, too.
    private var orderOfProcess: [ProcessIdentity: Deque<Place>] = [:]
    private var orderOfUser: [PayingUser: Deque<Place>] = [:]
    /// The users as which a process has sent remembered exchanges.
    private var usersOfProcess: [ProcessIdentity: Set<PayingUser>] = [:]
    private var remembered: UInt64 = 0
    /// The last exchanges that ended, by user.
    private var recent = FairQueue<Ended>()
    private var recentKeys: Set<Key> = []
    private var ends: UInt64 = 0
    /// How many exchanges that went on were forgotten, or not remembered at all, because there was no room.
    private(set) var forgotten: UInt64 = 0

    init(open: Allowance = ReportLimits.openExchanges, ended: Allowance = ReportLimits.endedExchanges) {
        self.limits.open = open
        self.limits.ended = ended
    }

    /// The parts of an exchange that have already come.
    func parts(of exchange: UInt64, _ process: ProcessIdentity) -> KnownParts {
        let key = Key(process: process, exchange: exchange)
        if !self.open.isEmpty, let index = self.open.index(forKey: key) {
            let listed = self.open.values[index].listed
            return KnownParts(request: listed.request != nil, response: listed.response != nil)
        }
        let hasEnded = self.recentKeys.contains(key)
        return KnownParts(request: hasEnded, response: hasEnded, outcome: hasEnded)
    }

    /// Takes the parts of a record that count.
    ///
    /// - Parameters:
    ///   - share: What of the record counts. The table completes the outcome with what the kernel adds to it, and adds the
    ///     exchange's bytes and what its response is known by.
    ///   - group: The group of the sender.
    ///   - connection: How the socket of the messages was connected, if the kernel saw that.
    /// - Returns: The content row of the record.
    mutating func add(
        _ exchange: Report.Exchange,
        _ share: inout ExchangeShare,
        of sender: ReportSender,
        _ group: EndpointTotals.Group,
        over connection: ConnectionStart? = nil,
        startedAt: Timestamp
    ) -> ContentPlace {
        let key = Key(process: sender.identity, exchange: exchange.number)
        guard share.outcome == nil else {
            var entry =
                self.forget(key)
                ?? Open(listed: .init(exchange, of: sender, startedAt: startedAt), user: sender.user)
            let content = entry.end(exchange, &share, connection, startedAt: startedAt)
            self.keep(Ended(listed: entry.listed, number: self.ends), as: key, of: sender.user)
            return content
        }
        if !self.open.isEmpty, let index = self.open.index(forKey: key) {
            return self.open.values[index].add(exchange, share, group, connection, startedAt: startedAt)
        }
        var entry = Open(listed: .init(exchange, of: sender, startedAt: startedAt), user: sender.user)
        let content = entry.add(exchange, share, group, connection, startedAt: startedAt)
        self.remember(entry, as: key)
        return content
    }

    /// Lists an exchange that ended. It takes the place of the oldest ended exchange of its user, or of the users who
    /// have most.
    private mutating func keep(_ ended: Ended, as key: Key, of user: PayingUser) {
        self.ends += 1
        self.recentKeys.insert(key)
        let limit = UserLimit(self.limits.ended.user, inAll: self.limits.ended.all)
        for ended in self.recent.append(ended, of: user, within: limit) {
            self.recentKeys.remove(Key(process: ended.listed.process, exchange: ended.listed.number))
        }
    }

    /// Makes room among the exchanges of the same process or user. If none of them can go, the new exchange is not
    /// remembered.
    private mutating func remember(_ entry: Open, as key: Key) {
        if self.budget.held(by: key.process) >= self.limits.open.process {
            self.forgetOldest(of: key.process)
        }
        if !self.budget.hasRoom(of: key.process, entry.user, within: self.limits.open) {
            self.forgetOldest(of: entry.user)
        }
        guard self.budget.take(of: key.process, entry.user, within: self.limits.open) else {
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

    private mutating func forgetOldest(of user: PayingUser) {
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
    private mutating func tidy(_ process: ProcessIdentity, _ user: PayingUser) {
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
        guard !self.open.isEmpty, let entry = self.open.removeValue(forKey: key) else { return nil }
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
        self.recent.elements.sorted { $0.number < $1.number }.map(\.listed.usage)
            + self.open.values.map(\.listed).sorted { ($0.startedAt, $0.number) < ($1.startedAt, $1.number) }
            .map(\.usage)
    }
}

/// Which parts of an exchange have come.
struct KnownParts {
    var request = false
    var response = false
    var outcome = false
}

extension ExchangeTable.Open {
    fileprivate mutating func add(
        _ exchange: Report.Exchange,
        _ share: ExchangeShare,
        _ group: EndpointTotals.Group,
        _ connection: ConnectionStart?,
        startedAt: Timestamp
    ) -> ContentPlace {
        self.listed.add(exchange, share, startedAt: startedAt)
        self.note(connection)
        if let response = share.response {
            let contentClass = ContentClass(response.contentClass)
            self.contentClass = contentClass
            return ContentPlace(contentClass: contentClass, request: self.request.take())
        }
        if self.contentClass == nil, let request = share.request {
            self.request = .init(message: request, role: .init(exchange.role), in: group)
        }
        return ContentPlace(contentClass: self.contentClass ?? .unknown)
    }

    /// The exchange has ended.
    fileprivate mutating func end(
        _ exchange: Report.Exchange,
        _ share: inout ExchangeShare,
        _ connection: ConnectionStart?,
        startedAt: Timestamp
    ) -> ContentPlace {
        self.listed.add(exchange, share, startedAt: startedAt)
        self.note(connection)
        if let connection = self.connection { share.outcome?.complete(with: connection, of: exchange) }
        if let outcome = share.outcome { self.listed.end(with: outcome) }
        share.bytes = self.listed.messageBytes
        share.responseKey = self.listed.responseKey
        // A status means that there was a response. The ledger has not seen that response, or no longer remembers it.
        let contentClass =
            share.response.map { ContentClass($0.contentClass) } ?? self.contentClass
            ?? (share.outcome?.status == 0 ? .none : .unknown)
        return ContentPlace(contentClass: contentClass, request: self.request)
    }

    private mutating func note(_ connection: ConnectionStart?) {
        guard var known = connection else { return }
        // By the time of the response, the socket may have connected to another peer.
        known.times = self.connection?.times ?? known.times
        known.isFirst = known.isFirst || self.connection?.isFirst == true
        self.connection = known
    }
}
