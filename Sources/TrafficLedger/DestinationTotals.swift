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
/// of a connection come in any order, and so does the news that a new container has the address at one of them.
struct DestinationTotals {
    private struct Waiting {
        var serial: UInt64
        var ends: SocketEnds
        var growth: ByteCounts
    }

    private let classes: AddressClasses
    private var hostAddresses: Set<InternetAddress> = []
    private var scopes: [SocketScope: ByteCounts] = [:]
    private var named: [String: ByteCounts] = [:]
    private var waiting: [Waiting] = []

    init(classes: AddressClasses) {
        self.classes = classes
        for name in classes.names { self.named[name] = ByteCounts(retransmitted: 0) }
    }

    mutating func absorb(_ hostAddresses: Set<InternetAddress>) {
        self.hostAddresses = hostAddresses
    }

    /// - Parameter destination: `nil` where it is not decided yet.
    mutating func credit(_ growth: ByteCounts, of serial: UInt64, over ends: SocketEnds, to destination: Destination?) {
        if let destination {
            self.add(growth, to: destination)
        } else {
            self.waiting.append(Waiting(serial: serial, ends: ends, growth: growth))
        }
    }

    /// Credits what waited.
    ///
    /// - Returns: What the destination of each socket is from now on.
    mutating func settle() -> [(serial: UInt64, ends: SocketEnds, destination: Destination)] {
        var decided: [(UInt64, SocketEnds, Destination)] = []
        let news = Set(self.waiting.map(\.ends))
        for entry in self.waiting {
            let (local, remote) = (entry.ends.local.address, entry.ends.remote.address)
            guard var scope = SocketScope(local: local, remote: remote, hostAddresses: self.hostAddresses) else {
                continue
            }
            // A container that was gone before its addresses could be read: its sockets told of it.
            if scope != .loopback && news.contains(entry.ends.reversed) { scope = .sameHost }
            let destination = Destination(scope: scope, addressClass: self.classes.name(of: remote))
            self.add(entry.growth, to: destination)
            decided.append((entry.serial, entry.ends, destination))
        }
        self.waiting = []
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
