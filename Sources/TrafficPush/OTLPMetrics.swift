import OTLPMessages
import SwiftProtobuf
import TrafficMetrics
import TrafficModel

/// Metrics as OTLP has them: by resource, which is a program or the host, and below it by metric. All counters are
/// cumulative and have a start time, so that a receiver that gets a point twice, or not at all, is not misled.
struct OTLPMetrics: MetricSink {
    static let hasBodySizes = true

    fileprivate struct Resource {
        var message = Opentelemetry_Proto_Metrics_V1_ResourceMetrics()
        var metrics: [Opentelemetry_Proto_Metrics_V1_Metric] = []
        var points = 0
        /// The number of the last metric's family.
        var family = -1
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
        resource.message.resource.attributes = [
            .init("service.name", "trafficd"),
            .init("service.instance.id", ([self.hostName] + own.map(\.value)).joined(separator: " ")),
            .init("service.version", self.version), .init("host.name", self.hostName), .init("os.type", "linux"),
        ]
        resource.message.resource.attributes += own.map { .init($0.name, $0.value) }
        self.places[key] = self.resources.count
        self.resources.append(resource)
        return self.resources.count - 1
    }

    /// The messages to send: each has whole resources.
    ///
    /// - Parameter mostPoints: Of a message, unless one resource has more.
    func requests(
        ofAtMost mostPoints: Int
    ) -> [Opentelemetry_Proto_Collector_Metrics_V1_ExportMetricsServiceRequest] {
        var requests: [Opentelemetry_Proto_Collector_Metrics_V1_ExportMetricsServiceRequest] = []
        var points = mostPoints
        for var resource in self.resources {
            var scope = Opentelemetry_Proto_Metrics_V1_ScopeMetrics()
            scope.scope.name = "trafficd"
            scope.scope.version = self.version
            scope.metrics = resource.metrics
            resource.message.scopeMetrics = [scope]
            if points + resource.points > mostPoints {
                requests.append(.init())
                points = 0
            }
            requests[requests.count - 1].resourceMetrics.append(resource.message)
            points += resource.points
        }
        return requests
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
            self.metrics.append(Opentelemetry_Proto_Metrics_V1_Metric(family))
            self.family = familyNumber
        }
        let attributes = labels.attributes.map { Opentelemetry_Proto_Common_V1_KeyValue($0.name, $0.value) }
        let start = family.kind.isCumulative ? startTime : 0
        let last = self.metrics.count - 1
        self.points += 1
        if case .histogram(let histogram) = value {
            var point = Opentelemetry_Proto_Metrics_V1_HistogramDataPoint()
            (point.attributes, point.startTimeUnixNano, point.timeUnixNano) = (attributes, start, time)
            point.count = histogram.count
            point.sum = histogram.sum
            (point.bucketCounts, point.explicitBounds) = (histogram.counts, histogram.bounds)
            self.metrics[last].histogram.dataPoints.append(point)
            return
        }
        var point = Opentelemetry_Proto_Metrics_V1_NumberDataPoint()
        (point.attributes, point.startTimeUnixNano, point.timeUnixNano) = (attributes, start, time)
        switch value {
        case .count(let count): point.asInt = Int64(clamping: count)
        case .real(let number): point.asDouble = number
        case .time(let time): point.asDouble = time.seconds
        case .histogram: break
        }
        if family.kind == .counter {
            self.metrics[last].sum.dataPoints.append(point)
        } else {
            self.metrics[last].gauge.dataPoints.append(point)
        }
    }
}

extension Opentelemetry_Proto_Metrics_V1_Metric {
    /// Without points.
    fileprivate init(_ family: MetricFamily) {
        self.init()
        // OTLP has no kind for it, and Prometheus would add the same word.
        self.name = family.kind == .info ? family.name + ".info" : family.name
        self.description_p = family.help
        self.unit = family.unit?.rawValue ?? ""
        switch family.kind {
        case .counter:
            self.sum.aggregationTemporality = .cumulative
            self.sum.isMonotonic = true
        case .histogram: self.histogram.aggregationTemporality = .cumulative
        case .gauge, .info: break
        }
    }
}

extension Opentelemetry_Proto_Common_V1_KeyValue {
    /// With the type that the conventions give the attribute.
    fileprivate init(_ name: String, _ value: String) {
        self.init()
        self.key = name
        switch name {
        case "process.real_user.id": self.value.intValue = Int64(value) ?? -1
        case "otel.metric.overflow": self.value.boolValue = value == "true"
        default: self.value.stringValue = value
        }
    }
}
