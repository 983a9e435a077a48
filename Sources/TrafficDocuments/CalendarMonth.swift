import TrafficModel

/// A month as people write it: `2026-11`.
public struct CalendarMonth: Sendable, Hashable, Comparable, LosslessStringConvertible {
    public let year: Int
    /// From 1 to 12.
    public let month: Int

    /// - Parameters:
    ///   - year: From 1970 to 9999.
    ///   - month: From 1 to 12.
    public init?(year: Int, month: Int) {
        guard 1970...9999 ~= year, 1...12 ~= month else { return nil }
        (self.year, self.month) = (year, month)
    }

    public init?(_ description: String) {
        let parts = description.split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.utf8.count) == [4, 2],
            parts.allSatisfy({ $0.utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } }),
            let year = Int(parts[0]), let month = Int(parts[1])
        else { return nil }
        self.init(year: year, month: month)
    }

    public var description: String { "\(self.year)-\(self.month < 10 ? "0" : "")\(self.month)" }

    public static func < (left: CalendarMonth, right: CalendarMonth) -> Bool {
        (left.year, left.month) < (right.year, right.month)
    }
}

extension CalendarMonth: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        guard let month = Self(try container.decode(String.self)) else {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: "not a month such as 2026-11")
        }
        self = month
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(self.description)
    }
}
