/// A number as people write it, with a prefix: `1500`, `10k`, `1.5M`, `2Gi`.
public enum Amount {
    private static let powers: [String: (base: Double, exponent: Int)] = [
        "": (1, 0), "k": (1000, 1), "m": (1000, 2), "g": (1000, 3), "t": (1000, 4),
        "ki": (1024, 1), "mi": (1024, 2), "gi": (1024, 3), "ti": (1024, 4),
    ]

    /// - Parameters:
    ///   - text: A decimal number, with or without a fraction, and a prefix: k, M, G, T, Ki, Mi, Gi, Ti in any case.
    ///   - unit: Lower-case letters that may follow.
    /// - Returns: `nil` for any other text.
    public static func number(_ text: String, unit: String) -> Double? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        var prefix = text.dropFirst(digits.count).lowercased()
        if prefix.hasSuffix(unit) { prefix.removeLast(unit.count) }
        guard let number = Double(digits), let power = Self.powers[prefix] else { return nil }
        return (0..<power.exponent).reduce(number) { number, _ in number * power.base }
    }
}
