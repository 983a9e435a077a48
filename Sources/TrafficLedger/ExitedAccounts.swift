import TrafficModel

/// The bytes of processes that are no longer listed, per executable.
struct ExitedAccounts {
    private struct Group: Hashable {
        var name: String
        var executable: String?
    }

    private let limit: Int
    private var accounts: [Group: ExitedUsage] = [:]

    /// - Parameter limit: How many executables; the rest add up in one row named `_other`.
    init(limit: Int = 2_000) {
        self.limit = limit
    }

    mutating func fold(_ process: ProcessAccount) {
        var group = Group(name: process.details.name, executable: process.details.executable)
        // One executable under several names (busybox) is still told apart; a name alone stands for processes that were gone
        // before /proc could be read.
        if self.accounts[group] == nil && self.accounts.count >= self.limit { group = Group(name: "_other") }
        var usage =
            self.accounts[group]
            ?? ExitedUsage(name: group.name, executable: group.executable, processes: 0, bytes: ByteCounts())
        usage.processes += 1
        usage.bytes += process.bytes
        usage.explained +|= process.explained
        usage.bytes.pendingSent = 0  // a gauge of what lives
        self.accounts[group] = usage
    }

    var usages: [ExitedUsage] {
        self.accounts.values.sorted { ($0.name, $0.executable ?? "") < ($1.name, $1.executable ?? "") }
    }
}
