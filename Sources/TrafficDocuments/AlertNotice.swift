public import TrafficModel

/// Where a follower of alerts is: after this change.
public struct AlertPosition: Sendable, Hashable {
    /// Of one run of the daemon: 16 hexadecimal digits, drawn at its start. The next run numbers its changes anew.
    public var origin: String
    /// The first change has 1, and each has one more than the one before.
    public var number: UInt64

    public init(origin: String, number: UInt64) { (self.origin, self.number) = (origin, number) }

    /// Before the first change.
    ///
    /// - Parameter origin: A number that no other run of a daemon has. Of a replay, it is that of the recording.
    package init(origin: UInt64) {
        let digits = String(origin, radix: 16)
        self.init(origin: String(repeating: "0", count: 16 - digits.count) + digits, number: 0)
    }

    /// - Parameter text: As ``description`` writes it.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count == 16, parts[0].utf8.allSatisfy(Self.isDigit),
            parts[1].utf8.allSatisfy({ UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }), let number = UInt64(parts[1])
        else { return nil }
        self.init(origin: String(parts[0]), number: number)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte || UInt8(ascii: "a")...UInt8(ascii: "f") ~= byte
    }
}

extension AlertPosition: CustomStringConvertible {
    public var description: String { "\(self.origin)-\(self.number)" }
}

/// A change of an alert, as followers get it.
public struct AlertNotice: Sendable, Decodable, Hashable {
    public enum Change: String, Sendable, Codable, Hashable, CaseIterable {
        /// Nothing changed: a stream begins, and goes on after this position.
        case following
        case began
        /// An alert about bytes of a day or month reached its next step.
        case nextStep = "next_step"
        case ended
    }

    public var schemaVersion = Snapshot.currentSchemaVersion
    public var host: String
    public var position: AlertPosition
    public var at: Timestamp
    public var change: Change
    /// How many changes between the one before and this one the follower does not get, because too many came at once.
    public var droppedBefore: UInt64
    /// As it was then. `nil` of ``Change/following``.
    public var alert: Alert?

    public init(
        host: String,
        position: AlertPosition,
        at: Timestamp,
        change: Change,
        droppedBefore: UInt64 = 0,
        alert: Alert? = nil
    ) {
        (self.host, self.position, self.at) = (host, position, at)
        (self.change, self.droppedBefore, self.alert) = (change, droppedBefore, alert)
    }

    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        self.schemaVersion = try values.decode(Int.self, forKey: .schemaVersion)
        self.host = try values.decode(String.self, forKey: .host)
        self.position = AlertPosition(
            origin: try values.decode(String.self, forKey: .origin),
            number: try values.decode(UInt64.self, forKey: .number)
        )
        self.at = try values.decode(Timestamp.self, forKey: .at)
        self.change = try values.decode(Change.self, forKey: .change)
        self.droppedBefore = try values.decode(UInt64.self, forKey: .droppedBefore)
        self.alert = try values.decodeIfPresent(Alert.self, forKey: .alert)
    }

    package enum CodingKeys: String, CodingKey {
        case schemaVersion = "schema_version"
        case id, host, origin, number, at, change, alert
        case droppedBefore = "dropped_before"
    }
}
