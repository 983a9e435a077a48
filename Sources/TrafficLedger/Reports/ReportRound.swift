import TrafficModel

/// Who sent a datagram.
struct ReportSender {
    var identity: ProcessIdentity
    var user: UInt32 = .max
    var name = ""
    /// Its name is known for good.
    var isResolved = false
    /// `nil` for a process that the kernel has seen nothing of.
    var group: EndpointTotals.Group?
}

/// What the kernel's counts were after a round of observations, for looking up what a report speaks of.
final class ReportRound {
    /// What of a socket a claim is held against.
    struct Socket {
        var serial: UInt64
        var payload: PayloadBytes
        var wireBytes: UInt64
        var preexisting: Bool
        var connect: ConnectTimes?

        fileprivate init(_ account: SocketAccount) {
            let bytes = account.bytes
            self.serial = account.observation.serial
            self.payload = bytes.payload
            self.wireBytes = (bytes.wireSent ?? 0) &+ (bytes.wireReceived ?? 0)
            self.preexisting = account.observation.preexisting
            self.connect = account.observation.connect
        }
    }

    private let sockets: [UInt64: SocketAccount]
    /// By cookie. `nil`: several sockets have it (MPTCP), so that it names none.
    private var serials: [UInt64: UInt64?] = [:]
    /// By cookie, those that were looked up.
    private var known: [UInt64: Socket] = [:]
    private var identities: [Int32: [ProcessIdentity]] = [:]
    /// Wall clock at `CLOCK_BOOTTIME` 0.
    private let bootedAt: Int64

    init(sockets: [UInt64: SocketAccount], processes: some Collection<ProcessIdentity>, bootedAt: Int64) {
        self.sockets = sockets
        self.bootedAt = bootedAt
        self.serials.reserveCapacity(sockets.count)
        for (serial, socket) in sockets {
            let cookie = socket.observation.cookie.rawValue
            self.serials[cookie] = self.serials[cookie] == nil ? .some(serial) : .some(nil)
        }
        for process in processes { self.identities[process.pid, default: []].append(process) }
    }

    /// The process that sent a report: of several that had its pid the one that had begun then, or the last one.
    func process(of report: ReceivedReport) -> ProcessIdentity? {
        let candidates = self.identities[report.pid] ?? []
        guard let ticks = report.startTicks else {
            return candidates.max { $0.startBoottimeNanoseconds < $1.startBoottimeNanoseconds }
        }
        return candidates.first { $0.startBoottimeNanoseconds / ReceivedReport.nanosecondsPerTick == ticks }
    }

    func socket(_ cookie: UInt64) -> Socket? {
        if let known = self.known[cookie] { return known }
        guard let serial = self.serials[cookie] ?? nil, let account = self.sockets[serial] else { return nil }
        let socket = Socket(account)
        self.known[cookie] = socket
        return socket
    }

    /// Not by a list of owners: a socket may have as many as there are processes, and each record asks.
    func isOwned(_ socket: Socket, by process: ProcessIdentity) -> Bool {
        self.sockets[socket.serial]?.isOwned(by: process) ?? false
    }

    func wall(_ boottime: UInt64) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: self.bootedAt &+ Int64(clamping: boottime))
    }
}
