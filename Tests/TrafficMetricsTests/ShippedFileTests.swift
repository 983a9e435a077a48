import Foundation
import TestSupport
import Testing
import TrafficMetrics

/// The files that ship beside the metrics, and the document about them.
@Suite("Rules, dashboard and document of the metrics", .enabled(if: Prometheus.missing == nil, Prometheus.comment))
struct ShippedFileTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()
    private static let rules = root.appending(path: "packaging/prometheus/trafficd.rules.yml")
    private static let dashboard = root.appending(path: "packaging/grafana/trafficd.json")

    /// All metrics that a daemon may have, as their first lines name them.
    private static let names: Set<String> = {
        let text = String(decoding: ExpositionTests.everything.encoded(as: .text), as: UTF8.self)
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("# TYPE ") }
        return Set(lines.map { String($0.split(separator: " ")[2]) })
    }()

    private static func names(in text: some StringProtocol) -> Set<String> {
        let name =
            /\b(?:trafficd_[a-z_]+|(?:process|http_client|http_server|system)_[a-z_]+_(?:total|bytes|seconds|fds|bucket|count))\b/
        return Set(String(text).matches(of: name).map { String($0.0) })
    }

    @Test("the document has each metric in a table, and no other")
    func document() throws {
        let text = try String(contentsOf: Self.root.appending(path: "docs/metrics.md"), encoding: .utf8)
        let cells = text.split(separator: "\n").filter { $0.hasPrefix("| `") }.map { $0.split(separator: "|")[0] }
        let named = cells.flatMap { Self.names(in: $0) }
        #expect(Set(named) == Self.names)
        #expect(named.count == Self.names.count)
    }

    @Test("every metric, label and word that the document names exists, and every label is in it")
    func labels() throws {
        let document = try String(contentsOf: Self.root.appending(path: "docs/metrics.md"), encoding: .utf8)
        let text = String(decoding: ExpositionTests.everything.encoded(as: .text), as: UTF8.self)
        let words = document.matches(of: /`([a-z]+(?:_[a-z]+)+)`/).map { String($0.1) }
        for word in Set(words) { #expect(text.contains(word), "\(word)") }
        for label in Set(text.matches(of: /[{,]([a-z_]+)="/).map { String($0.1) }) where label != "le" {
            #expect(words.contains(label) || document.contains("`\(label)`"), "\(label)")
        }
    }

    @Test("promtool accepts the rules, and each raises its alert in its case and not in the others")
    func ruleTests() throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "rules-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let test = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "Rules/trafficd.rules.test.yml")
        try FileManager.default.copyItem(at: Self.rules, to: folder.appending(path: Self.rules.lastPathComponent))
        try FileManager.default.copyItem(at: test, to: folder.appending(path: test.lastPathComponent))
        for (words, file) in [(["check", "rules"], Self.rules), (["test", "rules"], test)] {
            let path = folder.appending(path: file.lastPathComponent).path
            let said = try Tool.wait(for: "promtool", words + [path], mayFail: true)
            #expect(said.status == 0 && said.output.contains("SUCCESS"), "\(said.output)\(said.error)")
        }
        let alerts = try String(contentsOf: Self.rules, encoding: .utf8).matches(of: /alert: (\w+)/).map { $0.1 }
        #expect(alerts.count == 10)
        let cases = try String(contentsOf: test, encoding: .utf8).components(separatedBy: "  - name:").dropFirst()
        #expect(cases.count == 3)
        // Between them is the one of the document's expression.
        let document = try String(contentsOf: Self.root.appending(path: "docs/metrics.md"), encoding: .utf8)
        let expression = try #require(cases.dropFirst().first?.firstMatch(of: /expr: (.+)/)?.1)
        #expect(document.contains("`\(expression)`"))
        for text in [cases.first, cases.last].compactMap({ $0 }) {
            for alert in alerts { #expect(text.contains(try Regex("alertname: \(alert)\\b")), "\(alert)") }
        }
    }

    @Test("rules and dashboard ask only for metrics that there are")
    func existing() throws {
        for file in [Self.rules, Self.dashboard] {
            let named = Self.names(in: try String(contentsOf: file, encoding: .utf8))
            let series = Self.names.union(
                ["http_client", "http_server"].flatMap { role in
                    ["bucket", "count"].map { "\(role)_request_duration_seconds_\($0)" }
                }
            )
            #expect(named.count > 5)
            #expect(named.subtracting(series) == [], "\(file.lastPathComponent)")
        }
    }
}
