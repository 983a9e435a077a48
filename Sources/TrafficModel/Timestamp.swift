public import FoundationEssentials

/// A point of wall-clock time, in nanoseconds since 1970-01-01T00:00:00Z without leap seconds (POSIX).
///
/// In JSON: an RFC 3339 text in UTC with a millisecond fraction.
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
    private static let wholeSeconds = Date.ISO8601FormatStyle()
}

extension Timestamp {
    /// ``description`` in ASCII: `2026-11-19T07:21:16.123Z`. Fractions of a millisecond are cut off.
    ///
    /// Computed with integers alone (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`).
    /// A `Date` would print every second time one millisecond too early, because its `Double` is often just below the
    /// millisecond meant.
    package var ascii: InlineArray<24, UInt8> {
        let (days, nanoseconds) = Self.floorDivide(self.nanosecondsSinceEpoch, by: 86_400_000_000_000)
        let (year, month, day) = Self.civilDate(daysSinceEpoch: days)
        let milliseconds = nanoseconds / 1_000_000
        var text: InlineArray<24, UInt8> = .init(repeating: UInt8(ascii: "Z"))
        func put(_ value: Int64, at start: Int, digits: Int, before separator: Unicode.Scalar) {
            var rest = value
            for index in stride(from: start + digits - 1, through: start, by: -1) {
                text[index] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
                rest /= 10
            }
            text[start + digits] = UInt8(ascii: separator)
        }
        put(year, at: 0, digits: 4, before: "-")
        put(month, at: 5, digits: 2, before: "-")
        put(day, at: 8, digits: 2, before: "T")
        put(milliseconds / 3_600_000, at: 11, digits: 2, before: ":")
        put(milliseconds / 60_000 % 60, at: 14, digits: 2, before: ":")
        put(milliseconds / 1000 % 60, at: 17, digits: 2, before: ".")
        put(milliseconds % 1000, at: 20, digits: 3, before: "Z")
        return text
    }

    private static func floorDivide(_ value: Int64, by divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// Proleptic Gregorian date. Years begin in March here, so that the leap day is a year's last; an era is 400 years.
    private static func civilDate(daysSinceEpoch: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = Self.floorDivide(daysSinceEpoch + 719_468, by: 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }
}

extension Timestamp: Codable, CustomStringConvertible {
    public var description: String {
        let ascii = self.ascii
        return String(decoding: ascii.indices.map { ascii[$0] }, as: UTF8.self)
    }

    /// - Throws: `DecodingError.dataCorrupted` for a text that is not RFC 3339.
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let time = Timestamp(rfc3339: text) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not an RFC 3339 time: \(text)")
        }
        self = time
    }

    /// With or without a fraction of a second; rounded to milliseconds.
    package init?(rfc3339 text: String) {
        guard let date = (try? Self.format.parse(text)) ?? (try? Self.wholeSeconds.parse(text)),
            let milliseconds = Int64(exactly: (date.timeIntervalSince1970 * 1e3).rounded())
        else { return nil }
        self.init(nanosecondsSinceEpoch: milliseconds *| 1_000_000)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}
