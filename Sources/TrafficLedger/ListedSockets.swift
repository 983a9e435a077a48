import TrafficModel

/// Which sockets a snapshot lists.
///
/// A user may open a million sockets. To list them all would take seconds and much memory for each snapshot, and the
/// daemon counts nothing meanwhile. So of a user with too many open sockets the list has those that changed in the last
/// interval, and of the others those with the most bytes. The others stay counted everywhere else: in the rows of
/// their processes, in the totals and in audits.
struct ListedSockets {
    /// In the order of their serials.
    private(set) var listed: [UInt64]
    /// Open sockets without a place in the list.
    private(set) var unlisted: [UInt64] = []

    init(_ sockets: SocketTable, limit: Ledger.Retention.Limit) {
        self.listed = sockets.accounts.lazy.filter { $0.value.isListed }.map(\.key).sorted()
        // Closed sockets have a limit of their own.
        guard self.listed.count > limit.ofUser else { return }
        var ofUser: [PayingUser: [(serial: UInt64, isMoving: Bool, bytes: UInt64)]] = [:]
        for (serial, socket) in sockets.accounts where !socket.isClosed {
            ofUser[socket.observation.payer, default: []]
                .append((serial, sockets.moving.contains(serial), socket.bytes.payload.total))
        }
        let places = FairShare.kept(of: ofUser.mapValues(\.count), within: limit)
        for (user, var open) in ofUser {
            let kept = places[user, default: 0]
            guard open.count > kept else { continue }
            open.sort { ($0.isMoving ? 1 : 0, $0.bytes, $1.serial) > ($1.isMoving ? 1 : 0, $1.bytes, $0.serial) }
            self.unlisted += open[kept...].map(\.serial)
        }
        guard !self.unlisted.isEmpty else { return }
        let left = Set(self.unlisted)
        self.listed.removeAll { left.contains($0) }
    }
}
