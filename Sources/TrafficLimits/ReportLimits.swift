/// How much of its reports one sender may make the daemon keep.
///
/// The users of a server are strangers to each other. If they shared one limit, one user could use up what another user
/// needs. So everything that a datagram can make grow has an allowance for each process, for each user, and for all
/// together. What exceeds an allowance is counted (``ReportCounters``). It costs only that process or that user, as
/// long as the allowance for all is not used up. That takes four payers (``PayingUser``) who each use up their own; a user
/// with a range of subordinate ids is three.
package enum ReportLimits {
    /// Bytes of datagrams that wait for the next round; each datagram adds ``overheadOfDatagram``. Beyond: the daemon
    /// drops the datagram.
    package static let waitingBytes = Allowance(process: 8 << 20, user: 16 << 20, all: 64 << 20)
    /// How many bytes of the daemon's memory a datagram takes besides its own bytes.
    package static let overheadOfDatagram = 128

    /// Records that wait for the kernel's counts to catch up with them. Beyond: a record is settled at once.
    package static let waitingRecords = Allowance(process: 2_048, user: 4_096, all: 16_384)
    /// Exchanges that go on. Beyond: the oldest exchange of the process or user is forgotten.
    package static let openExchanges = Allowance(process: 8_192, user: 10_240, all: 32_768)
    /// The last exchanges that ended. Beyond: the user's oldest exchange is no longer listed. If there are a quarter
    /// more in all, the users with the most exchanges lose their oldest.
    package static let endedExchanges = Allowance(process: 1_000, user: 1_000, all: 4_000)
    /// Ranges of bytes that claims have left on sockets. Beyond: gaps between the ranges count as claimed.
    package static let claimedRanges = Allowance(process: 1 << 17, user: 1 << 18, all: 1 << 20)
    /// The same of closed sockets that are no longer listed. Beyond: the claims on a socket go when the socket leaves the
    /// list, and later reports of it are rejected.
    package static let lateRanges = Allowance(process: 1 << 15, user: 1 << 16, all: 1 << 18)

    /// Rows of endpoints, in each grouping. Beyond: what would have a row of its own adds up in a row `_other` of the
    /// service or the user.
    package struct Rows: Sendable, Hashable {
        package var ofService = 2_000
        package var ofUser = 3_000
        package var all = 16_000
        /// Services of a user that have rows of their own.
        package var servicesOfUser = 512
        package var services = 8_192
        /// How many rows of a user have percentiles with two significant digits, among the rows with more durations
        /// than ``durationsAsTheyAre``. The other such rows have percentiles with one digit.
        package var fineOfUser = 256
        package var fine = 2_048

        package init() {}
    }

    /// A process's own rows, while the process runs. Beyond: further rows add up in its row `_other`, one row in each
    /// role. A process with such a row gets no further rows in that role: a new row would lack what has already been
    /// added up.
    package static let ownRows = Allowance(process: 1_000, user: 4_000, all: 20_000)

    /// How many durations a row keeps one by one before it makes a histogram of them. So a few datagrams make no row
    /// large.
    package static let durationsAsTheyAre = 32

    /// For `doctor`, the report format and its test.
    package static var table: [StatedLimit] {
        func limit(_ of: String, _ allowance: Allowance, beyond: String) -> StatedLimit {
            StatedLimit(
                of: of,
                process: allowance.process,
                user: allowance.user,
                all: allowance.all,
                beyond: beyond
            )
        }
        let rows = Rows()
        return [
            limit(
                "bytes of datagrams that wait for the next round, each with \(self.overheadOfDatagram) more",
                self.waitingBytes,
                beyond: "the daemon drops the datagram: `dropped_datagrams`"
            ),
            limit(
                "claims that wait for the kernel's count",
                self.waitingRecords,
                beyond: "the daemon decides at once, and rejects what the count does not confirm yet: `unwaited`"
            ),
            limit(
                "exchanges that go on",
                self.openExchanges,
                beyond:
                    "the daemon forgets the oldest of the process or user; its bytes stay counted: `forgotten_exchanges`"
            ),
            limit(
                "ended exchanges that are listed",
                self.endedExchanges,
                beyond: """
                    the user's oldest leaves the list; a quarter beyond the limit for all, the users with most lose \
                    theirs
                    """
            ),
            StatedLimit(
                of: "rows of endpoints, in each grouping",
                user: rows.ofUser,
                all: rows.all,
                beyond: "the rest adds up in the user's row `_other`: `in_other`"
            ),
            StatedLimit(
                of: "services with rows of their own; each at most \(rows.ofService) rows",
                user: rows.servicesOfUser,
                all: rows.services,
                beyond: "the rest adds up in the row `_other` of the service or user: `in_other`"
            ),
            limit(
                "rows of a running process",
                self.ownRows,
                beyond: """
                    the rest adds up in the process's rows `_other`, one for each role; then it gets no further rows
                    """
            ),
            StatedLimit(
                of: "rows with more than \(self.durationsAsTheyAre) durations whose percentiles have two digits",
                user: rows.fineOfUser,
                all: rows.fine,
                beyond: "the percentiles of the others have one digit"
            ),
            limit(
                "ranges of bytes that claims left on sockets",
                self.claimedRanges,
                beyond: "a gap between two ranges counts as claimed: `overlapping`, `duplicate`"
            ),
            limit(
                "such ranges on closed sockets that are no longer listed",
                self.lateRanges,
                beyond: "later reports of such a socket are rejected: `late`"
            ),
        ]
    }

    /// In bytes. The longest method has 17 bytes (RFC 4437), the longest host 253 (RFC 1035 section 2.3.4).
    package static let (longestMethod, longestHost, longestRoute) = (32, 253, 256)
}

