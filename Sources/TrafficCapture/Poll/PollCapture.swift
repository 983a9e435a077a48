import Glibc
public import TrafficEvents
public import TrafficModel

/// The `poll` method: reads `sock_diag` and `/proc` at every sweep and loads nothing into the kernel.
///
/// The numbers are exact as long as the socket can be read. This method can't see what a connection moves between the
/// last sweep and its end.
public final class PollCapture: CaptureSource {
    public private(set) var status: CaptureStatus
    public var wakeDescriptor: Int32? { nil }

    private struct Known {
        var baseline: PayloadBytes
        var observation: SocketObservation
        var wasSeen = true
    }

    private let interfaces = NetworkInterfaces()
    private let ends: InterfaceEnds
    private let reads = ReadFailures()
    private static let eachNamespace = "sock_diag of every network namespace"
    /// The permanent blind spots.
    private let blindSpots: [String]
    private var known: [SocketCookie: Known] = [:]
    private var owners = SocketOwners()
    /// Sockets older than the capture. The first sweep uses these values and clears them.
    private var baselines: [SocketCookie: PayloadBytes] = [:]

    /// - Parameter reason: Why no better method is in use.
    public init(reason: String? = nil) throws(CaptureError) {
        self.ends = try InterfaceEnds(networkNamespace: self.interfaces.networkNamespace)
        var blindSpots = [
            "connections shorter than the interval, and the last bytes, up to one interval, of every connection",
            "UDP, MPTCP, raw and ping sockets",
            "a socket that several processes use counts for the first of them",
            "network namespaces that no process lives in and that are not mounted",
        ]
        if geteuid() != 0 { blindSpots.append("which process owns a socket of another user") }
        self.blindSpots = blindSpots
        self.status = CaptureStatus(method: .poll, reason: reason, hooks: ["netlink/sock_diag"], blindSpots: blindSpots)
        for (entry, _) in try self.entries().found { self.baselines[entry.cookie] = entry.payload }
    }

    /// Returns the sockets of all network namespaces, and the namespaces whose sockets could not be read. No namespace
    /// is kept open, so a namespace that its processes have left can go away.
    private func entries() throws(CaptureError) -> (found: [(SocketDiagnostics.Entry, UInt32)], unknown: Set<UInt32>) {
        var found: [(SocketDiagnostics.Entry, UInt32)] = []
        var unknown: Set<UInt32> = []
        var isComplete = true
        unknown.formUnion(
            try NetworkNamespaces.forEach { () throws(CaptureError) in
                let inode = ProcessDirectory.networkNamespace(task: "thread-self") ?? 0
                do throws(CaptureError) {
                    for entry in try SocketDiagnostics.tcpSockets() { found.append((entry, inode)) }
                } catch {
                    self.reads.note(Self.eachNamespace, error)
                    unknown.insert(inode)
                    isComplete = false
                }
            }
        )
        if isComplete { self.reads.attempt(Self.eachNamespace) {} }
        return (found, unknown)
    }

    public var readFailures: [ReadFailure] { self.reads.current }

    public func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {}

