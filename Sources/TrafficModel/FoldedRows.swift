/// What moved and no socket's record tells: a kernel's ring or map had no room. The bytes are exact and their owners known, as far as
/// each user's share of the rows goes; which sockets they moved over is not known, so they are in no scope and no class.
public struct FoldedRows: Sendable, Hashable, Codable {
    /// Rises with each reading: rows that come twice count once.
    public var generation: UInt64
    /// What processes moved. The owner's payload is the row's.
    public var processes: [Row]
    /// What processes of a user moved beyond the rows that he may have. Of the owner only `uid` and the payload mean anything.
    public var users: [Row]
    /// What moved beyond all rows, where users were too many; `nil`: nothing.
    public var rest: Row?

    public init(generation: UInt64, processes: [Row] = [], users: [Row] = [], rest: Row? = nil) {
        self.generation = generation
        self.processes = processes
        self.users = users
        self.rest = rest
    }

    /// One row of the kernel's.
    public struct Row: Sendable, Hashable, Codable {
        public var owner: OwnerObservation
        /// IP packets of the closed sockets in this row; estimated where packets are not seen.
        public var wire: WireTotals
        public var retransmitted: UInt64
        /// How many closed sockets it stands for.
        public var sockets: UInt64

        public init(
            owner: OwnerObservation,
            wire: WireTotals = WireTotals(),
            retransmitted: UInt64 = 0,
            sockets: UInt64 = 0
        ) {
            self.owner = owner
            self.wire = wire
            self.retransmitted = retransmitted
            self.sockets = sockets
        }

        /// Its lines of an audit: TCP's own account and the packets of each socket went with the socket.
        package var tallies: AuditTallies {
            var tallies = AuditTallies()
            let payload = self.owner.payload
            tallies.sent[.payload] = Int64(clamping: payload.sent)
            tallies.received[.payload] = Int64(clamping: payload.received)
            tallies.sent[.folded] = Int64(clamping: self.wire.sent) - tallies.sent[.payload]
            tallies.received[.folded] = Int64(clamping: self.wire.received) - tallies.received[.payload]
            return tallies
        }
    }
}
