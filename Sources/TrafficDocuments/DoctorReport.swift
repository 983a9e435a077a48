public import TrafficLimits
public import TrafficModel

/// How well the daemon counts on this machine, why, and what would improve it.
///
/// Decoded from the JSON of the control API. Only TrafficExport encodes it (`DoctorReport.schema.json` there).
public struct DoctorReport: Sendable, Decodable, Hashable {
    /// Worst last.
    public enum Status: String, Sendable, Codable, CaseIterable, Comparable {
        case ok
        /// Works, but not as well as possible: the detail says what is missing.
        case degraded
        case failed

        public static func < (left: Status, right: Status) -> Bool {
            left.severity < right.severity
        }

        private var severity: Int {
            switch self {
            case .ok: 0
            case .degraded: 1
            case .failed: 2
            }
        }
    }

    /// One check that the daemon made.
    public struct Check: Sendable, Decodable, Hashable {
        /// What was checked, in a few words. The name is the same at every start, so that a user can search for it.
        public var name: String
        public var status: Status
        /// What was found, one sentence.
        public var detail: String
        /// What the user can do about it. `nil` if there is nothing to do, or nothing that helps.
        public var remedy: String?

        public init(name: String, status: Status, detail: String, remedy: String? = nil) {
            self.name = name
            self.status = status
            self.detail = detail
            self.remedy = remedy
        }

        package enum CodingKeys: String, CodingKey {
            case name, status, detail, remedy
        }
    }

    public var schemaVersion = Snapshot.currentSchemaVersion
    public var capture: CaptureStatus
    public var daemon: DaemonDescription
    public var host: HostDescription
    public var checks: [Check]
    /// `nil` from a daemon that tells no limits.
    public var limits: [StatedLimit]?
    /// Measured for this report alone. `nil` if the caller did not ask for it.
    public var cost: CaptureCost?

    public init(
        capture: CaptureStatus,
        daemon: DaemonDescription,
        host: HostDescription,
        checks: [Check],
        limits: [StatedLimit]? = nil,
        cost: CaptureCost? = nil
    ) {
        self.capture = capture
        self.daemon = daemon
        self.host = host
        self.checks = checks
        self.limits = limits
        self.cost = cost
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case capture, daemon, host, checks, limits, cost
    }

    /// The worst status of all checks.
    public var status: Status {
        self.checks.map(\.status).max() ?? .ok
    }
}
