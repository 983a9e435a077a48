/// How well the daemon counts here, why, and what would make it better.
///
/// Decoded from the JSON of the control API; TrafficExport is its one encoder (`DoctorReport.schema.json` there).
public struct DoctorReport: Sendable, Decodable, Hashable {
    /// Worst last.
    public enum Status: String, Sendable, Codable, CaseIterable, Comparable {
        case ok
        /// Works, with less than the best: the detail says what is missed.
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

    /// One thing that was looked at.
    public struct Check: Sendable, Decodable, Hashable {
        /// What was looked at, in a few words: the same at every start, so that it can be searched for.
        public var name: String
        public var status: Status
        /// What was found, one sentence.
        public var detail: String
        /// What to do about it. `nil` where nothing needs to be or can be done.
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
    /// Measured for this report alone. `nil` where nobody asked for it.
    public var cost: CaptureCost?

    public init(
        capture: CaptureStatus,
        daemon: DaemonDescription,
        host: HostDescription,
        checks: [Check],
        cost: CaptureCost? = nil
    ) {
        self.capture = capture
        self.daemon = daemon
        self.host = host
        self.checks = checks
        self.cost = cost
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case capture, daemon, host, checks, cost
    }

    /// The worst of the checks.
    public var status: Status {
        self.checks.map(\.status).max() ?? .ok
    }
}
