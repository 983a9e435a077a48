import TrafficModel

/// The addresses of sockets, and how many sockets have them. The two sockets of a connection within this machine have the
/// same addresses in opposite order.
///
/// A process in a network namespace of its own can have a socket with any addresses, and so can make one connection of
/// another user look like one within this machine, if it knows both ends of that connection.
struct EndsIndex: NotSaved {
    private var numbers: [SocketEnds: Int] = [:]

    func contains(_ ends: SocketEnds) -> Bool { self.numbers[ends] != nil }

    /// A socket has other addresses, or came or went.
    mutating func replace(_ before: SocketEnds?, with now: SocketEnds?) {
        if let before, let number = self.numbers[before] { self.numbers[before] = number > 1 ? number - 1 : nil }
        if let now { self.numbers[now, default: 0] += 1 }
    }
}
