import TrafficModel

/// How many ranges of bytes claims have left on sockets. Sockets that are no longer listed have an allowance of their
/// own, so that the many closed sockets of a busy server take nothing from its open ones.
struct ClaimedRanges: Codable {
    private(set) var listed = Budget<ProcessIdentity>()
    private(set) var late = Budget<ProcessIdentity>()

    func hasRoom(for claims: SocketClaims) -> Bool {
        claims.isLate
            ? self.late.hasRoom(of: claims.holder, claims.user, within: ReportLimits.lateRanges)
            : self.listed.hasRoom(of: claims.holder, claims.user, within: ReportLimits.claimedRanges)
    }

    /// - Parameter count: A negative count gives back.
    mutating func add(_ count: Int, of claims: SocketClaims) {
        if claims.isLate {
            self.late.add(count, of: claims.holder, claims.user)
        } else {
            self.listed.add(count, of: claims.holder, claims.user)
        }
    }

    /// The socket leaves the list.
    ///
    /// - Returns: `false` if there is no room for the ranges of its claims.
    mutating func leaveList(_ claims: inout SocketClaims) -> Bool {
        let count = claims.rangeCount
        guard self.late.take(count, of: claims.holder, claims.user, within: ReportLimits.lateRanges) else {
            return false
        }
        self.listed.add(-count, of: claims.holder, claims.user)
        claims.isLate = true
        return true
    }

    /// The socket is listed again.
    mutating func returnToList(_ claims: inout SocketClaims) {
        self.add(-claims.rangeCount, of: claims)
        claims.isLate = false
        self.add(claims.rangeCount, of: claims)
    }
}
