/// What tells the points of a family apart: labels for Prometheus, attributes for OpenTelemetry. Made once and then used
/// for many points.
package struct MetricLabels: Sendable, ExpressibleByDictionaryLiteral {
    package typealias Pair = (name: String, value: String)

    /// With the names of OpenTelemetry: `process.executable.name`.
    private var pairs: [Pair] = []
    private var resourceCount = 0
    /// What was counted.
    package var resource: ArraySlice<Pair> { self.pairs.prefix(self.resourceCount) }
    /// How it was counted.
    package var attributes: ArraySlice<Pair> { self.pairs.dropFirst(self.resourceCount) }
    /// As both text formats write them between the braces.
    private(set) var text: [UInt8] = []

    package init(dictionaryLiteral pairs: (String, String)...) {
        for (name, value) in pairs { self.add(name, value) }
    }

    /// A label without a value is the same as none, and is left out.
    mutating func add(_ name: String, _ value: String) {
        guard !value.isEmpty else { return }
        self.pairs.append((name, value))
        if !self.text.isEmpty { self.text.append(UInt8(ascii: ",")) }
        for byte in name.utf8 { self.text.append(byte == UInt8(ascii: ".") ? UInt8(ascii: "_") : byte) }
        self.text += [UInt8(ascii: "="), UInt8(ascii: "\"")]
        for byte in value.utf8 {
            switch byte {
            case UInt8(ascii: "\\"), UInt8(ascii: "\""): self.text += [UInt8(ascii: "\\"), byte]
            case UInt8(ascii: "\n"): self.text += [UInt8(ascii: "\\"), UInt8(ascii: "n")]
            default: self.text.append(byte)
            }
        }
        self.text.append(UInt8(ascii: "\""))
    }

    /// The labels so far are those of the resource.
    func asResource() -> MetricLabels {
        var labels = self
        labels.resourceCount = labels.pairs.count
        return labels
    }

    func with(_ name: String, _ value: String) -> MetricLabels {
        var labels = self
        labels.add(name, value)
        return labels
    }
}
