import TrafficModel

/// The closed sockets that are still listed. A user who closes many sockets displaces only that user's own sockets, also
/// between two sweeps. Sockets with further owners do not count until a sweep ends.
struct ClosedSockets: Codable {
    private struct Held: Codable {
        var user: PayingUser
        var entry: UserQueues.Entry
    }

    var configuration: LedgerConfiguration
    private var queues = UserQueues()
    /// Sockets whose further owners come with the sweep. They stay listed until then, whatever the limits are.
    private var shared: [Held] = []
    /// The same sockets one round later. By then the daemon has read their owners, even if a socket's last record came
    /// after the owners of the first round.
    private var settling: [Held] = []

    init(_ configuration: LedgerConfiguration) {
        self.configuration = configuration
    }

    private var limit: Ledger.Retention.Limit { self.configuration.retention.closedSocketLimit }

    /// - Parameter isShared: Further owners of the socket are still to come.
    /// - Returns: Sockets that should no longer be listed.
    mutating func append(_ serial: UInt64, of user: PayingUser, closedAt: UInt64, isShared: Bool) -> [UInt64] {
        let entry = UserQueues.Entry(serial: serial, closedAt: closedAt)
        guard !isShared else {
            self.shared.append(Held(user: user, entry: entry))
            return []
        }
        return self.queues.append(entry, of: user, within: self.limit)
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        for held in self.settling { self.queues.appendUnlimited(held.entry, of: held.user) }
        (self.settling, self.shared) = (self.shared, [])
        return self.queues.takeForgettable(closedBefore: moment, within: self.limit)
    }
}
