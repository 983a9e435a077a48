public import TrafficModel

/// Every byte between the calls and the interfaces' counters, by name. Part 03 of the design calls this conservation.
///
/// Decoded from the JSON of the control API. Only TrafficExport encodes it (`AuditReport.schema.json` there).
public struct AuditReport: Sendable, Decodable, Hashable {
    /// One line of a direction. The lines before a sum add up to that sum.
    public struct Line: Sendable, Codable, Hashable {
        public var line: AuditLine
        /// Signed: bytes that are subtracted are below 0.
        public var bytes: Int64

        public init(line: AuditLine, bytes: Int64) {
            self.line = line
            self.bytes = bytes
        }

        package enum CodingKeys: String, CodingKey {
            case line, bytes
        }
    }

    /// One account: of all sockets of the host, of a process, of one socket, or of an interface.
    public struct Section: Sendable, Decodable, Hashable {
        public enum Kind: String, Sendable, Codable, CaseIterable {
            case host, process, socket, interface
        }

        public var kind: Kind
        /// What the account is about: the name of the host or interface, a process's name and pid, or a socket's
        /// addresses.
        public var name: String
        public var sent: [Line]
        public var received: [Line]

        public init(kind: Kind, name: String, sent: [Line], received: [Line]) {
            self.kind = kind
            self.name = name
            self.sent = sent
            self.received = received
        }

        package enum CodingKeys: String, CodingKey {
            case kind, name, sent, received
        }
    }

    /// A socket whose witnesses disagree, with the number of each witness. `nil` means that the witness has no number.
    public struct Dispute: Sendable, Decodable, Hashable {
        public var cookie: SocketCookie
        public var name: String
        public var processes: [ProcessIdentity]
        public var direction: Direction
        public var payload: UInt64
        public var tcp: UInt64?
        public var wirePayload: UInt64?
        public var unexplained: Int64

        public enum Direction: String, Sendable, Codable {
            case sent, received
        }

        public init(
            cookie: SocketCookie,
            name: String,
            processes: [ProcessIdentity],
            direction: Direction,
            payload: UInt64,
            tcp: UInt64?,
            wirePayload: UInt64?,
            unexplained: Int64
        ) {
            self.cookie = cookie
            self.name = name
            self.processes = processes
            self.direction = direction
            self.payload = payload
            self.tcp = tcp
            self.wirePayload = wirePayload
            self.unexplained = unexplained
        }

        package enum CodingKeys: String, CodingKey {
            case cookie, name, processes, direction
            case payload = "payload_bytes"
            case tcp = "tcp_bytes"
            case wirePayload = "wire_payload_bytes"
            case unexplained = "unexplained_bytes"
        }
    }

    public var schemaVersion = Snapshot.currentSchemaVersion
    public var takenAt: Timestamp
    public var countingSince: Timestamp
    public var method: CaptureMethod
    public var sections: [Section]
    public var disputes: [Dispute]
    /// How many sockets have disputes. ``disputes`` lists both directions of the sockets that are still known.
    public var disputedSockets: Int
    /// The sum of the magnitudes of all unexplained lines. Must be 0.
    public var unexplained: UInt64
    /// Whether the capture counts packets at the interfaces (`--wire audited`). If not, the audit ends at the sockets.
    public var countsInterfaces: Bool

    public init(
        takenAt: Timestamp,
        countingSince: Timestamp,
        method: CaptureMethod,
        sections: [Section] = [],
        disputes: [Dispute] = [],
        disputedSockets: Int? = nil,
        unexplained: UInt64 = 0,
        countsInterfaces: Bool = true
    ) {
        self.takenAt = takenAt
        self.countingSince = countingSince
        self.method = method
        self.sections = sections
        self.disputes = disputes
        self.disputedSockets = disputedSockets ?? Self.sockets(of: disputes)
        self.unexplained = unexplained
        self.countsInterfaces = countsInterfaces
    }

    /// How many sockets have disputes that ``disputes`` does not list.
    public var unlistedDisputedSockets: Int { max(0, self.disputedSockets - Self.sockets(of: self.disputes)) }

    /// Accepted MPTCP sockets have their listener's cookie, so the name tells them apart.
    private static func sockets(of disputes: [Dispute]) -> Int {
        Set(disputes.map { [String($0.cookie.rawValue), $0.name] }).count
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case takenAt = "taken_at"
        case countingSince = "counting_since"
        case method, sections, disputes
        case disputedSockets = "dispute_count"
        case unexplained = "unexplained_bytes"
        case countsInterfaces = "counts_interfaces"
    }
}

/// The subject of an audit.
public enum AuditSubject: Sendable, Hashable {
    /// All sockets of all network namespaces, and every interface of the daemon's network namespace.
    case host
    /// One interface of the daemon's network namespace.
    case interface(String)
    /// All listed processes with that pid.
    case process(Int32)
    /// All listed sockets with that cookie.
    case socket(SocketCookie)
}

/// Why there is no audit.
public enum AuditError: Error, Hashable, Sendable, CustomStringConvertible {
    case noSuchInterface(String, known: [String])
    case noSuchProcess(Int32)
    case noSuchSocket(SocketCookie)
    /// The capture has not counted packets at this interface so far.
    case interfaceNotCounted(String)
    /// Only a reader who may see the sockets of all users may see the lines of the host and of interfaces.
    case onlyForAll

    public var description: String {
        switch self {
        case .noSuchInterface(let name, let known):
            "no interface \(name) in the daemon's network namespace; there are: \(known.joined(separator: ", "))"
        case .noSuchProcess(let pid): "no process \(pid) is listed that has used a socket"
        case .noSuchSocket(let cookie): "no socket \(cookie.rawValue) is listed; closed ones are for a few seconds"
        case .interfaceNotCounted(let name):
            "no packets counted at \(name) so far: trafficd has only just begun, or it does not count at interfaces; trafficd run --wire audited does, with any method but poll and lifecycle"
        case .onlyForAll:
            "only root (and the group trafficd, where there is one) may audit the host or an interface; ask for a process of yours"
        }
    }
}
