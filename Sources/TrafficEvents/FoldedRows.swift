public import TrafficModel

/// Bytes that moved and are in no socket's record, because a ring or map of the kernel had no room. The bytes are
/// exact, and their owners are known as far as each user's share of the rows goes. The sockets of these bytes are not
/// known, so the bytes are in no scope and no class.
public struct FoldedRows: Sendable, Hashable, Codable {
    /// Rises with each reading, so that rows that come twice count once.
    public var generation: UInt64
    /// What processes moved. The owner's payload is the payload of the row.
    public var processes: [Row]
    /// What a user's processes moved beyond the rows that the user may have. Only `uid` and the payload of the owner
    /// mean anything. Of a block of subordinate ids, `uid` is the first one (``PayingUser``).
    public var users: [Row]
    /// What the users moved for whom no row was free, because there were too many; `nil` if nothing.
    public var common: Row?

    public init(generation: UInt64, processes: [Row] = [], users: [Row] = [], common: Row? = nil) {
        self.generation = generation
        self.processes = processes
        self.users = users
        self.common = common
    }

    /// One row of the kernel.
    public struct Row: Sendable, Hashable, Codable {
        public var owner: OwnerObservation
        /// IP packets of the closed sockets in this row; derived or estimated where packets are not seen.
        public var wire: WireTotals
        public var retransmitted: UInt64
        /// How many closed sockets the row stands for.
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

        /// The audit lines of the row. TCP's own account and the packets of each socket went away with the socket.
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
