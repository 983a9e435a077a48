public import ArgumentParser

/// A time with its unit, as on the command line: `500ms`, `10s`, `5m`, `1h30m`, `7d`, `2w`. A number alone is seconds.
public struct TimeSpan: ExpressibleByArgument, Hashable, Sendable, CustomStringConvertible {
    /// Not negative, and finite.
    public let seconds: Double

    public init(seconds: Double) {
        self.seconds = seconds
    }

    /// The units with their seconds, the largest first.
    private static let units: [(name: String, seconds: Double)] = [
        ("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1), ("ms", 0.001),
    ]

    public init?(argument: String) {
        if let seconds = Self.number(argument[...]) {
            self.seconds = seconds
            return
        }
        var rest = argument[...]
        var (sum, least) = (0.0, Double.infinity)
        while !rest.isEmpty {
            let digits = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            rest = rest[digits.endIndex...]
            let letters = rest.prefix { $0.isLetter }
            rest = rest[letters.endIndex...]
            // Each unit may come once, and the larger unit comes first: 1h30m and not 30m1h.
            guard let number = Self.number(digits), let unit = Self.units.first(where: { $0.name == letters }),
                unit.seconds < least
            else { return nil }
            sum += number * unit.seconds
            least = unit.seconds
        }
        guard !argument.isEmpty else { return nil }
        self.seconds = sum
    }

    private static func number(_ text: Substring) -> Double? {
        guard text.first?.isNumber == true, text.allSatisfy({ $0.isASCII && ($0.isNumber || $0 == ".") }) else {
            return nil
        }
        return Double(text)
    }

    public var duration: Duration { .seconds(self.seconds) }

    /// The largest unit up to days that has no fraction: `1s`, `5m`, `90s`, `100ms`.
    public var description: String {
        guard self.seconds > 0 else { return "0s" }
        // People say 14d and 62d.
        for unit in Self.units.dropFirst() {
            let count = self.seconds / unit.seconds
            if count >= 1, count == count.rounded() { return "\(Int(count))\(unit.name)" }
        }
        return "\(self.seconds)s"
    }

    public var defaultValueDescription: String { self.description }
}

extension TimeSpan {
    /// - Throws: `ValidationError` that names the option and the range of its values.
    public func check(_ option: String, within range: ClosedRange<TimeSpan>) throws {
        guard range.contains(self) else {
            throw ValidationError("\(option) must be between \(range.lowerBound) and \(range.upperBound).")
        }
    }
}

extension TimeSpan: Comparable {
    public static func < (left: TimeSpan, right: TimeSpan) -> Bool { left.seconds < right.seconds }
}
