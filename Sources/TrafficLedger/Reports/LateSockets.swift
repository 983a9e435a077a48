import TrafficModel

/// Closed sockets that are no longer listed, and whose reports may still come. A program on a busy machine, or behind
/// others in the queue of the daemon's socket, may report late.
///
/// Only what a claim is checked against is kept, and only of connections of processes that report.
struct LateSockets: Codable {
    private struct Kept: Codable {
        var socket: ClaimedSocket
        var cookie: SocketCookie
        var owners: [ProcessIdentity]
        var user: PayingUser
    }

    /// A socket with more owners is not kept: the limits count sockets, and not owners.
    static let mostOwners = 16

    private var bySerial: [UInt64: Kept] = [:]
    private var cookies = CookieIndex()
    private var queue = FairQueue<ClosedSocket>()

    var serials: some Collection<UInt64> { self.bySerial.keys }

    func has(_ cookie: SocketCookie) -> Bool { self.cookies.contains(cookie) }

    /// Finds a socket, and whether the process has used it.
    subscript(cookie: SocketCookie, of process: ProcessIdentity) -> (socket: ClaimedSocket, isOwned: Bool)? {
        guard let kept = self.cookies[cookie].flatMap({ self.bySerial[$0] }) else { return nil }
        return (kept.socket, kept.owners.contains(process))
    }

    /// - Parameters:
    ///   - account: A closed socket that is not here.
    ///   - user: Whose place the socket takes.
    /// - Returns: Sockets of which no report counts any more.
    mutating func keep(_ account: SocketAccount, of user: PayingUser, within limit: UserLimit) -> [UInt64] {
        let (serial, observation) = (account.observation.serial, account.observation)
        guard account.owners.count <= Self.mostOwners, Self.isClaimable(account) else { return [serial] }
        self.bySerial[serial] = Kept(
            socket: ClaimedSocket(account, isLate: true),
            cookie: observation.cookie,
            owners: Array(account.owners),
            user: user
        )
        self.cookies.add(observation.cookie, of: serial)
        let closedAt = observation.closedBoottimeNanoseconds ?? 0
        let closed = ClosedSocket(serial: serial, closedAt: closedAt)
        let surplus = self.queue.append(closed, of: user, within: limit).map(\.serial)
        for serial in surplus { self.drop(serial) }
        return surplus
    }

    /// Whether messages could be claimed of the socket. The others must take no places: strangers may connect to a server
    /// and send nothing, and the server itself may ask for many names over UDP.
    private static func isClaimable(_ account: SocketAccount) -> Bool {
        account.observation.transport.hasConnections && account.observation.cookie.rawValue != 0
            && (account.bytes.payload.total > 0 || account.observation.preexisting)
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64, within limit: UserLimit) -> [UInt64] {
        let taken = self.queue.take(within: limit) { $0.closedAt < moment }.map(\.serial)
        for serial in taken { self.drop(serial) }
        return taken
    }

    mutating func takeAll() -> [UInt64] {
        defer { self = LateSockets() }
        return Array(self.bySerial.keys)
    }

    /// Removes a socket that is listed again.
    ///
    /// - Returns: `false`: it was not here.
    mutating func remove(_ serial: UInt64) -> Bool {
        guard let user = self.bySerial[serial]?.user else { return false }
        self.queue.remove(of: user) { $0.serial == serial }
        self.drop(serial)
        return true
    }

    private mutating func drop(_ serial: UInt64) {
        if let kept = self.bySerial.removeValue(forKey: serial) { self.cookies.remove(kept.cookie, of: serial) }
    }
}

/// A socket that will be forgotten.
private struct ClosedSocket: Codable, Sendable {
    var serial: UInt64
    /// `CLOCK_BOOTTIME`, nanoseconds.
    var closedAt: UInt64
}
