public import TrafficModel

/// What `trafficgen` prints: the positive results of its own calls, for each socket and process.
public struct GeneratorResult: Sendable, Decodable {
    public enum Phase: String, Sendable, Decodable {
        /// The run is half done, and all processes wait.
        case paused
        /// The traffic is over. The sockets are still open where the generator was told to hold them.
        case finished
        /// Not possible on this machine, see ``GeneratorResult/reason``.
        case skipped
    }

    /// What one process moved through one socket.
    public struct Tally: Sendable, Decodable {
        public var cookie: UInt64
        public var pid: Int32
        public var startBoottimeTicks: UInt64
        public var transport: String
        public var family: String
        public var open: Bool
        /// `nil` for a process that inherited the socket.
        public var role: String?
        public var remote: Address?
        public var sent: UInt64
        public var received: UInt64
        /// Bytes of both directions that the process's reports explain.
        public var explained: UInt64
        /// How long the socket's one blocking `connect` took; `nil` where that was not measured.
        public var connectNanoseconds: UInt64?
        /// Whether the earlier result of ``GeneratorResult/growth(since:)`` already had this socket. Not printed.
        var isOlder = false

        enum CodingKeys: String, CodingKey {
            case cookie, pid
            case startBoottimeTicks = "start_boottime_ticks"
            case transport = "protocol"
            case family, open, role, remote, sent, received, explained
            case connectNanoseconds = "connect_ns"
        }
    }

    public struct Address: Sendable, Decodable {
        public var address: String
        public var port: UInt16
    }

    public struct Process: Sendable, Decodable {
        public var pid: Int32
        public var startBoottimeTicks: UInt64
        public var name: String
        /// Inode number of its `/proc/PID/ns/net`.
        public var networkNamespace: UInt32
        public var sent: UInt64
        public var received: UInt64
        public var explained: UInt64

        enum CodingKeys: String, CodingKey {
            case pid
            case startBoottimeTicks = "start_boottime_ticks"
            case name
            case networkNamespace = "network_namespace"
            case sent, received, explained
        }
    }

    /// What the daemon must decide about the records that it got.
    public struct Reports: Sendable, Decodable {
        public var joined: UInt64
        public var duplicate: UInt64
        public var foreign: UInt64
        public var impossible: UInt64

        public var rejected: UInt64 { self.duplicate + self.foreign + self.impossible }
    }

    public var scenario: String
    public var phase: Phase
    /// Whether the servers were in the peer's network namespace.
    public var acrossNamespaces: Bool
    public var reason: String?
    public var notes: String?
    public var clockTicksPerSecond: UInt64
    public var sockets: [Tally]
    public var processes: [Process]
    /// Cookies of sockets that must not be counted.
    public var excluded: [UInt64]
    public var reports: Reports

    /// What raw sockets of TCP's protocol number received: copies of the segments of TCP's own sockets.
    var copiedBytes: UInt64 {
        guard self.sockets.contains(where: { $0.transport == "tcp" }) else { return 0 }
        return self.sockets.reduce(0) { $1.transport == "raw" ? $0 + $1.received : $0 }
    }

    enum CodingKeys: String, CodingKey {
        case scenario, phase
        case acrossNamespaces = "across_namespaces"
        case reason, notes
        case clockTicksPerSecond = "clock_ticks_per_second"
        case sockets, processes, excluded, reports
    }

    public var bytes: UInt64 { self.processes.reduce(0) { $0 + $1.sent + $1.received } }

    /// Whether `identity`, which comes from the daemon, is the process with this pid and this start time (field 22 of
    /// `/proc/PID/stat`).
    public func isSame(_ identity: ProcessIdentity, pid: Int32, startTicks: UInt64) -> Bool {
        let nanosecondsPerTick = 1_000_000_000 / self.clockTicksPerSecond
        return identity.pid == pid && identity.startBoottimeNanoseconds / nanosecondsPerTick == startTicks
    }

    /// What was moved after `earlier`, a result of the same run.
    public func growth(since earlier: GeneratorResult) -> GeneratorResult {
        var growth = self
        for index in growth.sockets.indices {
            let tally = self.sockets[index]
            let before = earlier.sockets.first { $0.cookie == tally.cookie && $0.pid == tally.pid }
            growth.sockets[index].sent -= before?.sent ?? 0
            growth.sockets[index].received -= before?.received ?? 0
            growth.sockets[index].isOlder = before != nil
        }
        for index in growth.processes.indices {
            let before = earlier.processes.first { $0.pid == self.processes[index].pid }
            growth.processes[index].sent -= before?.sent ?? 0
            growth.processes[index].received -= before?.received ?? 0
        }
        return growth
    }
}
