import TrafficLimits
import TrafficModel

/// The two addresses of a socket. They decide how far the socket's bytes go.
struct SocketEnds: Hashable, Codable {
    var local: SocketAddress
    var remote: SocketAddress
}

/// The sums to which a socket's bytes are added, besides those of its processes.
struct Destination: Hashable, Codable {
    var scope: SocketScope
    var addressClass: String?
}

/// The bytes of all sockets, by the place of their other ends.
///
/// The ledger decides a socket's destination at the first tick after it saw the socket with its addresses. Then the
/// destination stays, even if the host's addresses change: credited bytes are never moved. The ledger waits for the
/// tick because events of one round come in any order: the two sockets of a connection, and the news that an interface
/// has another address. It waits up to ``patience`` ticks for the other end of a connection over which no payload has
/// moved: that end may have no socket yet, or no program has used it. If a user has too many undecided sockets, the ledger
/// decides further sockets at once, by what it knows then.
struct DestinationTotals: Codable {
    /// In ticks.
    private static let patience: UInt64 = 3

    private struct Place: Hashable, Codable {
        var serial: UInt64
        var ends: SocketEnds
    }

    private struct Waiting: Codable {
        var transport: TransportProtocol
        var user: PayingUser
        /// The number of the last tick before the socket was seen.
        var since: UInt64
        var growth: ByteCounts
    }

    var configuration: LedgerConfiguration
    private var hostAddresses: Set<InternetAddress> = []
    private var scopes: [SocketScope: ByteCounts] = [:]
    private var named: [String: ByteCounts] = [:]
    private var undecided: [Place: Waiting] = [:]
    private var waitingOfUser: [PayingUser: Int] = [:]
    private var ticks: UInt64 = 0

    init(_ configuration: LedgerConfiguration) {
        self.configuration = configuration
        self.renewClasses()
    }

    /// Begins with the sums of another ledger. The sum of a class that is gone is forgotten.
    mutating func goOn(with balance: Balance) {
        for (name, bytes) in balance.byScope {
            if let scope = SocketScope(rawValue: name) { self.scopes[scope] = bytes }
        }
        for (name, bytes) in balance.byClass where self.named[name] != nil {
            self.named[name] = bytes
        }
    }

    /// Has a sum for each class that there is now, and for no other class.
    mutating func renewClasses() {
        let before = self.named
        self.named = [:]
        for name in self.classes.names {
            self.named[name] = before[name] ?? ByteCounts(retransmitted: 0)
        }
    }

    private var classes: AddressClasses { self.configuration.classes }
    /// How many entries may be undecided.
    private var limit: Ledger.Retention.Limit { self.configuration.retention.undecidedLimit }

    mutating func absorb(_ hostAddresses: Set<InternetAddress>) {
        self.hostAddresses = hostAddresses
    }

    /// - Parameters:
    ///   - user: Whose socket it is.
    ///   - destination: `nil` if it is not decided yet.
    ///   - sockets: All that the ledger knows.
    /// - Returns: The destination; `nil` if it is still undecided.
    mutating func credit(
        _ growth: ByteCounts,
        of serial: UInt64,
        _ user: PayingUser,
        over ends: SocketEnds,
        _ transport: TransportProtocol,
        to destination: Destination?,
        among sockets: SocketTable
    ) -> Destination? {
        if let destination {
            self.add(growth, to: destination)
            return destination
        }
        let place = Place(serial: serial, ends: ends)
        guard self.undecided.changeInPlace(place, { $0.growth += growth }) == nil else { return nil }
        let ofUser = self.waitingOfUser[user, default: 0]
        guard ofUser < self.limit.ofUser, self.undecided.count < self.limit.inAll else {
            let hasBoth = sockets.ends.contains(EndsIndex.Key(ends, transport).reversed)
            guard let destination = self.destination(of: ends, hasBothSockets: hasBoth) else { return nil }
            self.add(growth, to: destination)
            return destination
        }
        self.waitingOfUser[user] = ofUser + 1
        self.undecided[place] = Waiting(transport: transport, user: user, since: self.ticks, growth: growth)
        return nil
    }

    /// - Parameter hasBothSockets: The ledger knows the socket at the other end, too. Then the connection is within this
    ///   machine, such as one with a container.
    private func destination(of ends: SocketEnds, hasBothSockets: Bool) -> Destination? {
        let (local, remote) = (ends.local.address, ends.remote.address)
        guard var scope = SocketScope(local: local, remote: remote, hostAddresses: self.hostAddresses) else {
            return nil
        }
        if scope != .loopback && hasBothSockets { scope = .sameHost }
        return Destination(scope: scope, addressClass: self.classes.name(of: remote))
    }

    mutating func tick() { self.ticks += 1 }

    /// Decides the destinations of the waiting bytes, and credits these bytes.
    ///
    /// - Parameters:
    ///   - sockets: All that the ledger knows.
    ///   - isLast: Nothing more will be found out: no socket waits on.
    /// - Returns: The destination of each decided socket from now on.
    mutating func decide(
        among sockets: SocketTable,
        isLast: Bool
    ) -> [(serial: UInt64, ends: SocketEnds, destination: Destination)] {
        var decided: [(UInt64, SocketEnds, Destination)] = []
        let all = self.undecided
        (self.undecided, self.waitingOfUser) = ([:], [:])
        // Some of a round's sockets may have left the list already, because others exceeded a limit.
        let news = Set(all.map { EndsIndex.Key($0.key.ends, $0.value.transport) })
        for (place, entry) in all {
            let ends = place.ends
            let other = EndsIndex.Key(ends, entry.transport).reversed
            let isFound = news.contains(other) || sockets.ends.contains(other)
            guard let destination = self.destination(of: ends, hasBothSockets: isFound) else { continue }
            let mayWait = !isLast && destination.scope.isFar && self.ticks - entry.since < Self.patience
            if mayWait, let socket = sockets[place.serial], socket.isUnused(over: ends) {
                self.undecided[place] = entry
                self.waitingOfUser[entry.user, default: 0] += 1
                continue
            }
            self.add(entry.growth, to: destination)
            decided.append((place.serial, ends, destination))
        }
        return decided
    }

    /// Pending bytes are counted anew at every tick and look.
    mutating func forgetPending() {
        for scope in self.scopes.keys { self.scopes[scope]?.pendingSent = 0 }
        for name in self.named.keys { self.named[name]?.pendingSent = 0 }
    }

    /// The only place where bytes are added to the sum of a scope or a class.
    mutating func add(_ growth: ByteCounts, to destination: Destination) {
        self.scopes[destination.scope, default: ByteCounts()] += growth
        if let name = destination.addressClass { self.named[name, default: ByteCounts()] += growth }
    }

    var byScope: [String: ByteCounts] {
        Dictionary(uniqueKeysWithValues: self.scopes.map { ($0.key.rawValue, $0.value) })
    }

    /// `nil` where there are no classes.
    var byClass: [String: ByteCounts]? {
        guard !self.classes.isEmpty else { return nil }
        return self.named
    }
}
