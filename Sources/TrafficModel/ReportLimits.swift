/// What one sender may make the daemon keep of its reports.
///
/// Users of a server are strangers to each other: a limit that they shared would let one use up what another needs. So everything that a
/// datagram can make grow has an allowance for each process, for each user and for all together. What exceeds an allowance is counted
/// (``ReportCounters``), and costs that process or that user alone as long as the allowance for all is not used up. That takes at least
/// three users who each use up theirs; subordinate ids (subuid(5)) count as users of their own.
package enum ReportLimits {
    /// Bytes of datagrams that wait for the next round, each with ``overheadOfDatagram``. Beyond: the datagram is dropped.
    package static let waitingBytes = Allowance(process: 8 << 20, user: 16 << 20, all: 64 << 20)
    /// What a datagram takes of the daemon's memory beside its bytes.
    package static let overheadOfDatagram = 128

    /// Claims that wait for the kernel's count to catch up with them. Beyond: a claim is settled at once.
    package static let waitingRecords = Allowance(process: 2_048, user: 4_096, all: 16_384)
    /// Exchanges that go on. Beyond: the process's oldest is forgotten.
    package static let openExchanges = Allowance(process: 8_192, user: 12_288, all: 32_768)
    /// The last exchanges that ended. Beyond: the user's oldest is no longer listed; where there are a quarter more in all, the oldest of those
    /// who have most.
    package static let endedExchanges = Allowance(process: 1_000, user: 1_000, all: 4_000)
    /// Ranges of bytes that claims have left on sockets. Beyond: gaps between them count as claimed.
    package static let claimedRanges = Allowance(process: 1 << 17, user: 1 << 18, all: 1 << 20)

    /// Rows of APIs, in each grouping. Beyond: what would have had a row of its own adds up in a row `_other` of the service or the user.
    package struct Rows: Sendable, Hashable {
        package var ofService = 2_000
        package var ofUser = 3_000
        package var all = 16_000
        /// Services of a user that have rows of their own.
        package var servicesOfUser = 512
        package var services = 8_192
        /// Rows of a user whose percentiles have two significant digits, of those with more than ``durationsAsTheyAre``. The others' have one.
        package var fineOfUser = 256
        package var fine = 2_048

        package init() {}
    }

    /// Rows of a process's own, as long as it runs. Beyond: they add up in its row `_other`, one in each role. A process that has that one gets
    /// no further rows: each would lack what has been added up already.
    package static let ownRows = Allowance(process: 1_000, user: 4_000, all: 20_000)

    /// Durations that a row keeps one by one, before it makes a histogram of them: of a few datagrams no row becomes large.
    package static let durationsAsTheyAre = 32

    /// Bytes of a name's parts. A method has 17 at most (RFC 4437), a host 253 (RFC 1035 section 2.3.4).
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

/// What of an ``Allowance`` is in use, and by whom.
package struct Budget<Process: Hashable & Sendable>: Sendable {
    package let allowance: Allowance
    private var ofProcess: [Process: Int] = [:]
    private var ofUser: [UInt32: Int] = [:]
    package private(set) var used = 0

    package init(_ allowance: Allowance) {
        self.allowance = allowance
    }

    package func held(by process: Process) -> Int { self.ofProcess[process, default: 0] }

    package func held(byUser user: UInt32) -> Int { self.ofUser[user, default: 0] }

    package func hasRoom(for amount: Int = 1, of process: Process, _ user: UInt32) -> Bool {
        self.ofProcess[process, default: 0] + amount <= self.allowance.process
            && self.ofUser[user, default: 0] + amount <= self.allowance.user
            && self.used + amount <= self.allowance.all
    }

    /// - Parameter amount: Negative: it is given back.
    package mutating func add(_ amount: Int = 1, of process: Process, _ user: UInt32) {
        self.used += amount
        Self.add(amount, to: &self.ofProcess, at: process)
        Self.add(amount, to: &self.ofUser, at: user)
    }

    /// - Returns: `false` where there is no room: nothing was taken.
    package mutating func take(_ amount: Int = 1, of process: Process, _ user: UInt32) -> Bool {
        guard self.hasRoom(for: amount, of: process, user) else { return false }
        self.add(amount, of: process, user)
        return true
    }

    /// All of it is given back.
    package mutating func reset() {
        self = Budget(self.allowance)
    }

    private static func add<Key: Hashable>(_ amount: Int, to shares: inout [Key: Int], at key: Key) {
        let share = shares[key, default: 0] + amount
        // Those who have nothing leave nothing behind: processes come and go.
        shares[key] = share == 0 ? nil : share
    }
}
