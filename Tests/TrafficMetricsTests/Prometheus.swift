import Foundation
import TestSupport
import Testing
import TrafficMetrics

/// Prometheus's own Python library: a reader of the formats that is not ours.
enum Prometheus {
    struct Sample: Hashable, Decodable {
        var name: String
        var labels: [String: String]
    }

    private struct Value: Decodable {
        var sample: Sample
        var value: Double
    }

    /// Debian's Python, because its libraries come as packages.
    private static let python = "/usr/bin/python3"

    /// What the tests need and this machine lacks. `nil` where nothing is missing.
    static let missing: String? = {
        // scripts/test installs both. Then a missing one is a failure, and no reason to skip a test.
        if ProcessInfo.processInfo.environment["TRAFFICD_TEST_COMPLETE"] == "1" { return nil }
        let program = "import prometheus_client.openmetrics.parser"
        let python = try? Tool.wait(for: Self.python, ["-c", program], mayFail: true)
        let promtool = try? Tool.wait(for: "promtool", ["--version"], mayFail: true)
        return python?.status == 0 && promtool?.status == 0
            ? nil : "python3-prometheus-client and prometheus are not installed"
    }()
    static let comment = Comment(rawValue: Self.missing ?? "")

    private static let program = """
        import json, sys
        if sys.argv[1] == "open":
            from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
        else:
            from prometheus_client.parser import text_string_to_metric_families as parse
        samples = [s for family in parse(sys.stdin.buffer.read().decode()) for s in family.samples]
        json.dump([{"sample": {"name": s.name, "labels": s.labels}, "value": float(s.value)} for s in samples], sys.stdout)
        """

    /// - Throws: If the reader does not accept the text, or if a sample comes twice.
    static func samples(of text: [UInt8], _ format: MetricsFormat) throws -> [Sample: Double] {
        let word = format == .openMetrics ? "open" : "text"
        let said = try Tool.wait(for: Self.python, ["-c", Self.program, word], input: Data(text), mayFail: true)
        try #require(said.status == 0, "\(said.error)")
        let values = try JSONDecoder().decode([Value].self, from: Data(said.output.utf8))
        let samples = Dictionary(values.map { ($0.sample, $0.value) }) { first, _ in first }
        try #require(samples.count == values.count, "a sample comes twice")
        return samples
    }
}
