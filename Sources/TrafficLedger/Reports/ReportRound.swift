import TrafficEvents
import TrafficLimits
import TrafficModel

/// The sender of a datagram.
struct ReportSender {
    var identity: ProcessIdentity
    /// (uid_t)-1 is no user.
    var user = PayingUser(.max)
    var name = ""
    /// The name of the process is known for good.
    var isResolved = false
    /// `nil` if the kernel has seen nothing of the process.
    var group: EndpointTotals.Group?
}

/// The kernel's counts after a round of observations, in which the ledger looks up what a report tells of.
final class ReportRound {
    /// A socket, and the process that asked for it last.
    private struct Known {
        var socket: ClaimedSocket
        var process: ProcessIdentity
        var isOwned: Bool
    }

    /// The ledger's table itself while reports are read: with a second reference, the first claim would copy it.
    var sockets = SocketTable()
    /// The sockets that were looked up, by cookie.
    private var known: [UInt64: Known] = [:]
    private var processes: [Int32: [(identity: ProcessIdentity, users: Set<UInt32>)]] = [:]
    /// Wall clock at `CLOCK_BOOTTIME` 0.
    private let bootedAt: Int64

    init(processes: some Collection<ProcessAccount>, bootedAt: Int64) {
        self.bootedAt = bootedAt
        for process in processes {
            self.processes[process.identity.pid, default: []].append((process.identity, process.users))
        }
    }

    /// The process that sent a report, if the kernel has seen it use a socket.
    ///
    /// The kernel says which pid and which user a sender has. Where the sender was still there when the inbox read the
    /// report, its start time has to match too. If the sender was gone, any process may have had the pid. So then the
    /// process of that pid that began last counts, of those known to have run as this user.
    func process(of report: ReceivedReport) -> ProcessIdentity? {
        let candidates = self.processes[report.pid] ?? []
        if let ticks = report.startTicks { return candidates.first { $0.identity.startTicks == ticks }?.identity }
        return candidates.filter { $0.users.contains(report.uid) }.map(\.identity)
            .max { $0.startBoottimeNanoseconds < $1.startBoottimeNanoseconds }
    }

    /// Finds a socket, and whether a process has used it. Usually, the next record of a socket is of the same process.
    ///
    /// Does not search a list of owners: a listed socket may have as many owners as there are processes.
    func socket(_ cookie: UInt64, of process: ProcessIdentity) -> (socket: ClaimedSocket, isOwned: Bool)? {
        let index = self.known.index(forKey: cookie)
        if let index, self.known.values[index].process == process {
            return (self.known.values[index].socket, self.known.values[index].isOwned)
        }
        // A cookie of several sockets names none of them.
        guard let serial = self.sockets.cookies[SocketCookie(rawValue: cookie)] else { return nil }
        if let late = self.sockets.late[serial] { return (late.socket, late.owners.contains(process)) }
        guard let account = self.sockets[serial] else { return nil }
        let isOwned = account.isOwned(by: process)
        let socket = index.map { self.known.values[$0].socket } ?? ClaimedSocket(account)
        self.known[cookie] = Known(socket: socket, process: process, isOwned: isOwned)
        return (socket, isOwned)
    }

    func wall(_ boottime: UInt64) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: self.bootedAt &+ Int64(clamping: boottime))
    }
}
