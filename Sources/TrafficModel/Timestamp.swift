public import FoundationEssentials

/// A point of wall-clock time, in nanoseconds since 1970-01-01T00:00:00Z without leap seconds (POSIX).
///
/// In JSON an RFC 3339 text in UTC with millisecond fraction.
public struct Timestamp: Hashable, Sendable, Comparable {
    public var nanosecondsSinceEpoch: Int64

    public init(nanosecondsSinceEpoch: Int64) {
        self.nanosecondsSinceEpoch = nanosecondsSinceEpoch
    }

    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.nanosecondsSinceEpoch < right.nanosecondsSinceEpoch
    }

    public var date: Date {
        Date(timeIntervalSince1970: Double(self.nanosecondsSinceEpoch) / 1e9)
    }

    private static let format = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
}

extension Timestamp: Codable, CustomStringConvertible {
    public var description: String {
        Self.format.format(self.date)
    }

    /// - Throws: `DecodingError.dataCorrupted` for a text that is not RFC 3339.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let date = try? Self.format.parse(text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an RFC 3339 time: \(text)")
        }
        self.init(nanosecondsSinceEpoch: Int64((date.timeIntervalSince1970 * 1e3).rounded()) * 1_000_000)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}
