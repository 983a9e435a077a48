import TrafficLimits
import TrafficModel

/// The two addresses of a socket. They decide how far the socket's bytes go.
struct SocketEnds: Hashable, Codable {
    var local: SocketAddress
    var remote: SocketAddress

    /// The same addresses as the socket at the other end has them.
    var reversed: SocketEnds { SocketEnds(local: self.remote, remote: self.local) }
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
/// has another address. It waits on while a connection is only asked for: the other end has no socket yet. If a user has
/// too many undecided sockets, the ledger decides further sockets at once, by what it knows then.
struct DestinationTotals: Codable {
    private struct Waiting: Codable {
        var serial: UInt64
        var user: PayingUser
        var ends: SocketEnds
        var growth: ByteCounts
    }

    var configuration: LedgerConfiguration
    private var hostAddresses: Set<InternetAddress> = []
    private var scopes: [SocketScope: ByteCounts] = [:]
    private var named: [String: ByteCounts] = [:]
    private var waiting: [Waiting] = []
    private var waitingOfUser: [PayingUser: Int] = [:]

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
    /// - Returns: The destination; `nil` if it is still undecided.
    mutating func credit(
        _ growth: ByteCounts,
        of serial: UInt64,
        _ user: PayingUser,
        over ends: SocketEnds,
        to destination: Destination?
    ) -> Destination? {
        if let destination {
            self.add(growth, to: destination)
            return destination
        }
        let ofUser = self.waitingOfUser[user, default: 0]
        guard ofUser < self.limit.ofUser, self.waiting.count < self.limit.inAll else {
            guard let destination = self.destination(of: ends, hasBothSockets: false) else { return nil }
            self.add(growth, to: destination)
            return destination
        }
        self.waitingOfUser[user] = ofUser + 1
        self.waiting.append(Waiting(serial: serial, user: user, ends: ends, growth: growth))
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

    /// Decides the destinations of the waiting bytes, and credits these bytes.
    ///
    /// - Returns: The destination of each socket from now on.
    mutating func decide(among sockets: SocketTable) -> [(serial: UInt64, ends: SocketEnds, destination: Destination)] {
        var decided: [(UInt64, SocketEnds, Destination)] = []
        let entries = self.waiting
        (self.waiting, self.waitingOfUser) = ([], [:])
        for entry in entries {
            let isFound = sockets.ends.contains(entry.ends.reversed)
            if !isFound && sockets[entry.serial]?.isOpening(over: entry.ends) == true {
                self.waiting.append(entry)
                self.waitingOfUser[entry.user, default: 0] += 1
                continue
            }
            guard let destination = self.destination(of: entry.ends, hasBothSockets: isFound) else { continue }
            self.add(entry.growth, to: destination)
            decided.append((entry.serial, entry.ends, destination))
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
