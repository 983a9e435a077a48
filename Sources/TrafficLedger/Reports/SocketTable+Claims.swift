import TrafficModel
import TrafficReport

/// What reports claim of sockets. Claims stay as long as a report can name their socket, so that no byte is explained
/// twice, and no longer.
extension SocketTable {
    typealias ClaimResult = (verdict: Coverage.Verdict, growth: PayloadBytes, wire: UInt64)

    /// - Returns: How many more bytes are explained than before.
    mutating func claim(
        _ connection: Report.Connection,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> PayloadBytes {
        let none = SocketClaims(of: socket, by: sender)
        return self.claims[socket.serial, default: none].claim(connection, of: socket.payload)
    }

    /// As ``SocketClaims/claim(_:isSent:of:wire:limit:)``.
    mutating func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        by sender: ReportSender
    ) -> ClaimResult {
        let none = SocketClaims(of: socket, by: sender)
        return Self.claim(
            interval,
            isSent: isSent,
            of: socket,
            &self.claims[socket.serial, default: none],
            &self.ranges
        )
    }

    private static func claim(
        _ interval: Report.Interval,
        isSent: Bool,
        of socket: ClaimedSocket,
        _ claims: inout SocketClaims,
        _ ranges: inout ClaimedRanges
    ) -> ClaimResult {
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

    // MARK: Late sockets

    /// Keeps what late reports of a socket are checked against. The socket has left the list.
    ///
    /// - Parameter user: Whose place the socket takes; `nil`: no report may come.
    mutating func keepLate(_ socket: SocketAccount, of user: PayingUser?, within limit: UserLimit) {
        let serial = socket.observation.serial
        guard let user, let late = LateSocket(socket, of: user), self.moveRanges(of: serial) else {
            return self.forgetClaims(of: serial)
        }
        self.cookies.add(late.cookie, of: serial)
        self.forget(self.late.keep(late, within: limit))
    }

    /// - Returns: `false` if there is no room for them among those of late sockets.
    private mutating func moveRanges(of serial: UInt64) -> Bool {
        guard let index = self.claims.index(forKey: serial) else { return true }
        return self.ranges.leaveList(&self.claims.values[index])
    }

    /// A late socket is listed again.
    mutating func listLate(_ serial: UInt64) {
        guard let late = self.late.remove(serial) else { return }
        self.cookies.remove(late.cookie, of: serial)
        if let index = self.claims.index(forKey: serial) { self.ranges.returnToList(&self.claims.values[index]) }
    }

    /// Reports of late sockets that closed before `moment`, or exceed the limits, count no more.
    mutating func forgetLate(closedBefore moment: UInt64, within limit: UserLimit) {
        self.forget(self.late.takeForgettable(closedBefore: moment, within: limit))
    }

    private mutating func forget(_ late: [LateSocket]) {
        for socket in late {
            self.cookies.remove(socket.cookie, of: socket.claimed.serial)
            self.forgetClaims(of: socket.claimed.serial)
        }
    }

    private mutating func forgetClaims(of serial: UInt64) {
        guard let claims = self.claims.removeValue(forKey: serial) else { return }
        self.ranges.add(-claims.rangeCount, of: claims)
    }
}
