/// The labels of a series, as both formats write them between the braces. Made once and then used in many lines.
struct MetricLabels: ExpressibleByDictionaryLiteral {
    private(set) var bytes: [UInt8] = []

    init(dictionaryLiteral pairs: (String, String)...) {
        for (name, value) in pairs { self.add(name, value) }
    }

    /// A label without a value is the same as none, and is left out.
    mutating func add(_ name: String, _ value: String) {
        guard !value.isEmpty else { return }
        if !self.bytes.isEmpty { self.bytes.append(UInt8(ascii: ",")) }
        self.bytes += name.utf8
        self.bytes += [UInt8(ascii: "="), UInt8(ascii: "\"")]
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: "\\"), UInt8(ascii: "\""): self.bytes += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): self.bytes += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
            default: self.bytes.append(byte)
            }
        }
        self.bytes.append(UInt8(ascii: "\""))
    }

    func with(_ name: String, _ value: String) -> MetricLabels {
        var labels = self
        labels.add(name, value)
        return labels
    }
}
