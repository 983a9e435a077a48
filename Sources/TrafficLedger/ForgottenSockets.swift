import DequeModule
import TrafficEvents
import TrafficModel

/// What an audit needs of sockets that are no longer listed.
struct ForgottenSockets: Codable {
    private struct Disputed: Codable {
        var socket: SocketAccount
        /// Wall clock at `CLOCK_BOOTTIME` 0, when the ledger forgot the socket.
        var bootedAt: Int64
    }

    private static let listed = 100

    private var tallies = AuditTallies()
    /// The last sockets whose witnesses disagreed when the ledger forgot them.
    private var disputed: Deque<Disputed> = []
    private var disputedCount = 0

    mutating func add(_ tallies: AuditTallies) {
        self.tallies += tallies
    }

    /// - Parameters:
    ///   - socket: A socket whose witnesses disagree.
    ///   - bootedAt: Wall clock at `CLOCK_BOOTTIME` 0.
    mutating func keepDisputed(_ socket: SocketAccount, bootedAt: Int64) {
        self.disputedCount += 1
        self.disputed.append(Disputed(socket: socket, bootedAt: bootedAt))
        if self.disputed.count > Self.listed { self.disputed.removeFirst() }
    }

    mutating func add(_ row: FoldedRows.Row) {
        self.tallies += row.tallies
    }

    var evidence: AuditEvidence {
        var evidence = AuditEvidence()
        evidence.forgottenSockets = self.tallies
        evidence.disputed = self.disputed.map { $0.socket.usage(bootedAt: $0.bootedAt) }
        evidence.disputedCount = self.disputedCount
        return evidence
    }
}
