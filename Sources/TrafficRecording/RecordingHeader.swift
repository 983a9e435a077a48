package import TrafficModel

/// The first line of a recording: what it is, and how it was made.
package struct RecordingHeader: Codable, Sendable, Hashable {
    package static let format = "trafficctl recording"
    /// Rises when an older trafficctl could misunderstand a file. A new field is no such reason: readers skip it.
    package static let currentVersion = 1

    /// The host, redacted if the recording is.
    package struct Host: Codable, Sendable, Hashable {
        package var name: String
        package var kernel: String
        package var method: CaptureMethod?
    }

    package var format = RecordingHeader.format
    package var version = RecordingHeader.currentVersion
    package var trafficctl = TrafficVersion.current
    package var schemaVersion = Snapshot.currentSchemaVersion
    package var startedAt: Timestamp
    /// Seconds between two snapshots, as asked for.
    package var interval: Double
    package var redacted: Bool
    /// Only what passes a filter is in it. The filter is not, because its words may be names.
    package var filtered: Bool
    /// `nil` if no snapshot came.
    package var host: Host?

    /// - Parameter snapshot: The first one, redacted if the recording is; `nil` if none came.
    package init(startedAt: Timestamp, interval: Double, redacted: Bool, filtered: Bool, snapshot: Snapshot?) {
        (self.startedAt, self.interval) = (startedAt, interval)
        (self.redacted, self.filtered) = (redacted, filtered)
        self.host = snapshot.map {
            Host(name: $0.host.name, kernel: $0.host.kernel, method: $0.capture.method)
        }
    }

    enum CodingKeys: String, CodingKey {
        case format, version, trafficctl
        case schemaVersion = "schema_version"
        case startedAt = "started_at"
        case interval = "interval_seconds"
        case redacted, filtered, host
    }

    /// What every version has.
    struct Beginning: Decodable {
        var format: String
        var version: Int
        var trafficctl: String?
    }
}

/// The last line of a recording.
struct RecordingEnd: Codable {
    var snapshots: Int

    enum CodingKeys: String, CodingKey {
        case snapshots = "recorded_snapshots"
    }

    /// With what such a line begins.
    static let beginning = Array(#"{"recorded_snapshots":"#.utf8)
}
