/// Processes that form one service. A number for an endpoint is the sum over these processes, whatever their pids are.
public struct ProcessGroup: Sendable, Codable, Hashable {
    public var name: String
    public var executable: String?
    public var systemdUnit: String?
    /// The user who owns the processes, and so may see what they do. `nil` for processes of several users.
    public var uid: UInt32?

    public init(name: String, executable: String? = nil, systemdUnit: String? = nil, uid: UInt32? = nil) {
        self.name = name
        self.executable = executable
        self.systemdUnit = systemdUnit
        self.uid = uid
    }

    public init(_ details: ProcessDetails) {
        self.init(
            name: details.name,
            executable: details.executable,
            systemdUnit: details.systemdUnit,
            uid: details.uid
        )
    }

    /// The group in which everything beyond a limit adds up.
    public static let other = ProcessGroup(name: EndpointUsage.other)

    package enum CodingKeys: String, CodingKey {
        case name, executable
        case systemdUnit = "systemd_unit"
        case uid
    }
}

/// Whether a process is the HTTP client or the HTTP server of its connections.
public enum EndpointRole: String, Sendable, Codable, CaseIterable {
    case client, server
}

/// A version of HTTP. Raw values are those of OpenTelemetry's `network.protocol.version`.
public enum HTTPVersion: String, Sendable, Codable, CaseIterable {
    case http1_0 = "1.0"
    case http1_1 = "1.1"
    case http2 = "2"
    case http3 = "3"
}

/// How an exchange ended. `cancelled` is the program's own decision, and not a failure.
public enum ExchangeOutcome: String, Sendable, Codable, CaseIterable {
    case ok
    case http4xx = "http_4xx"
    case http5xx = "http_5xx"
    case dns, refused, reset, timeout, tls, truncated, cancelled
    /// The library does not say.
    case unknown

    public var isFailure: Bool {
        switch self {
        case .ok, .cancelled, .unknown: false
        default: true
        }
    }
}

/// How a number about an exchange was found, best first.
public enum JoinQuality: String, Sendable, Codable, CaseIterable, Comparable {
    /// Counted where the bytes pass, and not more than the kernel's own count of the socket.
    case exact
    /// Worked out from related numbers: the socket's counters before and after, a port, a time.
    case inferred
    /// Computed with a formula.
    case estimated

    private var rank: Int {
        switch self {
        case .exact: 0
        case .inferred: 1
        case .estimated: 2
        }
    }

    public static func < (left: JoinQuality, right: JoinQuality) -> Bool { left.rank < right.rank }
}

/// The kind of a body, by its `Content-Type`.
public enum ContentClass: String, Sendable, Codable, CaseIterable {
    case none, json, html, image, script, stream, form, text, other, unknown
}

/// The phases of an exchange, in their order.
public enum ExchangePhase: String, Sendable, Codable, CaseIterable {
    case dns, connect, tls, send, wait, receive
}
