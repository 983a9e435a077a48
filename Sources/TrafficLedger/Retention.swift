public import TrafficLimits
import TrafficModel

extension Ledger {
    /// How long exited processes and closed sockets stay listed, and how many. Their bytes stay counted in any case.
    public struct Retention: Sendable, Hashable {
        public var exitedProcesses: Duration
        public var exitedProcessLimit: Limit
        public var closedSockets: Duration
        public var closedSocketLimit: Limit
        /// How long after a socket's end reports of it count, once it has left the list.
        public var lateSockets: Duration
        /// Limits the sockets that are kept for such reports. About a kilobyte each.
        public var lateSocketLimit: Limit
        /// Limits the open sockets that a snapshot lists.
        public var openSocketLimit: Limit
        /// Limits the process groups.
        public var groupLimit: Limit
        /// Limits the sockets whose destination is undecided. One that has connected to several addresses counts for each.
        /// About 200 to 400 bytes each.
        public var undecidedLimit: Limit

        public init(
            exitedProcesses: Duration = .seconds(300),
            exitedProcessLimit: Limit = Limit(2_500, inAll: 10_000),
            closedSockets: Duration = .seconds(5),
            closedSocketLimit: Limit = Limit(2_048, inAll: 16_384),
            lateSockets: Duration = .seconds(60),
            lateSocketLimit: Limit = Limit(4_096, inAll: 16_384),
            openSocketLimit: Limit = Limit(131_072, inAll: 262_144),
            groupLimit: Limit = Limit(1_000, inAll: 4_000),
            undecidedLimit: Limit = Limit(16_384, inAll: 131_072)
        ) {
            self.exitedProcesses = exitedProcesses
            self.exitedProcessLimit = exitedProcessLimit
            self.closedSockets = closedSockets
            self.closedSocketLimit = closedSocketLimit
            (self.lateSockets, self.lateSocketLimit) = (lateSockets, lateSocketLimit)
            self.openSocketLimit = openSocketLimit
            self.groupLimit = groupLimit
            self.undecidedLimit = undecidedLimit
        }

        /// For `doctor`, docs/security.md and its test.
        package var table: [StatedLimit] {
            func limit(_ of: String, _ limit: Limit, beyond: String) -> StatedLimit {
                StatedLimit(of: of, user: limit.ofUser, all: limit.inAll, beyond: beyond)
            }
            return [
                limit(
                    "open sockets in a list",
                    self.openSocketLimit,
                    beyond: "stay counted, and leave the list, those that move least first"
                ),
                limit(
                    "closed sockets listed for \(self.closedSockets.components.seconds) seconds",
                    self.closedSocketLimit,
                    beyond: "the oldest leave the list"
                ),
                limit(
                    "sockets taken for closed because the daemon did not find them, where it can see only some at a time",
                    SocketTable.recoverableLimit,
                    beyond: "further ones stay in the list"
                ),
                limit(
                    "closed connections kept for late reports, for \(self.lateSockets.components.seconds) seconds after the end",
                    self.lateSocketLimit,
                    beyond: "the daemon rejects later reports of the oldest: `late`"
                ),
                limit(
                    "ended processes listed, for the time of `--keep-exited`",
                    self.exitedProcessLimit,
                    beyond: "the oldest move to the row of their group"
                ),
                limit(
                    "groups of processes",
                    self.groupLimit,
                    beyond: """
                        the groups longest without a listed process move to the user's row `_other`; if every group has \
                        a listed process, further groups add up there
                        """
                ),
                limit(
                    "new connections whose scope is not decided yet",
                    self.undecidedLimit,
                    beyond: "decided at once, and may count as `lan` instead of `same_host`"
                ),
            ]
        }

        public typealias Limit = UserLimit
    }
}
