import TrafficMetrics
import TrafficModel

/// Metrics as OTLP has them: by resource, which is a program or the host, and below it by metric. All counters are
/// cumulative and have a start time, so that a receiver that gets a point twice, or not at all, is not misled.
///
/// The numbers of the fields are those of opentelemetry-proto 1.9.0. The tests read these messages by its definitions.
struct OTLPMetrics: MetricSink {
    static let hasBodySizes = true

    fileprivate struct Resource {
        /// `Resource`.
        var message = ProtobufMessage()
        var metrics: [Metric] = []
        var points = 0
        /// The number of the last metric's family.
        var family = -1
    }

    fileprivate struct Metric {
        let family: MetricFamily
        /// The field `data_points` of the metric's kind.
        var points = ProtobufMessage()
    }

    private let hostName: String
    private let version: String
    private let time: UInt64
    private var startTime: UInt64 = 0
    private var family: MetricFamily?
    private var familyNumber = 0
    /// In the order in which they came.
    private var resources: [Resource] = []
    private var places: [[String]: Int] = [:]

    /// - Parameters:
    ///   - hostName: `host.name` of every resource.
    ///   - time: Of all points.
    init(hostName: String, version: String, time: Timestamp) {
        (self.hostName, self.version) = (hostName, version)
        self.time = UInt64(clamping: time.nanosecondsSinceEpoch)
    }

    mutating func countersBegan(at time: Timestamp) {
        self.startTime = UInt64(clamping: time.nanosecondsSinceEpoch)
    }

    mutating func begin(_ family: MetricFamily) {
        self.family = family
        self.familyNumber += 1
    }

    mutating func add(_ value: MetricValue, _ labels: MetricLabels) {
        guard let family else { return }
        let place = self.place(of: labels)
        self.resources[place].add(value, labels, family, self.familyNumber, self.startTime, self.time)
    }

    private mutating func place(of labels: MetricLabels) -> Int {
        let own = labels.resource
        let key = own.flatMap { [$0.name, $0.value] }
        if let place = self.places[key] { return place }
        var resource = Resource()
        // Some stores, such as Prometheus, tell resources apart by the first two alone.
        for (name, value) in [
            ("service.name", "trafficd"),
            ("service.instance.id", ([self.hostName] + own.map(\.value)).joined(separator: " ")),
            ("service.version", self.version), ("host.name", self.hostName), ("os.type", "linux"),
        ] {
            resource.message.add(1, ProtobufMessage(attribute: name, value))
        }
        for attribute in own { resource.message.add(1, ProtobufMessage(attribute: attribute.name, attribute.value)) }
        self.places[key] = self.resources.count
        self.resources.append(resource)
        return self.resources.count - 1
    }

    /// The messages to send, `ExportMetricsServiceRequest`: each has whole resources.
    ///
    /// - Parameter mostPoints: Of a message, unless one resource has more.
    func requests(ofAtMost mostPoints: Int) -> [[UInt8]] {
        var requests: [ProtobufMessage] = []
        var points = mostPoints
        for resource in self.resources {
            if points + resource.points > mostPoints {
                requests.append(ProtobufMessage())
                points = 0
            }
            requests[requests.count - 1].add(1, resource.encoded(version: self.version))
            points += resource.points
        }
        return requests.map(\.bytes)
    }
}

extension OTLPMetrics.Resource {
    fileprivate mutating func add(
        _ value: MetricValue,
        _ labels: MetricLabels,
        _ family: MetricFamily,
        _ familyNumber: Int,
        _ startTime: UInt64,
        _ time: UInt64
    ) {
        if self.family != familyNumber {
            self.metrics.append(.init(family: family))
            self.family = familyNumber
        }
        self.points += 1
        var point = ProtobufMessage()
        // NumberDataPoint and HistogramDataPoint differ in the number of their attributes.
        let isHistogram = if case .histogram = value { true } else { false }
        for label in labels.attributes {
            point.add(isHistogram ? 9 : 7, ProtobufMessage(attribute: label.name, label.value))
        }
        if family.kind.isCumulative { point.add(2, fixed: startTime) }
        point.add(3, fixed: time)
        switch value {
        case .count(let count): point.add(6, fixed: UInt64(bitPattern: Int64(clamping: count)))
        case .real(let number): point.add(4, number)
        case .time(let time): point.add(4, time.seconds)
        case .histogram(let histogram):
            point.add(4, fixed: histogram.count)
            point.add(5, histogram.sum)
            point.add(6, packed: histogram.counts)
            point.add(7, packed: histogram.bounds.map(\.bitPattern))
        }
        self.metrics[self.metrics.count - 1].points.add(1, point)
    }

    /// `ResourceMetrics`.
    fileprivate func encoded(version: String) -> ProtobufMessage {
        var scope = ProtobufMessage()
        scope.add(1, "trafficd")
        scope.add(2, version)
        var metrics = ProtobufMessage()
        metrics.add(1, scope)
        for metric in self.metrics { metrics.add(2, metric.encoded()) }
        var message = ProtobufMessage()
        message.add(1, self.message)
        message.add(2, metrics)
        return message
    }
}

extension OTLPMetrics.Metric {
    /// Of the enumeration `AggregationTemporality`.
    private static let cumulative: UInt64 = 2

    /// `Metric`.
    fileprivate func encoded() -> ProtobufMessage {
        var message = ProtobufMessage()
        // OTLP has no kind for it, and Prometheus would add the same word.
        message.add(1, self.family.kind == .info ? self.family.name + ".info" : self.family.name)
        message.add(2, self.family.help)
        if let unit = self.family.unit { message.add(3, unit.rawValue) }
        var data = self.points
        switch self.family.kind {
        case .counter:
            data.add(2, varint: Self.cumulative)
            data.add(3, varint: 1)  // is_monotonic
            message.add(7, data)
        case .histogram:
            data.add(2, varint: Self.cumulative)
            message.add(9, data)
        case .gauge, .info: message.add(5, data)
        }
        return message
    }
}

extension ProtobufMessage {
    /// `KeyValue`, with the type that the conventions give the attribute.
    fileprivate init(attribute name: String, _ value: String) {
        var typed = ProtobufMessage()
        switch name {
        case "process.real_user.id": typed.add(3, varint: UInt64(bitPattern: Int64(value) ?? -1))
        case "otel.metric.overflow": typed.add(2, varint: value == "true" ? 1 : 0)
        default: typed.add(1, value)
        }
        self.init()
        self.add(1, name)
        self.add(2, typed)
    }
}
