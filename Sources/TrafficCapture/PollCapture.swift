import Glibc
public import TrafficModel

/// The `poll` rung: reads `sock_diag` and `/proc` at every sweep and loads nothing into the kernel.
///
/// What it counts is exact for as long as a socket is there to be read; what happens between the last look and the end of a
/// connection it can't see.
public final class PollCapture: CaptureSource {
    public let status: CaptureStatus
    public var wakeDescriptor: Int32? { nil }

    private struct Known {
        var baseline: PayloadBytes
        var observation: SocketObservation
        var wasSeen = true
    }

    private let namespaces: [(diagnostics: Diagnostics, inode: UInt32)]
    private let interfaces: NetworkInterfaces
    private var known: [SocketCookie: Known] = [:]
    private var owners = SocketOwners()
    /// Sockets older than the capture, until the first sweep takes them up.
    private var baselines: [SocketCookie: PayloadBytes] = [:]

    /// Arrays hold no noncopyable values yet.
    private final class Diagnostics {
        let handle: SocketDiagnostics
        init() throws(CaptureError) { self.handle = try SocketDiagnostics() }
    }

    /// - Parameter reason: Why no better rung is in use.
    public init(reason: String? = nil) throws(CaptureError) {
        var namespaces: [(Diagnostics, UInt32)] = []
        try NetworkNamespaces.forEach { () throws(CaptureError) in
            namespaces.append((try Diagnostics(), ProcessDirectory.networkNamespace(task: "thread-self") ?? 0))
        }
        self.namespaces = namespaces
        self.interfaces = try NetworkInterfaces()
        var blindSpots = [
            "connections shorter than the interval, and the last bytes, up to one interval, of every connection",
            "UDP, MPTCP, raw and ping sockets",
            "a socket that several processes use counts for the first of them",
            "network namespaces made after the start",
        ]
        for (diagnostics, _) in namespaces {
            for entry in try diagnostics.handle.tcpSockets() { self.baselines[entry.cookie] = entry.payload }
        }
        if geteuid() != 0 { blindSpots.append("which process owns a socket of another user") }
        self.status = CaptureStatus(rung: .poll, reason: reason, hooks: ["netlink/sock_diag"], blindSpots: blindSpots)
    }

    public func drain(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {}

    public func sweep(_ emit: (CaptureEvent) -> Void) throws(CaptureError) {
        for cookie in self.known.keys { self.known[cookie]?.wasSeen = false }
        var entries: [(SocketDiagnostics.Entry, UInt32)] = []
        for (diagnostics, inode) in self.namespaces {
            for entry in try diagnostics.handle.tcpSockets() { entries.append((entry, inode)) }
        }
        self.owners.refresh(inodes: Set(entries.map(\.0.inode)))
        for (entry, namespace) in entries { self.take(entry, namespace: namespace, emit) }
        let now = MonotonicClock.boottimeNanoseconds()
        for (cookie, known) in self.known where !known.wasSeen {
            var observation = known.observation
            observation.state = .closed
            observation.closedBoottimeNanoseconds = now
            self.known[cookie] = nil
            emit(.socket(observation))
        }
        self.baselines = [:]
        emit(.interfaces(try self.interfaces.read()))
    }

    private func take(_ entry: SocketDiagnostics.Entry, namespace: UInt32, _ emit: (CaptureEvent) -> Void) {
        let before = self.known[entry.cookie]
        let isPreexisting = before?.observation.preexisting ?? (self.baselines[entry.cookie] != nil)
        let baseline = before?.baseline ?? self.baselines[entry.cookie] ?? PayloadBytes()
        // Once known, a socket keeps its owner: after close(2) it has none any more.
        var owner = before?.observation.owners.first ?? self.owners.owner(ofInode: entry.inode, uid: entry.uid)
        let counted = entry.payload.growth(since: baseline)
        // What moved before the owner was known stays nobody's.
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

/// Which process holds which socket, from `/proc/PID/fd`.
private struct SocketOwners {
    private var owners: [UInt32: ProcessIdentity] = [:]
    private var names: [ProcessIdentity: String] = [:]

    /// Reads `/proc` again if there is a socket that nobody is known to hold, and forgets the ones that are gone.
    mutating func refresh(inodes: Set<UInt32>) {
        self.owners = self.owners.filter { inodes.contains($0.key) }
        let missing = inodes.subtracting(self.owners.keys).subtracting([0])
        guard !missing.isEmpty else { return }
        for pid in ProcessDirectory.pids().sorted() {
            let held = ProcessDirectory.socketInodes(pid: pid).filter { missing.contains($0) && self.owners[$0] == nil }
            guard !held.isEmpty, let ticks = ProcessDirectory.startTicks(pid: pid) else { continue }
            let process = ProcessIdentity(
                pid: pid,
                startBoottimeNanoseconds: ticks * (1_000_000_000 / ProcessDirectory.ticksPerSecond)
            )
            self.names[process] = ProcessDirectory.name(pid: pid)
            for inode in held { self.owners[inode] = process }
        }
    }

    func owner(ofInode inode: UInt32, uid: UInt32) -> OwnerObservation? {
        self.owners[inode].map { OwnerObservation(identity: $0, name: self.names[$0] ?? "", uid: uid) }
    }
}
