import DequeModule

/// Which closed sockets are still listed, oldest first for each user: one who closes many costs nobody else a place.
struct ClosedSockets {
    private struct Entry {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    private let limit: Ledger.Retention.Limit
    private var order: [UInt32: Deque<Entry>] = [:]
    private var count = 0

    /// - Parameter limit: How many are listed. Where there are too many in all, who has most gives one up.
    init(limit: Ledger.Retention.Limit) {
        self.limit = limit
    }

    mutating func append(_ serial: UInt64, of uid: UInt32, closedAt: UInt64) {
        self.order[uid, default: []].append(Entry(serial: serial, closedAt: closedAt))
        self.count += 1
    }

    /// Takes out those that closed before a moment, and those beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        var taken: [UInt64] = []
        for uid in Array(self.order.keys) {
            while let oldest = self.order[uid]?.first,
                oldest.closedAt < moment || self.order[uid, default: []].count > self.limit.ofUser
            {
                taken.append(self.removeFirst(of: uid))
            }
        }
        while self.count > self.limit.inAll, let most = self.order.max(by: { $0.value.count < $1.value.count })?.key {
            taken.append(self.removeFirst(of: most))
        }
        return taken
    }

    private mutating func removeFirst(of uid: UInt32) -> UInt64 {
        self.count -= 1
        let serial = self.order[uid, default: []].removeFirst().serial
        if self.order[uid]?.isEmpty == true { self.order[uid] = nil }
        return serial
    }
}
