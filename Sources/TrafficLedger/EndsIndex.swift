import TrafficModel

/// The addresses of sockets, and how many sockets have them. The two sockets of a connection within this machine have the
/// same addresses in opposite order.
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
        var reversed: Key {
            var key = self
            swap(&key.ends.local, &key.ends.remote)
            return key
        }
    }

    private var numbers: [Key: Int] = [:]

    func contains(_ key: Key) -> Bool { self.numbers[key] != nil }

    /// A socket has other addresses, or came or went.
    mutating func replace(_ before: Key?, with now: Key?) {
        if let before, let number = self.numbers[before] { self.numbers[before] = number > 1 ? number - 1 : nil }
        if let now { self.numbers[now, default: 0] += 1 }
    }
}