    public func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        self.reads.beginSweep()
        self.reads.attempt("sock_diag") { () throws(CaptureError) in try self.sweepSockets(emit) }
        self.reads.attempt("rtnetlink") { () throws(CaptureError) in
            // Before the list: what goes between the two is in the list, and comes with the next reading.
            var gone: [InterfaceUsage] = []
            let ends = Result { () throws(CaptureError) in try self.ends.take { gone.append($0) } }
            if !gone.isEmpty { emit(.interfacesGone(gone)) }
            emit(.interfaces(try self.interfaces.read()))
            try ends.get()
        }
        self.status.blindSpots = self.blindSpots + self.reads.blindSpots
        if self.reads.count > 0 { emit(.loss(CaptureLoss(readsFailed: self.reads.count))) }
        try self.reads.endSweep()
    }

    private func sweepSockets(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        let (entries, unknown) = try self.entries()
        for cookie in self.known.keys { self.known[cookie]?.wasSeen = false }
        self.owners.refresh(inodes: Set(entries.map(\.0.inode)))
        for (entry, namespace) in entries { self.take(entry, namespace: namespace, emit) }
        let now = MonotonicClock.boottimeNanoseconds()
        for (cookie, known) in self.known where !known.wasSeen {
            if unknown.contains(known.observation.networkNamespace) { continue }
            var observation = known.observation
            observation.state = .closed
            observation.closedBoottimeNanoseconds = now
            self.known[cookie] = nil
            emit(.socket(observation))
        }
        self.baselines = [:]
    }

    private func take(_ entry: SocketDiagnostics.Entry, namespace: UInt32, _ emit: (CaptureEvent) -> Void) {
        let before = self.known[entry.cookie]
        let isPreexisting = before?.observation.preexisting ?? (self.baselines[entry.cookie] != nil)
        let baseline = before?.baseline ?? self.baselines[entry.cookie] ?? PayloadBytes()
        // A socket keeps its first known owner: after close(2) the socket has no owner any more.
        var owner = before?.observation.owners.first ?? self.owners.owner(ofInode: entry.inode)
        let counted = entry.payload.growth(since: baseline)
        // Bytes from before the owner was known stay without an owner.
        let unowned = owner == nil ? counted : before?.observation.unowned ?? PayloadBytes()
        owner?.payload = counted.growth(since: unowned)
        let observation = SocketObservation(
            cookie: entry.cookie,
            transport: .tcp,
            family: entry.family,
            local: entry.local,
            remote: entry.remote,
            role: entry.state == .listen ? .listener : before?.observation.role ?? .peer,
            state: entry.state,
            openedBoottimeNanoseconds: before.map(\.observation.openedBoottimeNanoseconds)
                ?? (isPreexisting ? nil : MonotonicClock.boottimeNanoseconds()),
            preexisting: isPreexisting,
            networkNamespace: namespace,
            tcp: entry.tcp,
            wire: entry.wire,
            owners: owner.map { [$0] } ?? [],
            unowned: unowned
        )
        let isChanged = before.map { $0.observation != observation } ?? true
        self.known[entry.cookie] = Known(baseline: baseline, observation: observation)
        if isChanged { emit(.socket(observation)) }
    }
}

/// The process that holds each socket, from `/proc/PID/fd`.
private struct SocketOwners {
    private var owners: [UInt32: ProcessIdentity] = [:]
    private var names: [ProcessIdentity: String] = [:]
    private var users: [ProcessIdentity: UInt32] = [:]

    /// Reads `/proc` again if the holder of any socket is unknown, and forgets sockets that are gone.
    mutating func refresh(inodes: Set<UInt32>) {
        self.owners = self.owners.filter { inodes.contains($0.key) }
        let missing = inodes.subtracting(self.owners.keys).subtracting([0])
        guard !missing.isEmpty else { return }
        for pid in ProcessDirectory.pids().sorted() {
            let held = ProcessDirectory.socketInodes(pid: pid).filter { missing.contains($0) && self.owners[$0] == nil }
            guard !held.isEmpty, let ticks = ProcessDirectory.startTicks(pid: pid) else { continue }
            let process = ProcessIdentity(
                pid: pid,
                startBoottimeNanoseconds: ticks * ProcessIdentity.nanosecondsPerTick
            )
            self.names[process] = ProcessDirectory.name(pid: pid)
            // Not the socket's user: who made the socket may have passed it to this process.
            self.users[process] = ProcessDirectory.user(pid: pid)
            for inode in held { self.owners[inode] = process }
        }
        let holders = Set(self.owners.values)
        self.names = self.names.filter { holders.contains($0.key) }
        self.users = self.users.filter { holders.contains($0.key) }
    }

    func owner(ofInode inode: UInt32) -> OwnerObservation? {
        guard let process = self.owners[inode], let uid = self.users[process] else { return nil }
        return OwnerObservation(identity: process, name: self.names[process] ?? "", uid: uid)
    }
}
