import TrafficModel

/// Which processes moved payload over connections that this host began, and to which addresses, since the last sample for
/// alerts. Empty as long as no rule asks.
struct ContactLog: NotSaved {
    private struct Sum {
        var uid: UInt32
        var bytes: UInt64 = 0
    }

    /// The local ports that the kernel gives to sockets that did not ask for one. `nil`: no rule asks.
    private(set) var localPorts: ClosedRange<UInt16>?
    private var sums: [InternetAddress: [ProcessIdentity: Sum]] = [:]
    /// Of the sums.
    private var places = GroupPlaces(Contact.sampled)
    private var lost: UInt64 = 0

    mutating func watch(from localPorts: ClosedRange<UInt16>?) {
        if localPorts == nil { self = ContactLog() }
        self.localPorts = localPorts
    }

    /// - Parameter destination: `nil` if it is not decided yet. ``settle(_:at:)`` decides.
    mutating func add(_ growth: SocketAccount.Growth, of socket: SocketObservation, at destination: Destination?) {
        guard let localPorts, let remote = growth.ends?.remote.address, socket.isBegunHere(localPorts),
            destination?.scope.isFar != false
        else { return }
        for (owner, payload) in growth.owners where payload.total > 0 {
            if self.sums[remote]?[owner.identity] == nil {
                guard self.places.hasRoom(for: owner.uid) else {
                    self.lost +|= 1
                    continue
                }
                self.places.take(for: owner.uid)
            }
            self.sums[remote, default: [:]][owner.identity, default: Sum(uid: owner.uid)].bytes +|= payload.total
        }
    }

    /// The ledger knows now how far this address is.
    mutating func settle(_ remote: InternetAddress, at destination: Destination) {
        guard !destination.scope.isFar, let near = self.sums.removeValue(forKey: remote) else { return }
        for sum in near.values { self.places.giveBack(of: sum.uid) }
    }

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
    fileprivate var isFar: Bool { self == .internet || self == .localArea }
}
