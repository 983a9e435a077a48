/// Numbers for people. All prefixes are decimal: 1 kB is 1,000 bytes, as in link speeds and bills.
public enum Units: String, Sendable, Hashable, CaseIterable, Codable {
    case bytes, bits

    private var multiplier: Double { self == .bits ? 8 : 1 }
    private var name: String { self == .bits ? "bit" : "B" }
    private var longestUnit: Int { self == .bits ? 4 : 2 }

    /// Cells that every ``amount(_:)-(UInt64)`` takes: four for the number, a space, the unit.
    public var width: Int { 4 + 1 + self.longestUnit }

    /// Three significant digits, aligned for a column: ` 1.23 MB`, `  12 B `.
    public func amount(_ bytes: UInt64) -> String {
        self.amount(Double(bytes))
    }

    /// The same for a rate in bytes per second. The column's title must name the unit of time.
    public func amount(_ bytes: Double) -> String {
        let (number, unit) = Self.scaled(bytes * self.multiplier)
        let padding = String(repeating: " ", count: max(0, 4 - number.utf8.count))
        let name = unit + self.name
        return padding + number + " " + name + String(repeating: " ", count: max(0, self.longestUnit - name.utf8.count))
    }

    /// `1.23 MB` without padding, for running text.
    public func text(_ bytes: UInt64) -> String {
        let (number, unit) = Self.scaled(Double(bytes) * self.multiplier)
        return number + " " + unit + self.name
    }

    /// `1.23 MB/s` without padding, for running text.
    ///
    /// - Parameter bytesPerSecond: A negative or not finite rate prints as 0.
    public func rate(_ bytesPerSecond: Double) -> String {
        let (number, unit) = Self.scaled(bytesPerSecond * self.multiplier)
        return number + " " + unit + self.name + "/s"
    }

    /// `1.23M`, without a unit, for places with little room.
    public func short(_ bytes: Double) -> String {
        let (number, unit) = Self.scaled(bytes * self.multiplier)
        return number + unit
    }

    private static let prefixes = ["", "k", "M", "G", "T", "P", "E", "Z"]

    private static func scaled(_ value: Double) -> (number: String, prefix: String) {
        var value = value.isFinite ? max(0, value) : 0
        var step = 0
        // 999.5 would print as "1000", which is one digit too wide, so 999.5 becomes 1.00 of the next prefix.
        while value >= 999.5, step < Self.prefixes.count - 1 {
            value /= 1000
            step += 1
        }
        let decimals = step == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2
        return (Self.fixed(value, decimals: decimals), Self.prefixes[step])
    }

    /// - Parameter value: 0 and more. Beyond 4 * 10^18 it prints as that, because another machine may send any number.
    static func fixed(_ value: Double, decimals: Int) -> String {
        var scale = 1
        for _ in 0..<decimals { scale *= 10 }
        let scaled = Int(min(max(0, value * Double(scale)), 0x1p62).rounded())
        guard decimals > 0 else { return String(scaled) }
        let fraction = String(scaled % scale)
        return "\(scaled / scale)." + String(repeating: "0", count: decimals - fraction.utf8.count) + fraction
    }
}

/// Times for people, in at most seven cells.
public enum TimeText {
    /// The two largest units: `12s`, `3m 12s`, `2h 05m`, `4d 3h`, `1234d`.
    ///
    /// - Parameter seconds: A negative or not finite time prints as `0s`.
    public static func duration(seconds: Double) -> String {
        let seconds = seconds.isFinite ? Int(min(max(0, seconds), 1e12)) : 0
        let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400)
        func two(_ value: Int) -> String { value < 10 ? "0\(value)" : "\(value)" }
        if minutes == 0 { return "\(seconds)s" }
        if hours == 0 { return "\(minutes)m \(two(seconds % 60))s" }
        if days == 0 { return "\(hours)h \(two(minutes % 60))m" }
        return days < 100 ? "\(days)d \(hours % 24)h" : "\(days)d"
    }

    /// `0.4`, without the unit.
    ///
    /// - Parameter seconds: From 0 to 10^12.
    public static func seconds(_ seconds: Double) -> String { Units.fixed(seconds, decimals: 1) }

    /// A round-trip time: `85 us`, `1.20 ms`, `340 ms`, `12.0 s`.
    public static func roundTrip(microseconds: UInt64) -> String {
        switch Double(microseconds) {
        case ..<999.5: "\(microseconds) us"
        case ..<9_995: Units.fixed(Double(microseconds) / 1e3, decimals: 2) + " ms"
        case ..<99_950: Units.fixed(Double(microseconds) / 1e3, decimals: 1) + " ms"
        case ..<999_500: Units.fixed(Double(microseconds) / 1e3, decimals: 0) + " ms"
        case ..<99_950_000: Units.fixed(Double(microseconds) / 1e6, decimals: 1) + " s"
        default: "\(min(microseconds, 9_999_000_000) / 1_000_000) s"
        }
    }

    /// The same in at most five cells: `85us`, `1.2ms`, `340ms`, `12s`.
    static func shortRoundTrip(microseconds: UInt64) -> String {
        switch Double(microseconds) {
        case ..<999.5: "\(microseconds)us"
        case ..<9_950: Units.fixed(Double(microseconds) / 1e3, decimals: 1) + "ms"
        case ..<999_500: Units.fixed(Double(microseconds) / 1e3, decimals: 0) + "ms"
        default: Units.fixed(Double(min(microseconds, 9_999_000_000)) / 1e6, decimals: 0) + "s"
        }
    }

    /// At most four cells: `9999`, `12k`, `3M`.
    static func count(_ value: Int) -> String {
        switch value {
        case ..<10_000: "\(value)"
        case ..<1_000_000: "\(value / 1000)k"
        default: "\(value / 1_000_000)M"
        }
    }

    /// `1,234,567`: digits in threes, for numbers that must be exact.
    public static func grouped(_ value: UInt64) -> String {
        var digits = Array(String(value))
        var position = digits.count - 3
        while position > 0 {
            digits.insert(",", at: position)
            position -= 3
        }
        return String(digits)
    }
}
