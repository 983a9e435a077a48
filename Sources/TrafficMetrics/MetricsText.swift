import TrafficModel

/// Writes metrics in one of the two text formats. All lines of a family come together, as both formats ask.
struct MetricsText: MetricSink {
    static let hasBodySizes = false

    private(set) var bytes: [UInt8] = []
    private let isOpenMetrics: Bool
    /// As the lines `_created` have it; `nil`: no such lines.
    private var created: [UInt8]?

    // Of the family:
    private var family: MetricFamily?
    private var isDescribed = false
    private var base: [UInt8] = []
    /// With the suffix of the kind.
    private var name: [UInt8] = []

    /// - Parameter hasCreated: Whether there is a line that says when a counter was 0. Only OpenMetrics has one, and a
    ///   scraper that does not know it takes it for a further series.
    init(_ format: MetricsFormat, hasCreated: Bool) {
        self.isOpenMetrics = format == .openMetrics
        self.created = self.isOpenMetrics && hasCreated ? [] : nil
        self.bytes.reserveCapacity(1 << 16)
    }

    mutating func countersBegan(at time: Timestamp) {
        if self.created != nil { self.created = time.decimalSeconds }
    }

    mutating func begin(_ family: MetricFamily) {
        (self.family, self.isDescribed) = (family, false)
        self.base = Array(family.prometheusName.utf8)
        self.name = self.base
        switch family.kind {
        case .counter: self.name += "_total".utf8
        case .info: self.name += "_info".utf8
        case .gauge, .histogram: break
        }
    }

    mutating func add(_ value: MetricValue, _ labels: MetricLabels) {
        self.describe()
        switch value {
        // A whole number: exact to the last digit, whatever its size.
        case .count(let count): self.line(self.name, labels, "\(count)".utf8)
        case .real(let number): self.line(self.name, labels, "\(number)".utf8)
        case .time(let time): self.line(self.name, labels, time.decimalSeconds)
        case .histogram(let histogram): self.lines(histogram, labels)
        }
        guard let created, self.family?.kind.isCumulative == true else { return }
        self.line(self.base + Array("_created".utf8), labels, created)
    }

    private mutating func lines(_ histogram: MetricHistogram, _ labels: MetricLabels) {
        let bucket = self.base + Array("_bucket".utf8)
        var count: UInt64 = 0
        for (index, inBucket) in histogram.counts.enumerated() {
            count +|= inBucket
            let bound = index < histogram.bounds.count ? self.bound(histogram.bounds[index]) : "+Inf"
            self.line(bucket, labels.with("le", bound), "\(count)".utf8)
        }
        self.line(self.base + Array("_sum".utf8), labels, "\(histogram.sum)".utf8)
        self.line(self.base + Array("_count".utf8), labels, "\(count)".utf8)
    }

    /// OpenMetrics asks for `1.0` where the older format has `1`.
    private func bound(_ bound: Double) -> String {
        !self.isOpenMetrics && bound == bound.rounded() ? "\(Int(bound))" : "\(bound)"
    }

    /// A family without points has no lines at all.
    private mutating func describe() {
        guard let family, !self.isDescribed else { return }
        self.isDescribed = true
        let kind = family.kind == .info && !self.isOpenMetrics ? MetricFamily.Kind.gauge : family.kind
        let name = String(decoding: self.isOpenMetrics ? self.base : self.name, as: UTF8.self)
        self.bytes += "# HELP \(name) \(family.help)\n# TYPE \(name) \(kind.rawValue)\n".utf8
        if self.isOpenMetrics, let unit = family.prometheusUnit { self.bytes += "# UNIT \(name) \(unit)\n".utf8 }
    }

    private mutating func line(_ name: [UInt8], _ labels: MetricLabels, _ value: some Sequence<UInt8>) {
        self.bytes += name
        if !labels.text.isEmpty {
            self.bytes.append(UInt8(ascii: "{"))
            self.bytes += labels.text
            self.bytes.append(UInt8(ascii: "}"))
        }
        self.bytes.append(UInt8(ascii: " "))
        self.bytes += value
        self.bytes.append(UInt8(ascii: "\n"))
    }

    /// Nothing more will come.
    mutating func end() {
        if self.isOpenMetrics { self.bytes += "# EOF\n".utf8 }
    }
}

extension Timestamp {
    /// Seconds since 1970 with milliseconds. A `Double` of nanoseconds would be off by some of them.
    fileprivate var decimalSeconds: [UInt8] {
        let milliseconds = self.nanosecondsSinceEpoch / 1_000_000
        let fraction = "\(1_000 + milliseconds % 1_000)".dropFirst()
        return Array("\(milliseconds / 1_000).\(fraction)".utf8)
    }
}
