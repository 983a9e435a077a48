import TrafficModel

/// The closed sockets that are still listed. A user who closes many sockets displaces only that user's own sockets, also
/// between two sweeps. Sockets with further owners do not count until a sweep ends.
struct ClosedSockets: Codable {
    private struct Held: Codable {
        var user: PayingUser
        var socket: ClosedSocket
    }

    private var queue = FairQueue<ClosedSocket>()
    /// Sockets whose further owners come with the sweep. They stay listed until then, whatever the limits are.
    private var shared: [Held] = []
    /// The same sockets one round later. By then the daemon has read their owners, even if a socket's last record came
    /// after the owners of the first round.
    private var settling: [Held] = []

    /// - Parameter isShared: Further owners of the socket are still to come.
    /// - Returns: Sockets that should no longer be listed.
    mutating func append(
        _ serial: UInt64,
        of user: PayingUser,
        closedAt: UInt64,
        isShared: Bool,
        within limit: UserLimit
    ) -> [UInt64] {
        let socket = ClosedSocket(serial: serial, closedAt: closedAt)
        guard !isShared else {
            self.shared.append(Held(user: user, socket: socket))
            return []
        }
        return self.queue.append(socket, of: user, within: limit).map(\.serial)
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64, within limit: UserLimit) -> [UInt64] {
        for held in self.settling { self.queue.appendUnlimited(held.socket, of: held.user) }
        (self.settling, self.shared) = (self.shared, [])
        return self.queue.take(within: limit) { $0.closedAt < moment }.map(\.serial)
    }
}