/// How much of something one process, one user and all together may have.
package struct Allowance: Sendable, Hashable {
    package var process: Int
    package var user: Int
    package var all: Int

    package init(process: Int, user: Int, all: Int) {
        (self.process, self.user, self.all) = (process, user, all)
    }
}

/// How much of an ``Allowance`` is in use, by process and by user. Who uses a budget says the allowance each time, so
/// that a budget is the same under any limits.
package struct Budget<Process: Hashable & Sendable>: Sendable {
    private var ofProcess: [Process: Int] = [:]
    private var ofUser: [PayingUser: Int] = [:]
    package private(set) var used = 0

    package init() {}

    package func held(by process: Process) -> Int { self.ofProcess[process, default: 0] }

    package func held(byUser user: PayingUser) -> Int { self.ofUser[user, default: 0] }

    package func hasRoom(
        for amount: Int = 1,
        of process: Process,
        _ user: PayingUser,
        within allowance: Allowance
    ) -> Bool {
        self.ofProcess[process, default: 0] + amount <= allowance.process
            && self.ofUser[user, default: 0] + amount <= allowance.user
            && self.used + amount <= allowance.all
    }

    /// - Parameter amount: A negative amount gives back.
    package mutating func add(_ amount: Int = 1, of process: Process, _ user: PayingUser) {
        self.used += amount
        Self.add(amount, to: &self.ofProcess, at: process)
        Self.add(amount, to: &self.ofUser, at: user)
    }

    /// - Returns: `false` if there is no room. Then nothing was taken.
    package mutating func take(
        _ amount: Int = 1,
        of process: Process,
        _ user: PayingUser,
        within allowance: Allowance
    ) -> Bool {
        guard self.hasRoom(for: amount, of: process, user, within: allowance) else { return false }
        self.add(amount, of: process, user)
        return true
    }

    /// Gives everything back.
    package mutating func reset() {
        self = Budget()
    }

    private static func add<Key: Hashable>(_ amount: Int, to shares: inout [Key: Int], at key: Key) {
        let share = shares[key, default: 0] + amount
        // Empty entries are removed, because processes come and go.
        shares[key] = share == 0 ? nil : share
    }
}

extension Budget: Codable where Process: Codable {}
