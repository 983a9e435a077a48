/// The last rates of one row, oldest first, in bytes per second.
struct RateHistory: Sendable, Hashable {
    static let length = 60
    private(set) var samples: [Float] = []

    mutating func append(_ rate: Double) {
        if self.samples.count == Self.length { self.samples.removeFirst() }
        self.samples.append(Float(rate))
    }

    /// Adds a history that ends at the same moment.
    mutating func add(_ other: RateHistory) {
        let missing = other.samples.count - self.samples.count
        if missing > 0 { self.samples.insert(contentsOf: repeatElement(0, count: missing), at: 0) }
        let offset = self.samples.count - other.samples.count
        for (index, sample) in other.samples.enumerated() { self.samples[offset + index] += sample }
    }

    /// Whether all samples are 0.
    var isIdle: Bool { self.samples.allSatisfy { $0 <= 0 } }

    /// Draws the newest samples in `width` cells, the newest at the right. The scale is linear, up to `peak` or to the
    /// largest sample shown.
    ///
    /// A blank is a time before the first sample, and the lowest step is no traffic. The least traffic shows as the
    /// second step.
    func sparkline(width: Int, typeface: Typeface, peak: Float? = nil) -> String {
        let shown = self.samples.suffix(max(0, width))
        let ramp = typeface.ramp
        let peak = max(peak ?? shown.max() ?? 0, 1)
        var text = String(repeating: " ", count: max(0, width - shown.count))
        for sample in shown {
            let step = sample <= 0 ? 0 : max(1, Int((sample / peak * Float(ramp.count - 1)).rounded(.up)))
            text.append(ramp[min(step, ramp.count - 1)])
        }
        return text
    }
}
