import DequeModule
import TrafficModel

/// What an audit needs of sockets that are no longer listed.
struct GoneSockets {
    private static let listed = 100

    private var tallies = AuditTallies()
    /// The last sockets whose witnesses disagreed when the ledger forgot them.
    private var disputed: Deque<SocketUsage> = []
    private var disputedCount = 0

    mutating func bury(_ tallies: AuditTallies) {
        self.tallies += tallies
    }

    /// - Parameter socket: A socket whose witnesses disagree.
    mutating func keepDisputed(_ socket: SocketUsage) {
        self.disputedCount += 1
        self.disputed.append(socket)
        if self.disputed.count > Self.listed { self.disputed.removeFirst() }
    }

    mutating func bury(_ row: FoldedRows.Row) {
        self.tallies += row.tallies
    }

    var evidence: AuditEvidence {
        var evidence = AuditEvidence()
        evidence.goneSockets = self.tallies
        evidence.disputed = Array(self.disputed)
        evidence.disputedCount = self.disputedCount
        return evidence
    }
}
