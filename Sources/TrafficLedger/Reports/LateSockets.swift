import TrafficModel

/// Closed sockets that are no longer listed, and whose reports may still come. A program on a busy machine, or behind
/// others in the queue of the daemon's socket, may report late.
///
/// Only what a claim is checked against is kept, and only of processes that report.
struct LateSockets: Codable {
    private struct Kept: Codable {
        var socket: ReportRound.Socket
        var cookie: SocketCookie
        var owners: [ProcessIdentity]
    }

    /// A socket with more owners is not kept: the limits count sockets, and not owners.
    static let mostOwners = 16

    var configuration: LedgerConfiguration
    private var bySerial: [UInt64: Kept] = [:]
    private var cookies = CookieIndex()
    private var queues = UserQueues()

    init(_ configuration: LedgerConfiguration) {
        self.configuration = configuration
    }

    private var limit: Ledger.Retention.Limit { self.configuration.retention.lateSocketLimit }

    /// Finds a socket, and whether the process has used it.
    subscript(cookie: SocketCookie, of process: ProcessIdentity) -> (socket: ReportRound.Socket, isOwned: Bool)? {
        guard let kept = self.cookies[cookie].flatMap({ self.bySerial[$0] }) else { return nil }
        return (kept.socket, kept.owners.contains(process))
    }

    /// - Returns: Sockets of which no report counts any more.
    mutating func keep(_ account: SocketAccount) -> [UInt64] {
        let (serial, observation) = (account.observation.serial, account.observation)
        // What a stale record brought back goes a second time.
        guard self.bySerial[serial] == nil else { return [] }
        guard account.owners.count <= Self.mostOwners else { return [serial] }
        self.bySerial[serial] = Kept(
            socket: ReportRound.Socket(account),
            cookie: observation.cookie,
            owners: Array(account.owners)
        )
        self.cookies.add(observation.cookie, of: serial)
        let surplus = self.queues.append(
            .init(serial: serial, closedAt: observation.closedBoottimeNanoseconds ?? 0),
            of: observation.user,
            within: self.limit
        )
        self.remove(surplus)
        return surplus
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64) -> [UInt64] {
        let taken = self.queues.takeForgettable(closedBefore: moment, within: self.limit)
        self.remove(taken)
        return taken
    }

    mutating func takeAll() -> [UInt64] {
        defer { self = LateSockets(self.configuration) }
        return Array(self.bySerial.keys)
    }

    private mutating func remove(_ serials: [UInt64]) {
        for serial in serials {
            if let kept = self.bySerial.removeValue(forKey: serial) { self.cookies.remove(kept.cookie, of: serial) }
        }
    }
}
