import DequeModule

/// Which closed sockets are still listed, for each user oldest first. A user who closes many pushes out his own, between two sweeps, too.
/// Until a sweep ends, the limit for all may be exceeded by a quarter, and sockets with further owners do not count.
struct ClosedSockets {
    private struct Entry {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    /// Whose sockets have a list together. Of processes that report a user has a list of its own, twice as long: what they report of a socket may
    /// come after its end, and counts only while the socket is listed.
    struct Holder: Hashable {
        var uid: UInt32
        var isReporting: Bool
    }

    private let limit: Ledger.Retention.Limit
    private var order: [Holder: Deque<Entry>] = [:]
    private var count = 0
    /// Of sockets whose further owners come with the sweep: they are listed until then, whatever the limits are.
    private var shared: [(holder: Holder, entry: Entry)] = []
    /// The same sockets one round later: then their owners have been read, even if their last word came after the owners of the first round.
    private var settling: [(holder: Holder, entry: Entry)] = []

    /// - Parameter limit: How many are listed. Where there are too many in all, those who have most give up theirs.
    init(limit: Ledger.Retention.Limit) {
        self.limit = limit
    }

    /// - Parameter isShared: Its further owners are still to come.
    /// - Returns: Sockets that are not to be listed any more.
    mutating func append(_ serial: UInt64, of holder: Holder, closedAt: UInt64, isShared: Bool) -> [UInt64] {
        let entry = Entry(serial: serial, closedAt: closedAt)
        guard !isShared else {
            self.shared.append((holder, entry))
            return []
        }
        self.list(entry, of: holder)
        if self.order[holder, default: []].count > self.most(of: holder) { return [self.removeFirst(of: holder)] }
        // Not for each one beyond the limit: this looks at all users.
        return self.count > self.limit.inAll + self.limit.inAll / 4 ? self.takeSurplus() : []
    }

    /// Takes out those that closed before a moment, and those beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        for (holder, entry) in self.settling { self.list(entry, of: holder) }
        (self.settling, self.shared) = (self.shared, [])
        var taken: [UInt64] = []
        for holder in Array(self.order.keys) {
            while let oldest = self.order[holder]?.first,
                oldest.closedAt < moment || self.order[holder, default: []].count > self.most(of: holder)
            {
                taken.append(self.removeFirst(of: holder))
            }
        }
        if self.count > self.limit.inAll { taken += self.takeSurplus() }
        return taken
    }

    private func most(of holder: Holder) -> Int {
        holder.isReporting ? 2 * self.limit.ofUser : self.limit.ofUser
    }

    private mutating func list(_ entry: Entry, of holder: Holder) {
        self.order[holder, default: []].append(entry)
        self.count += 1
    }

    private mutating func takeSurplus() -> [UInt64] {
        FairShare.surplus(of: self.order.mapValues(\.count), limit: self.limit.inAll).flatMap { holder, count in
            (0..<count).map { _ in self.removeFirst(of: holder) }
        }
    }

    private mutating func removeFirst(of holder: Holder) -> UInt64 {
        self.count -= 1
        let serial = self.order[holder, default: []].removeFirst().serial
        if self.order[holder]?.isEmpty == true { self.order[holder] = nil }
        return serial
    }
}
