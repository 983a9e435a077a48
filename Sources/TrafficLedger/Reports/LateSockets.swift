import TrafficEvents
import TrafficLimits
import TrafficModel

/// Closed sockets that are no longer listed, and whose reports may still come. A program on a busy machine, or behind
/// others in the queue of the daemon's socket, may report late.
struct LateSockets: Codable {
    private(set) var bySerial: [UInt64: LateSocket] = [:]
    /// The next to be forgotten, of each user.
    private(set) var queue = FairQueue<Place>()

    struct Place: Codable, Sendable {
        var serial: UInt64
        /// `CLOCK_BOOTTIME`, nanoseconds.
        var closedAt: UInt64
    }

    subscript(serial: UInt64) -> LateSocket? { self.bySerial[serial] }

    /// - Parameter late: One that is not here.
    /// - Returns: Sockets beyond the limits, of which no report counts any more.
    mutating func keep(_ late: LateSocket, within limit: UserLimit) -> [LateSocket] {
        self.bySerial[late.socket.serial] = late
        let place = Place(serial: late.socket.serial, closedAt: late.closedAt)
        return self.drop(self.queue.append(place, of: late.user, within: limit))
    }

    /// Takes out the sockets that closed before `moment`, and the sockets beyond the limits.
    mutating func takeForgettable(closedBefore moment: UInt64, within limit: UserLimit) -> [LateSocket] {
        self.drop(self.queue.take(within: limit) { $0.closedAt < moment })
    }

    private mutating func drop(_ places: [Place]) -> [LateSocket] {
        places.compactMap { self.bySerial.removeValue(forKey: $0.serial) }
    }

    /// - Returns: `nil`: the socket was not here.
    mutating func remove(_ serial: UInt64) -> LateSocket? {
        guard let socket = self.bySerial.removeValue(forKey: serial) else { return nil }
        self.queue.remove(of: socket.user) { $0.serial == serial }
        return socket
    }
}

/// What is kept of a socket for late reports: only what a claim is checked against, and only of a connection of a process
/// that reports.
struct LateSocket: Codable {
    /// A socket with more owners is not kept: the limits count sockets, and not owners.
    static let mostOwners = 16

    let socket: ClaimedSocket
    let cookie: SocketCookie
    let owners: [ProcessIdentity]
    /// Whose place it takes.
    let user: PayingUser
    /// `CLOCK_BOOTTIME`, nanoseconds.
    let closedAt: UInt64

    /// - Returns: `nil` if no message can be claimed of the socket. Such sockets must take no places: strangers may
    ///   connect to a server and send nothing, and the server itself may ask for many names over UDP.
    init?(_ account: SocketAccount, of user: PayingUser) {
        let observation = account.observation
        guard account.owners.count <= Self.mostOwners,
            observation.transport.hasConnections && observation.cookie.rawValue != 0,
            account.bytes.payload.total > 0 || observation.preexisting
        else { return nil }
        self.socket = ClaimedSocket(account, isLate: true)
        self.cookie = observation.cookie
        self.owners = Array(account.owners)
        self.user = user
        self.closedAt = observation.closedBoottimeNanoseconds ?? 0
    }
}
