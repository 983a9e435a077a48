import TrafficDocuments
import TrafficMetrics
import TrafficModel

/// All metrics of a moment, as the bodies of requests.
enum PushBatches {
    /// Of a request, unless one resource of OTLP has more. A point has 100 to 400 bytes, and a collector takes 20 MB.
    static let mostPoints = 5_000

    /// - Parameter hostName: For `host.name`.
    static func bodies(
        of document: MetricsDocument,
        as form: PushDestination.Form,
        hostName: String,
        version: String,
        time: Timestamp
    ) -> [[UInt8]] {
        var bodies: [[UInt8]] = []
        switch form.format {
        case .otlp:
            var metrics = OTLPMetrics(hostName: hostName, version: version, time: time)
            document.write(to: &metrics)
            bodies = metrics.requests(ofAtMost: Self.mostPoints)
        case .ndjson:
            var metrics = MetricLines(hostName: hostName, time: time)
            document.write(to: &metrics)
            let lines = metrics.lines
            for start in stride(from: 0, to: lines.count, by: Self.mostPoints) {
                bodies.append(Array(lines[start..<min(start + Self.mostPoints, lines.count)].joined()))
            }
        }
        switch form.compression {
        case .gzip: return bodies.map { Gzip.compressed($0) }
        case .none: return bodies
        }
    }
}
