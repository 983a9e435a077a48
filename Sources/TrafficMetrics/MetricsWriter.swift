import TrafficModel

/// Writes metrics in one of the two formats. All lines of a family come together, as both formats ask.
struct MetricsWriter {
    private(set) var bytes: [UInt8] = []
    private let format: MetricsFormat
    /// As the lines `_created` have it; `nil`: no such lines.
    private var created: [UInt8]?

    /// - Parameter created: When the counters of the first families were 0. Only OpenMetrics can say so; `nil` leaves it
    ///   out. A scraper that does not know such lines takes them for further series.
    init(_ format: MetricsFormat, created: Timestamp?) {
        self.format = format
        self.created = format == .openMetrics ? created?.decimalSeconds : nil
        self.bytes.reserveCapacity(1 << 16)
    }

    /// The counters of the next families were 0 at another time.
    mutating func countersBegan(at time: Timestamp) {
        if self.created != nil { self.created = time.decimalSeconds }
    }

    /// Writes a family, unless it has no lines.
    mutating func family(_ family: MetricFamily, _ lines: (inout MetricLines) -> Void) {
        var writer = MetricLines(family, self.format, created: self.created)
        lines(&writer)
        guard !writer.bytes.isEmpty else { return }
        self.describe(family, as: writer.declaredName)
        self.bytes += writer.bytes
    }

    private mutating func describe(_ family: MetricFamily, as name: String) {
        let isOpenMetrics = self.format == .openMetrics
        let kind = family.kind == .info && !isOpenMetrics ? MetricFamily.Kind.gauge : family.kind
        self.bytes += "# HELP \(name) \(family.help)\n# TYPE \(name) \(kind.rawValue)\n".utf8
        if isOpenMetrics, let unit = family.unit { self.bytes += "# UNIT \(name) \(unit)\n".utf8 }
    }

    /// Nothing more will come.
    mutating func end() {
        if self.format == .openMetrics { self.bytes += "# EOF\n".utf8 }
    }
}

/// The lines of one family.
struct MetricLines {
    private(set) var bytes: [UInt8] = []
    /// The name with the suffix of the kind.
    private let name: [UInt8]
    private let base: [UInt8]
    private let isOpenMetrics: Bool
    private let created: [UInt8]?
    /// The name in the lines that describe the family.
    let declaredName: String

    fileprivate init(_ family: MetricFamily, _ format: MetricsFormat, created: [UInt8]?) {
        let suffix =
            switch family.kind {
            case .counter: "_total"
            case .info: "_info"
            case .gauge, .histogram: ""
            }
        self.isOpenMetrics = format == .openMetrics
        self.name = Array((family.name + suffix).utf8)
        self.base = Array(family.name.utf8)
        self.declaredName = self.isOpenMetrics ? family.name : family.name + suffix
        self.created = family.kind == .counter || family.kind == .histogram ? created : nil
    }

    /// A whole number: exact to the last digit, whatever its size.
    mutating func add(_ labels: MetricLabels, _ value: UInt64) {
        self.line(self.name, labels, value)
        self.addCreated(labels)
    }

    mutating func add(_ labels: MetricLabels, real value: Double) {
        self.begin(self.name, labels)
        self.bytes += "\(value)\n".utf8
        self.addCreated(labels)
    }

    /// Seconds since 1970.
    mutating func add(_ labels: MetricLabels, time: Timestamp) {
        self.begin(self.name, labels)
        self.bytes += time.decimalSeconds
        self.bytes.append(UInt8(ascii: "\n"))
    }

    /// - Parameter durations: In seconds, as OpenTelemetry has them.
    mutating func add(_ labels: MetricLabels, _ durations: DurationBuckets) {
        guard !durations.counts.isEmpty else { return }
        var count: UInt64 = 0
        for (index, bucket) in durations.counts.enumerated() {
            count +|= bucket
            self.line(self.base + Array("_bucket".utf8), labels.with("le", self.bound(index)), count)
        }
        self.begin(self.base + Array("_sum".utf8), labels)
        self.bytes += "\(Double(durations.sum) / 1e6)\n".utf8
        self.line(self.base + Array("_count".utf8), labels, count)
        self.addCreated(labels)
    }

    /// OpenMetrics asks for `1.0` where the older format has `1`.
    private func bound(_ index: Int) -> String {
        guard index < DurationBuckets.bounds.count else { return "+Inf" }
        let microseconds = DurationBuckets.bounds[index]
        return !self.isOpenMetrics && microseconds % 1_000_000 == 0
            ? "\(microseconds / 1_000_000)" : "\(Double(microseconds) / 1e6)"
    }

    private mutating func addCreated(_ labels: MetricLabels) {
        guard let created else { return }
        self.begin(self.base + Array("_created".utf8), labels)
        self.bytes += created
        self.bytes.append(UInt8(ascii: "\n"))
    }

    private mutating func line(_ name: [UInt8], _ labels: MetricLabels, _ value: UInt64) {
        self.begin(name, labels)
        self.bytes += "\(value)\n".utf8
    }

    private mutating func begin(_ name: [UInt8], _ labels: MetricLabels) {
        self.bytes += name
        if !labels.bytes.isEmpty {
            self.bytes.append(UInt8(ascii: "{"))
            self.bytes += labels.bytes
            self.bytes.append(UInt8(ascii: "}"))
        }
        self.bytes.append(UInt8(ascii: " "))
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
