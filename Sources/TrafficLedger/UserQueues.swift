import DequeModule
import TrafficModel

/// Closed sockets in the order in which they go, for each user oldest first. A user with too many sockets loses that
/// user's own oldest. If there are too many in all, the users with the most sockets lose theirs.
struct UserQueues: Codable {
    struct Entry: Codable {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    private var queues: [PayingUser: Deque<Entry>] = [:]
    private var count = 0

    /// Adds a socket. The number of all sockets may exceed its limit by a quarter until the next
    /// ``takeForgettable(closedBefore:within:)``.
    ///
    /// - Returns: Sockets that have to go.
    mutating func append(_ entry: Entry, of user: PayingUser, within limit: Ledger.Retention.Limit) -> [UInt64] {
        self.appendUnlimited(entry, of: user)
        if self.queues[user, default: []].count > limit.ofUser { return [self.removeFirst(of: user)] }
        // Not for each socket beyond the limit, because takeSurplus(_:) looks at all users.
        return self.count > limit.inAll + limit.inAll / 4 ? self.takeSurplus(limit.inAll) : []
    }

    /// Adds a socket, whatever the limits are, until the next ``takeForgettable(closedBefore:within:)``.
    mutating func appendUnlimited(_ entry: Entry, of user: PayingUser) {
        self.queues[user, default: []].append(entry)
        self.count += 1
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64, within limit: Ledger.Retention.Limit) -> [UInt64] {
        var taken: [UInt64] = []
        // In order, because one table fills another: the same events give the same sockets.
        for user in self.queues.keys.sorted() {
            while let oldest = self.queues[user]?.first,
                oldest.closedAt < moment || self.queues[user, default: []].count > limit.ofUser
            {
                taken.append(self.removeFirst(of: user))
            }
        }
        if self.count > limit.inAll { taken += self.takeSurplus(limit.inAll) }
        return taken
    }

    /// - Parameter user: The user of the socket.
    mutating func remove(_ serial: UInt64, of user: PayingUser) {
        guard let index = self.queues[user]?.firstIndex(where: { $0.serial == serial }) else { return }
        self.queues[user]?.remove(at: index)
        self.count -= 1
        self.removeEmpty(user)
    }

    private mutating func removeEmpty(_ user: PayingUser) {
        if self.queues[user]?.isEmpty == true { self.queues[user] = nil }
    }

    private mutating func takeSurplus(_ inAll: Int) -> [UInt64] {
        let surplus = FairShare.surplus(of: self.queues.mapValues(\.count), limit: inAll)
        return surplus.sorted { $0.key < $1.key }.flatMap { user, count in
            (0..<count).map { _ in self.removeFirst(of: user) }
        }
    }

    private mutating func removeFirst(of user: PayingUser) -> UInt64 {
        self.count -= 1
        let serial = self.queues[user, default: []].removeFirst().serial
        self.removeEmpty(user)
        return serial
    }
}
