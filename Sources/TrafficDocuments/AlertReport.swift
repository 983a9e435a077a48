public import TrafficModel

/// The alerts in force.
public struct AlertReport: Sendable, Decodable, Hashable {
    public var schemaVersion = Snapshot.currentSchemaVersion
    public var host: String
    public var takenAt: Timestamp
    /// How many rules there are.
    public var rules: Int
    /// The oldest first.
    public var alerts: [Alert]

    public init(host: String, takenAt: Timestamp, rules: Int = 0, alerts: [Alert] = []) {
        (self.host, self.takenAt) = (host, takenAt)
        (self.rules, self.alerts) = (rules, alerts)
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case host
        case takenAt = "taken_at"
        case rules = "rule_count"
        case alerts
    }
}

/// What a rule is about.
public enum AlertKind: String, Sendable, Codable, Hashable, CaseIterable {
    case rate, bytes
    case requestsEvery = "requests_every"
    case requestsGrowing = "requests_growing"
    case requestsOverPast = "requests_over_past"
    case failures, repeated
    case newDestination = "new_destination"
}

/// A rule that something breaks at this time.
public struct Alert: Sendable, Decodable, Hashable {
    public var rule: String
    public var kind: AlertKind
    /// Whom the rule is about, in its own terms. `nil`: everything.
    public var match: String?
    /// Who breaks it. `nil`: all processes of the rule together.
    public var process: ProcessGroup?
    /// The name of its user when the alert was last judged. `nil` if that is not known.
    public var user: String?
    /// With which endpoint. `nil` for alerts about bytes.
    public var role: EndpointRole?
    public var host: String?
    public var route: String?
    /// Of ``AlertKind/newDestination``: as ``Contact/destination``, or `_other`.
    public var destination: String?
    /// When it began: the beginning of the time that was judged. Of ``AlertKind/bytes``, that of the day or month.
    public var since: Timestamp
    /// Payload since then; of an endpoint, bytes of messages.
    public var bytes: UInt64
    /// The numbers of the time that was judged last, or of the last one that broke the rule if the alert ended; of
    /// ``AlertKind/newDestination``, of the time since the alert began.
    public var bytesPerSecond: Double
    public var requestsPerSecond: Double?
    /// Of ``AlertKind/requestsOverPast``: the most of an hour before.
    public var pastRequestsPerSecond: Double?
    /// Failed exchanges in 1 that ended.
    public var failedShare: Double?
    /// Exchanges with the same response as the one before, in 1 that ended.
    public var repeatedShare: Double?
    /// Of ``AlertKind/bytes``: the allowed bytes, the highest step of them that was reached (1: all of them), and the bytes
    /// at the end of the day or month if it goes on as before, once an hour was counted.
    public var limitBytes: UInt64?
    public var stepRatio: Double?
    public var projectedBytes: UInt64?

    public init(
        rule: String,
        kind: AlertKind,
        match: String? = nil,
        process: ProcessGroup? = nil,
        user: String? = nil,
        role: EndpointRole? = nil,
        host: String? = nil,
        route: String? = nil,
        destination: String? = nil,
        since: Timestamp,
        bytes: UInt64 = 0,
        bytesPerSecond: Double = 0,
        requestsPerSecond: Double? = nil,
        pastRequestsPerSecond: Double? = nil,
        failedShare: Double? = nil,
        repeatedShare: Double? = nil,
        limitBytes: UInt64? = nil,
        stepRatio: Double? = nil,
        projectedBytes: UInt64? = nil
    ) {
        (self.rule, self.kind, self.match, self.since) = (rule, kind, match, since)
        (self.process, self.user, self.role, self.host, self.route) = (process, user, role, host, route)
        (self.destination, self.bytes, self.bytesPerSecond) = (destination, bytes, bytesPerSecond)
        (self.requestsPerSecond, self.pastRequestsPerSecond) = (requestsPerSecond, pastRequestsPerSecond)
        (self.failedShare, self.repeatedShare) = (failedShare, repeatedShare)
        (self.limitBytes, self.stepRatio, self.projectedBytes) = (limitBytes, stepRatio, projectedBytes)
    }

    /// What 30 days at this rate would be.
    public var monthBytes: UInt64 { UInt64(min(max(0, self.bytesPerSecond) * 2_592_000, 0x1p63)) }

    package enum CodingKeys: String, CodingKey {
        case rule, kind, match, process, user, role, host, route, destination, since, bytes
        case bytesPerSecond = "bytes_per_second"
        case requestsPerSecond = "requests_per_second"
        case pastRequestsPerSecond = "past_requests_per_second"
        case failedShare = "failed_ratio"
        case repeatedShare = "repeated_ratio"
        case limitBytes = "limit_bytes"
        case stepRatio = "step_ratio"
        case projectedBytes = "projected_bytes"
    }

    /// The keys of what is computed from the others.
    package enum ComputedKeys: String, CodingKey {
        case monthBytes = "bytes_per_30_days"
    }
}

extension Alert {
    /// One line for the log. What programs named themselves has no control characters in it.
    public var description: String { self.text(inBits: false) }

    /// ``description``, with all amounts in bytes or in bits.
    public func text(inBits: Bool) -> String {
        let (factor, unit, short) = inBits ? (UInt64(8), "bits", "Gbit") : (1, "bytes", "GB")
        let amount = { (bytes: UInt64) in bytes *| factor }
        var text = self.rule
        if let process {
            text += ": \(process.name)" + ((self.user ?? process.uid.map { String($0) }).map { " of user \($0)" } ?? "")
        } else if let match {
            text += " of '\(match)'"
        }
        if let role, let host, let route { text += " as \(role.rawValue) of \(host) \(route)" }
        if let destination { text += " to \(destination)" }
        text += " since \(self.since): \(amount(self.bytes)) \(unit) so far"
        if let share = self.failedShare { text += ", \(Self.decimal(100 * share)) % failed" }
        if let share = self.repeatedShare { text += ", \(Self.decimal(100 * share)) % repeated" }
        if let rate = self.requestsPerSecond { text += ", \(Self.decimal(60 * rate)) requests a minute" }
        if let rate = self.pastRequestsPerSecond { text += ", at most \(Self.decimal(60 * rate)) a minute before" }
        if let limitBytes, let stepRatio {
            text += ", \(UInt64(min(max(0, 100 * stepRatio).rounded(), 0x1p63))) % of \(amount(limitBytes)) reached"
        }
        if let projectedBytes { text += ", \(amount(projectedBytes)) at the end if it goes on" }
        let rate = Self.decimal(self.bytesPerSecond * Double(factor))
        let month = Self.decimal(Double(self.monthBytes) * Double(factor) / 1e9)
        return (text + ", \(rate) \(unit)/s, \(month) \(short) in 30 days at this rate").printable
    }

    /// One digit after the point.
    private static func decimal(_ number: Double) -> String {
        let tenths = UInt64(min(max(0, number * 10).rounded(), 0x1p63))
        return "\(tenths / 10).\(tenths % 10)"
    }
}
