import TrafficEvents
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
    /// In ticks. The first of them is the one after the socket was seen.
    private static let patience: UInt64 = 3

    /// When the ledger decides.
    enum Occasion {
        /// Sockets that an earlier decision left waiting wait on, unless they have moved something since.
        case look
        case tick
        /// Nothing more will be found out: no socket waits on.
        case end
    }

    /// A socket over one pair of addresses.
    struct SocketOverEnds: Hashable, Codable {
        var serial: UInt64
        var ends: SocketEnds
    }

    /// Bytes of such a socket that are in no scope yet.
    struct Undecided: Codable {
        var transport: TransportProtocol
        var networkNamespace: UInt32
        /// Whose socket it is.
        var user: PayingUser
        fileprivate var growth = ByteCounts()
        /// The number of the last tick before the socket was seen.
        fileprivate var since: UInt64 = 0
        /// An earlier decision left it waiting, and it has moved nothing since.
        fileprivate var waitsOn = false

        init(_ socket: SocketObservation?, of user: PayingUser) {
            (self.transport, self.networkNamespace) = (socket?.transport ?? .other, socket?.networkNamespace ?? 0)
            self.user = user
        }

        func hasOtherEnd(over ends: SocketEnds, in index: EndsIndex) -> Bool {
            index.hasOtherEnd(of: EndsIndex.Key(ends, self.transport), in: self.networkNamespace)
        }
    }

    var configuration: LedgerConfiguration
    private var hostAddresses: Set<InternetAddress> = []
    private var scopes: [SocketScope: ByteCounts] = [:]
    private var named: [String: ByteCounts] = [:]
    private var undecided: [SocketOverEnds: Undecided] = [:]
    private var undecidedOfUser: [PayingUser: Int] = [:]
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
    /// How many sockets may be undecided.
    private var limit: Ledger.Retention.Limit { self.configuration.retention.undecidedLimit }

    mutating func absorb(_ hostAddresses: Set<InternetAddress>) {
        self.hostAddresses = hostAddresses
    }

    /// Adds bytes of a socket whose destination is not decided.
    ///
    /// - Parameter index: Of all sockets that the ledger knows.
    /// - Returns: The destination; `nil` if it is still undecided.
    mutating func credit(
        _ growth: ByteCounts,
        of socket: SocketOverEnds,
        _ undecided: Undecided,
        among index: EndsIndex
    ) -> Destination? {
        if let index = self.undecided.index(forKey: socket) {
            self.undecided.values[index].growth += growth
            self.undecided.values[index].waitsOn = false
            return nil
        }
        let ofUser = self.undecidedOfUser[undecided.user, default: 0]
        guard ofUser < self.limit.ofUser, self.undecided.count < self.limit.inAll else {
            let hasBoth = undecided.hasOtherEnd(over: socket.ends, in: index)
            guard let destination = self.destination(of: socket.ends, hasBothSockets: hasBoth) else { return nil }
            self.add(growth, to: destination)
            return destination
        }
        self.undecidedOfUser[undecided.user] = ofUser + 1
        var undecided = undecided
        (undecided.growth, undecided.since) = (growth, self.ticks)
        self.undecided[socket] = undecided
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

    /// Decides the destinations of undecided sockets, and credits their bytes.
    ///
    /// - Returns: The destination of each decided socket from now on.
    mutating func decide(
        at occasion: Occasion,
        among sockets: SocketTable
    ) -> [(socket: SocketOverEnds, destination: Destination)] {
        if occasion == .tick { self.ticks += 1 }
        // Some of a round's sockets may have left the list already, because others exceeded a limit.
        var news = EndsIndex()
        for (socket, entry) in self.undecided where !entry.waitsOn {
            news.replace(nil, with: EndsIndex.Key(socket.ends, entry.transport), in: entry.networkNamespace)
        }
        var (decided, waiting): ([(SocketOverEnds, Destination)], [SocketOverEnds]) = ([], [])
        for (socket, entry) in self.undecided where occasion != .look || !entry.waitsOn {
            let hasBoth =
                entry.hasOtherEnd(over: socket.ends, in: news)
                || entry.hasOtherEnd(over: socket.ends, in: sockets.endsIndex)
            guard let destination = self.destination(of: socket.ends, hasBothSockets: hasBoth) else { continue }
            let mayWait = occasion != .end && destination.scope.isFar && self.ticks -| entry.since < Self.patience
            if mayWait && sockets.isUnused(socket.serial, over: socket.ends) {
                waiting.append(socket)
            } else {
                decided.append((socket, destination))
            }
        }
        for socket in waiting { self.undecided.changeInPlace(socket) { $0.waitsOn = true } }
        for (socket, destination) in decided {
            guard let entry = self.undecided.removeValue(forKey: socket) else { continue }
            let left = self.undecidedOfUser[entry.user, default: 1] - 1
            self.undecidedOfUser[entry.user] = left > 0 ? left : nil
            self.add(entry.growth, to: destination)
        }
        return decided
    }

    /// Pending bytes are counted anew at every tick and look.
    mutating func forgetPending() {
        for scope in self.scopes.keys { self.scopes[scope]?.pendingSent = 0 }
        for name in self.named.keys { self.named[name]?.pendingSent = 0 }
    }

    /// Adds bytes of a socket whose destination is decided. The only place where the sum of a scope or a class grows.
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
