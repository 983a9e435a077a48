import DequeModule

/// Which closed sockets are still listed, for each user oldest first. A user who closes many pushes out his own, between two sweeps, too.
/// Until a sweep ends, the limit for all may be exceeded by a quarter, and sockets with further owners do not count.
struct ClosedSockets {
    private struct Entry {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    private let limit: Ledger.Retention.Limit
    private var order: [UInt32: Deque<Entry>] = [:]
    private var count = 0
    /// Of sockets whose further owners come with the sweep: they are listed until then, whatever the limits are.
    private var shared: [(uid: UInt32, entry: Entry)] = []
    /// The same sockets one round later: then their owners have been read, even if their last word came after the owners of the first round.
    private var settling: [(uid: UInt32, entry: Entry)] = []

    /// - Parameter limit: How many are listed. Where there are too many in all, those who have most give up theirs.
    init(limit: Ledger.Retention.Limit) {
        self.limit = limit
    }

    /// - Parameter isShared: Its further owners are still to come.
    /// - Returns: Sockets that are not to be listed any more.
    mutating func append(_ serial: UInt64, of uid: UInt32, closedAt: UInt64, isShared: Bool) -> [UInt64] {
        let entry = Entry(serial: serial, closedAt: closedAt)
        guard !isShared else {
            self.shared.append((uid, entry))
            return []
        }
        self.list(entry, of: uid)
        if self.order[uid, default: []].count > self.limit.ofUser { return [self.removeFirst(of: uid)] }
        // Not for each one beyond the limit: this looks at all users.
        return self.count > self.limit.inAll + self.limit.inAll / 4 ? self.takeSurplus() : []
    }

    /// Takes out those that closed before a moment, and those beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        for (uid, entry) in self.settling { self.list(entry, of: uid) }
        (self.settling, self.shared) = (self.shared, [])
        var taken: [UInt64] = []
        for uid in Array(self.order.keys) {
            while let oldest = self.order[uid]?.first,
                oldest.closedAt < moment || self.order[uid, default: []].count > self.limit.ofUser
            {
                taken.append(self.removeFirst(of: uid))
            }
        }
        if self.count > self.limit.inAll { taken += self.takeSurplus() }
        return taken
    }

    private mutating func list(_ entry: Entry, of uid: UInt32) {
        self.order[uid, default: []].append(entry)
        self.count += 1
    }

    private mutating func takeSurplus() -> [UInt64] {
        FairShare.surplus(of: self.order.mapValues(\.count), limit: self.limit.inAll).flatMap { uid, count in
            (0..<count).map { _ in self.removeFirst(of: uid) }
        }
    }

    private mutating func removeFirst(of uid: UInt32) -> UInt64 {
        self.count -= 1
        let serial = self.order[uid, default: []].removeFirst().serial
        if self.order[uid]?.isEmpty == true { self.order[uid] = nil }
        return serial
    }
}
