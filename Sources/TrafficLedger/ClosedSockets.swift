import DequeModule

/// The closed sockets that are still listed, for each holder oldest first. A user who closes many sockets displaces
/// only that user's own sockets, also between two sweeps. Until a sweep ends, the number of all sockets may exceed the
/// limit by a quarter, and sockets with further owners do not count.
struct ClosedSockets: Codable {
    private struct Entry: Codable {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    /// The sockets of one holder share a list. The processes of a user that report have a longer list of their own.
    struct Holder: Hashable, Codable {
        var uid: UInt32
        var isReporting: Bool
    }

    private struct Held: Codable {
        var holder: Holder
        var entry: Entry
    }

    var configuration: LedgerConfiguration
    private var order: [Holder: Deque<Entry>] = [:]
    private var count = 0
    /// Sockets whose further owners come with the sweep. They stay listed until then, whatever the limits are.
    private var shared: [Held] = []
    /// The same sockets one round later. By then the daemon has read their owners, even if a socket's last record came
    /// after the owners of the first round.
    private var settling: [Held] = []

    init(_ configuration: LedgerConfiguration) {
        self.configuration = configuration
    }

    /// How many sockets stay listed. If there are too many in all, the holders with the most sockets lose theirs.
    private var limit: Ledger.Retention.Limit { self.configuration.retention.closedSocketLimit }

    /// - Parameter isShared: Further owners of the socket are still to come.
    /// - Returns: Sockets that should no longer be listed.
    mutating func append(_ serial: UInt64, of holder: Holder, closedAt: UInt64, isShared: Bool) -> [UInt64] {
        let entry = Entry(serial: serial, closedAt: closedAt)
        guard !isShared else {
            self.shared.append(Held(holder: holder, entry: entry))
            return []
        }
        self.list(entry, of: holder)
        if self.order[holder, default: []].count > self.most(of: holder) { return [self.removeFirst(of: holder)] }
        // Not for each socket beyond the limit, because takeSurplus() looks at all holders.
        return self.count > self.limit.inAll + self.limit.inAll / 4 ? self.takeSurplus() : []
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        for held in self.settling { self.list(held.entry, of: held.holder) }
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
        (holder.isReporting ? self.limit.ofReportingUser : self.limit).ofUser
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
