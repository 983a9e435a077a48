import TrafficModel

/// What says how far a socket's bytes go.
struct SocketEnds: Hashable {
    var local: SocketAddress
    var remote: SocketAddress

    /// As the socket at the other end has them.
    var reversed: SocketEnds { SocketEnds(local: self.remote, remote: self.local) }
}

/// What the bytes of a socket count for beside its processes.
struct Destination: Hashable {
    var scope: SocketScope
    var addressClass: String?
}

/// The bytes of all sockets by where their other ends are.
///
/// A socket's destination is decided at the first tick after it was seen with its ends, and then stays, whatever the host's
/// addresses become: bytes that are credited are never moved. Not before the tick, because in one round of observations the ends
/// of a connection come in any order, and so does the news that a new container has the address at one of them. A user who has
/// too many undecided ones has the further ones decided at once, by what is known then.
struct DestinationTotals {
    private struct Waiting {
        var serial: UInt64
        var ends: SocketEnds
        var growth: ByteCounts
    }

    private let classes: AddressClasses
    private let limit: Ledger.Retention.Limit
    private var hostAddresses: Set<InternetAddress> = []
    private var scopes: [SocketScope: ByteCounts] = [:]
    private var named: [String: ByteCounts] = [:]
    private var waiting: [Waiting] = []
    private var waitingOfUser: [UInt32: Int] = [:]

    /// - Parameter limit: How many may be undecided.
    init(classes: AddressClasses, limit: Ledger.Retention.Limit) {
        self.classes = classes
        self.limit = limit
        for name in classes.names { self.named[name] = ByteCounts(retransmitted: 0) }
    }

    mutating func absorb(_ hostAddresses: Set<InternetAddress>) {
        self.hostAddresses = hostAddresses
    }

    /// - Parameters:
    ///   - uid: Whose socket it is.
    ///   - destination: `nil` where it is not decided yet.
    /// - Returns: The destination where it is decided, by now.
    mutating func credit(
        _ growth: ByteCounts,
        of serial: UInt64,
        _ uid: UInt32,
        over ends: SocketEnds,
        to destination: Destination?
    ) -> Destination? {
        if let destination {
            self.add(growth, to: destination)
            return destination
        }
        let ofUser = self.waitingOfUser[uid, default: 0]
        guard ofUser < self.limit.ofUser, self.waiting.count < self.limit.inAll else {
            guard let destination = self.destination(of: ends, isSameHost: false) else { return nil }
            self.add(growth, to: destination)
            return destination
        }
        self.waitingOfUser[uid] = ofUser + 1
        self.waiting.append(Waiting(serial: serial, ends: ends, growth: growth))
        return nil
    }

    /// - Parameter isSameHost: The socket at the other end is known.
    private func destination(of ends: SocketEnds, isSameHost: Bool) -> Destination? {
        let (local, remote) = (ends.local.address, ends.remote.address)
        guard var scope = SocketScope(local: local, remote: remote, hostAddresses: self.hostAddresses) else {
            return nil
        }
        if scope != .loopback && isSameHost { scope = .sameHost }
        return Destination(scope: scope, addressClass: self.classes.name(of: remote))
    }

    /// Credits what waited.
    ///
    /// - Returns: What the destination of each socket is from now on.
    mutating func settle() -> [(serial: UInt64, ends: SocketEnds, destination: Destination)] {
        var decided: [(UInt64, SocketEnds, Destination)] = []
        let news = Set(self.waiting.map(\.ends))
        for entry in self.waiting {
            // A container that was gone before its addresses could be read: its sockets told of it.
            let isSameHost = news.contains(entry.ends.reversed)
            guard let destination = self.destination(of: entry.ends, isSameHost: isSameHost) else { continue }
            self.add(entry.growth, to: destination)
            decided.append((entry.serial, entry.ends, destination))
        }
        (self.waiting, self.waitingOfUser) = ([], [:])
        return decided
    }

    /// What is pending is counted anew at every tick.
    mutating func forgetPending() {
        for scope in self.scopes.keys { self.scopes[scope]?.pendingSent = 0 }
        for name in self.named.keys { self.named[name]?.pendingSent = 0 }
    }

    /// The one place where bytes become part of a scope's or a class's sum.
    mutating func add(_ growth: ByteCounts, to destination: Destination) {
        self.scopes[destination.scope, default: ByteCounts()] += growth
        if let name = destination.addressClass { self.named[name, default: ByteCounts()] += growth }
    }

    var byScope: [String: ByteCounts] {
        Dictionary(uniqueKeysWithValues: self.scopes.map { ($0.key.rawValue, $0.value) })
    }

    /// `nil` where there are no classes.
    var byClass: [String: ByteCounts]? { self.classes.isEmpty ? nil : self.named }
}
