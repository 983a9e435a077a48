import FoundationEssentials
import TrafficMetrics
import TrafficModel

/// Metrics as lines of JSON: a line for each point, with everything that is known of it.
struct MetricLines: MetricSink {
    static let hasBodySizes = true

    private(set) var lines: [[UInt8]] = []
    private let hostName: String
    private let time: String
    private var startTime = ""
    private var family: MetricFamily?
    private let encoder = JSONEncoder()

    private struct Line: Encodable {
        var time: String
        var startTime: String?
        var name: String
        var unit: String?
        var kind: String
        var resource: [String: String]
        var attributes: [String: String]
        var value: Number?
        var count: UInt64?
        var sum: Double?
        var bounds: [Double]?
        var buckets: [UInt64]?

        enum CodingKeys: String, CodingKey {
            case time, name, unit, kind, resource, attributes, value, count, sum, bounds, buckets
            case startTime = "start_time"
        }
    }

    /// Whole numbers are exact, whatever their size.
    private enum Number: Encodable {
        case whole(UInt64)
        case real(Double)

        func encode(to encoder: any Encoder) throws {
            var container = encoder.singleValueContainer()
            switch self {
            case .whole(let number): try container.encode(number)
            case .real(let number): try container.encode(number)
            }
        }
    }

    init(hostName: String, time: Timestamp) {
        self.hostName = hostName
        self.time = time.description
        self.encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    }

    mutating func countersBegan(at time: Timestamp) { self.startTime = time.description }

    mutating func begin(_ family: MetricFamily) { self.family = family }

    mutating func add(_ value: MetricValue, _ labels: MetricLabels) {
        guard let family else { return }
        var resource = labels.resource.reduce(into: [:]) { $0[$1.name] = $1.value }
        resource["host.name"] = self.hostName
        var line = Line(
            time: self.time,
            startTime: family.kind.isCumulative ? self.startTime : nil,
            name: family.name,
            unit: family.unit?.rawValue,
            kind: family.kind.rawValue,
            resource: resource,
            attributes: labels.attributes.reduce(into: [:]) { $0[$1.name] = $1.value }
        )
        switch value {
        case .count(let count): line.value = .whole(count)
        case .real(let number): line.value = .real(number)
        case .time(let time): line.value = .real(time.seconds)
        case .histogram(let histogram):
            line.count = histogram.count
            (line.sum, line.bounds, line.buckets) = (histogram.sum, histogram.bounds, histogram.counts)
        }
        // Such a value always has a JSON form.
        guard let bytes = try? self.encoder.encode(line) else { return }
        self.lines.append(Array(bytes) + [UInt8(ascii: "\n")])
    }
}
