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

    /// How much of something the daemon or its programs in the kernel keep. What exceeds a limit costs detail, in most
    /// cases only that user's, and no byte unless ``beyond`` says so.
    public struct Limit: Sendable, Decodable, Hashable {
        /// What is limited, in a few words.
        public var of: String
        /// The most for one process, for one user, and for all together. `nil` where there is no such limit.
        public var process: UInt64?
        public var user: UInt64?
        public var all: UInt64?
        /// What becomes of what exceeds the limit.
        public var beyond: String

        package init(of: String, process: Int? = nil, user: Int? = nil, all: Int? = nil, beyond: String) {
            self.of = of
            self.process = process.map { UInt64(clamping: $0) }
            self.user = user.map { UInt64(clamping: $0) }
            self.all = all.map { UInt64(clamping: $0) }
            self.beyond = beyond
        }

        package enum CodingKeys: String, CodingKey {
            case of, process, user, all, beyond
        }
    }

    public var schemaVersion = Snapshot.currentSchemaVersion
    public var capture: CaptureStatus
    public var daemon: DaemonDescription
    public var host: HostDescription
    public var checks: [Check]
    /// `nil` from a daemon that tells no limits.
    public var limits: [Limit]?
    /// Measured for this report alone. `nil` if the caller did not ask for it.
    public var cost: CaptureCost?

    public init(
        capture: CaptureStatus,
        daemon: DaemonDescription,
        host: HostDescription,
        checks: [Check],
        limits: [Limit]? = nil,
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
