import TrafficModel
import TrafficReport

/// What has been claimed of each socket, and the closed sockets of which reports may still come. Claims stay as long as a
/// report can name their socket, so that no byte is explained twice, and no longer. So one place has both.
struct ClaimTable: Codable {
    typealias Result = (verdict: Coverage.Verdict, growth: PayloadBytes, wire: UInt64)

    /// By the sockets' serials.
    private(set) var bySocket: [UInt64: SocketClaims] = [:]
    private(set) var lateSockets = LateSockets()
    private var ranges = ClaimedRanges()

    // MARK: Claims

    /// - Returns: How many more bytes are explained than before.
    mutating func claim(
        _ connection: Report.Connection,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> PayloadBytes {
        let none = SocketClaims(of: socket, by: sender)
        return self.bySocket[socket.serial, default: none].claim(connection, of: socket.payload)
    }

    /// As ``SocketClaims/claim(_:isSent:of:wire:limit:)``.
    mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> Result {
        let none = SocketClaims(of: socket, by: sender)
        return Self.claim(
            interval,
            isSent: isSent,
            of: socket,
            &self.bySocket[socket.serial, default: none],
            &self.ranges
        )
    }

    private static func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        _ claims: inout SocketClaims,
        _ ranges: inout ClaimedRanges
    ) -> Result {
        let known = claims.rangeCount
        // The allowance is looked up only if the direction has so many ranges that it matters.
        let hasRoom = claims.isSmall(isSent: isSent) || ranges.hasRoom(for: claims)
        let result = claims.claim(
            interval,
            isSent: isSent,
            of: socket.payload,
            wire: socket.wireBytes,
            limit: hasRoom ? Coverage.mostRanges : Coverage.fewestRanges
        )
        if claims.rangeCount != known { ranges.add(claims.rangeCount - known, of: claims) }
        return result
    }

    // MARK: Sockets

    /// A closed socket leaves the list.
    ///
    /// - Parameter user: Whose place the socket takes while late reports of it may come; `nil`: none may come.
    mutating func leaveList(_ socket: SocketAccount, of user: PayingUser?, within limit: UserLimit) {
        let serial = socket.observation.serial
        guard let user, self.moveRanges(of: serial) else { return self.forget(serial) }
        for serial in self.lateSockets.keep(socket, of: user, within: limit) { self.forget(serial) }
    }

    /// - Returns: `false` if there is no room for them among those of late sockets.
    private mutating func moveRanges(of serial: UInt64) -> Bool {
        guard let index = self.bySocket.index(forKey: serial) else { return true }
        return self.ranges.leaveList(&self.bySocket.values[index])
    }

    /// A socket may be listed again.
    mutating func returnToList(_ serial: UInt64) {
        guard self.lateSockets.remove(serial), let index = self.bySocket.index(forKey: serial) else { return }
        self.ranges.returnToList(&self.bySocket.values[index])
    }

    /// Reports of late sockets that closed before `moment`, or exceed the limits, count no more.
    mutating func forgetLateSockets(closedBefore moment: UInt64, within limit: UserLimit) {
        for serial in self.lateSockets.takeForgettable(closedBefore: moment, within: limit) { self.forget(serial) }
    }

    /// Reports of late sockets count no more.
    mutating func forgetLateSockets() {
        for serial in self.lateSockets.takeAll() { self.forget(serial) }
    }

    private mutating func forget(_ serial: UInt64) {
        guard let claims = self.bySocket.removeValue(forKey: serial) else { return }
        self.ranges.add(-claims.rangeCount, of: claims)
    }
}
