import TrafficModel

/// The addresses of sockets. The two sockets of a connection within this machine have the same addresses in opposite
/// order, in different network namespaces. In one namespace such sockets are those of a proxy that takes the addresses of
/// its clients, and of the connections that it makes for them: these go to other machines.
///
/// A process in a network namespace of its own can have sockets with any addresses, and so can make connections of others
/// look like connections within this machine (docs/security.md).
struct EndsIndex: NotSaved, Equatable {
    struct Key: Hashable {
        private var ends: SocketEnds
        private let transport: TransportProtocol

        /// One end of a connection may have MPTCP, and the other TCP.
        init(_ ends: SocketEnds, _ transport: TransportProtocol) {
            (self.ends, self.transport) = (ends, transport == .mptcp ? .tcp : transport)
        }

        /// As the socket at the other end has them.
        fileprivate var reversed: Key {
            var key = self
            swap(&key.ends.local, &key.ends.remote)
            return key
        }
    }

    private struct Entry: Equatable {
        var sockets = 0
        /// 0: of several namespaces, or not known.
        var networkNamespace: UInt32
    }

    private var entries: [Key: Entry] = [:]

    /// Whether a socket in another network namespace has these addresses in opposite order.
    func hasOtherEnd(of key: Key, in networkNamespace: UInt32) -> Bool {
        guard let other = self.entries[key.reversed]?.networkNamespace else { return false }
        return other == 0 || networkNamespace == 0 || other != networkNamespace
    }

    /// A socket has other addresses, or came or went.
    mutating func replace(_ before: Key?, with now: Key?, in networkNamespace: UInt32) {
        if let before, let sockets = self.entries[before]?.sockets {
            if sockets > 1 { self.entries[before]?.sockets -= 1 } else { self.entries[before] = nil }
        }
        guard let now else { return }
        var entry = self.entries[now, default: Entry(networkNamespace: networkNamespace)]
        entry.sockets += 1
        if entry.networkNamespace != networkNamespace { entry.networkNamespace = 0 }
        self.entries[now] = entry
    }
}
