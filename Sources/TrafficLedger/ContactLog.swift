import TrafficEvents
import TrafficLimits
import TrafficModel

/// Which processes moved payload over connections that this host began, and to which addresses, since the last sample for
/// alerts. Empty as long as no rule asks.
struct ContactLog: NotSaved {
    private struct Sum {
        var uid: UInt32
        var bytes: UInt64 = 0
    }

    /// A socket may connect to several addresses one after the other.
    private struct Connection: Hashable {
        var serial: UInt64
        var remote: InternetAddress
    }

    /// The local ports that the kernel gives to sockets that did not ask for one. `nil`: no rule asks.
    private(set) var localPorts: ClosedRange<UInt16>?
    private var sums: [InternetAddress: [ProcessIdentity: Sum]] = [:]
    /// The same of sockets of which the ledger does not know yet how far they reach. Each is decided by
    /// itself: another user's socket to the same address may stay on this host, in a network namespace of theirs.
    private var undecided: [Connection: [ProcessIdentity: Sum]] = [:]
    /// Of the sums. As many sockets may be undecided as ``DestinationTotals`` lets wait.
    private var places = GroupPlaces(Contact.sampled)
    private var lost: UInt64 = 0

    mutating func watch(from localPorts: ClosedRange<UInt16>?) {
        if localPorts == nil { self = ContactLog() }
        self.localPorts = localPorts
    }

    /// - Parameter destination: `nil` if it is not decided yet. ``decide(_:of:to:)`` decides.
    mutating func add(
        _ growth: SocketAccount.Growth,
        of serial: UInt64,
        _ socket: SocketObservation,
        at destination: Destination?
    ) {
        guard let localPorts, let remote = growth.ends?.remote.address, socket.isBegunHere(localPorts),
            destination?.scope.isFar != false
        else { return }
        for (owner, payload) in growth.owners where payload.total > 0 {
            if destination == nil {
                let none = Sum(uid: owner.uid)
                self.undecided[Connection(serial: serial, remote: remote), default: [:]][owner.identity, default: none]
                    .bytes +|= payload.total
            } else {
                self.add(Sum(uid: owner.uid, bytes: payload.total), of: owner.identity, at: remote)
            }
        }
    }

    private mutating func add(_ sum: Sum, of process: ProcessIdentity, at remote: InternetAddress) {
        guard self.sums[remote]?[process] == nil else {
            self.sums[remote]?[process]?.bytes +|= sum.bytes
            return
        }
        guard self.places.hasRoom(for: sum.uid) else {
            self.lost +|= 1
            return
        }
        self.places.take(for: sum.uid)
        self.sums[remote, default: [:]][process] = sum
    }

    /// The ledger knows now how far this socket reaches.
    mutating func decide(_ destination: Destination, of serial: UInt64, to remote: InternetAddress) {
        let connection = Connection(serial: serial, remote: remote)
        guard let sums = self.undecided.removeValue(forKey: connection), destination.scope.isFar else { return }
        for (process, sum) in sums { self.add(sum, of: process, at: remote) }
    }

    /// What is still undecided has moved no payload, so it has reached nobody.
    mutating func forgetUndecided() { self.undecided = [:] }

    /// What processes of known groups have reached. Other processes stay until the daemon has looked them up.
    mutating func take(_ processes: ProcessTable) -> ContactSums {
        let sums = self.sums
        var contacts = ContactSums(lost: self.lost)
        (self.sums, self.lost, self.places) = ([:], 0, GroupPlaces(Contact.sampled))
        for (address, sums) in sums {
            var destination: String?
            for (process, sum) in sums {
                guard let account = processes[process] else {
                    contacts.lost +|= 1
                    continue
                }
                guard let group = account.group else {
                    self.sums[address, default: [:]][process] = sum
                    self.places.take(for: sum.uid)
                    continue
                }
                let network = destination ?? address.network.description
                destination = network
                contacts.bytes[Contact(process: group, destination: network), default: 0] +|= sum.bytes
            }
        }
        return contacts
    }
}

extension SocketObservation {
    /// Whether this end opened the connection. The kernel does not say that of UDP, nor of a connection that is older than
    /// the capture. But a server has a port of its own choice, and a client takes what the kernel gives.
    fileprivate func isBegunHere(_ localPorts: ClosedRange<UInt16>) -> Bool {
        switch self.role {
        case .client: true
        case .server, .listener: false
        case .peer: localPorts.contains(self.local.port)
        }
    }
}

extension SocketScope {
    /// Not on this machine.
    var isFar: Bool { self == .internet || self == .localArea }
}
