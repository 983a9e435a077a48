import TrafficModel

/// The sender of a datagram.
struct ReportSender {
    var identity: ProcessIdentity
    var user: UInt32 = .max
    var name = ""
    /// The name of the process is known for good.
    var isResolved = false
    /// `nil` if the kernel has seen nothing of the process.
    var group: EndpointTotals.Group?
}

/// The kernel's counts after a round of observations. The ledger looks up in them what a report tells of.
final class ReportRound {
    /// A socket, and the process that asked for it last.
    private struct Known {
        var socket: ClaimedSocket
        var process: ProcessIdentity
        var isOwned: Bool
    }

    private let sockets: SocketTable
    private let lateSockets: LateSockets
    /// The sockets that were looked up, by cookie.
    private var known: [UInt64: Known] = [:]
    private var identities: [Int32: [ProcessIdentity]] = [:]
    /// Wall clock at `CLOCK_BOOTTIME` 0.
    private let bootedAt: Int64

    /// - Parameter lateSockets: Those of ``ClaimTable``.
    init(
        sockets: SocketTable,
        lateSockets: LateSockets,
        processes: some Collection<ProcessIdentity>,
        bootedAt: Int64
    ) {
        (self.sockets, self.lateSockets) = (sockets, lateSockets)
        self.bootedAt = bootedAt
        for process in processes { self.identities[process.pid, default: []].append(process) }
    }

    /// The process that sent a report: the process of that pid with the report's start time. If the report has no start
    /// time, the process of that pid that began last.
    func process(of report: ReceivedReport) -> ProcessIdentity? {
        let candidates = self.identities[report.pid] ?? []
        guard let ticks = report.startTicks else {
            return candidates.max { $0.startBoottimeNanoseconds < $1.startBoottimeNanoseconds }
        }
        return candidates.first { $0.startTicks == ticks }
    }

    /// Finds a socket, and whether a process has used it. Usually, the next record of a socket is of the same process.
    ///
    /// Does not search a list of owners: a listed socket may have as many owners as there are processes.
    func socket(_ cookie: UInt64, of process: ProcessIdentity) -> (socket: ClaimedSocket, isOwned: Bool)? {
        let index = self.known.index(forKey: cookie)
        if let index, self.known.values[index].process == process {
            return (self.known.values[index].socket, self.known.values[index].isOwned)
        }
        let name = SocketCookie(rawValue: cookie)
        guard self.sockets.cookies.contains(name) else { return self.lateSockets[name, of: process] }
        // A cookie of several sockets names none of them.
        guard let account = self.sockets[name], !self.lateSockets.has(name) else { return nil }
        let isOwned = account.isOwned(by: process)
        let socket = index.map { self.known.values[$0].socket } ?? ClaimedSocket(account)
        self.known[cookie] = Known(socket: socket, process: process, isOwned: isOwned)
        return (socket, isOwned)
    }

    func wall(_ boottime: UInt64) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: self.bootedAt &+ Int64(clamping: boottime))
    }
}
