extension Ledger {
    /// How long and how many of what is gone stay listed. Their bytes stay counted in any case.
    public struct Retention: Sendable, Hashable {
        public var exitedProcesses: Duration
        public var exitedProcessLimit: Limit
        public var closedSockets: Duration
        public var closedSocketLimit: Limit
        /// Of executables under ``Snapshot/exited``.
        public var exitedGroupLimit: Limit
        /// Of what sockets moved since the last tick, while nobody has decided how far that went. About 140 bytes each.
        public var undecidedLimit: Limit

        public init(
            exitedProcesses: Duration = .seconds(300),
            exitedProcessLimit: Limit = Limit(2_500, inAll: 10_000),
            closedSockets: Duration = .seconds(5),
            closedSocketLimit: Limit = Limit(2_048, inAll: 16_384),
            exitedGroupLimit: Limit = Limit(500, inAll: 2_000),
            undecidedLimit: Limit = Limit(16_384, inAll: 131_072)
        ) {
            self.exitedProcesses = exitedProcesses
            self.exitedProcessLimit = exitedProcessLimit
            self.closedSockets = closedSockets
            self.closedSocketLimit = closedSocketLimit
            self.exitedGroupLimit = exitedGroupLimit
            self.undecidedLimit = undecidedLimit
        }

        /// How many there may be of one user's, and in all. Who has more loses his own detail, and no byte.
        public struct Limit: Sendable, Hashable {
            public var ofUser: Int
            public var inAll: Int

            public init(_ ofUser: Int, inAll: Int) {
                self.ofUser = ofUser
                self.inAll = inAll
            }
        }
    }
}
