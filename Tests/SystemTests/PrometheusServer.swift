import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport

/// A separate Prometheus on a free port that scrapes one address, every five seconds.
final class PrometheusServer {
    /// One series with all its samples, as they came.
    struct Series: Decodable {
        private struct Point: Decodable {
            var value: Double

            init(from decoder: any Decoder) throws {
                var pair = try decoder.unkeyedContainer()
                _ = try pair.decode(Double.self)
                let text = try pair.decode(String.self)
                guard let value = Double(text) else {
                    throw DecodingError.dataCorruptedError(in: pair, debugDescription: "no number: \(text)")
                }
                self.value = value
            }
        }

        private enum CodingKeys: String, CodingKey {
            case labels = "metric"
            case points = "values"
        }

        var labels: [String: String]
        private var points: [Point]

        var samples: [Double] { self.points.map(\.value) }

        /// By how much the series grew from 0 on, as a monitoring system adds it up: a sample that is lower than the one
        /// before is a new beginning.
        var growth: Double {
            zip([0] + self.samples, self.samples).reduce(0) { $0 + ($1.1 >= $1.0 ? $1.1 - $1.0 : $1.1) }
        }

        /// Whether a sample is lower than the one before.
        var hasFallen: Bool { zip(self.samples, self.samples.dropFirst()).contains { $0 > $1 } }
    }

    private struct Answer: Decodable {
        struct Contents: Decodable { var result: [Series] }

        var data: Contents
    }

    private let port: Int
    private let folder: URL
    private let program: Program

    /// - Parameter target: `address:port`.
    init(scraping target: String) async throws {
        self.port = try FreePort.next()
        self.folder = FileManager.default.temporaryDirectory.appending(path: "prometheus-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
        // The timeout can't be longer than the interval, and a busy daemon's answer takes more than two seconds.
        let configuration = """
            global: {scrape_interval: 5s, scrape_timeout: 5s}
            scrape_configs: [{job_name: trafficd, static_configs: [{targets: ['\(target)']}]}]
            """
        let file = self.folder.appending(path: "prometheus.yml")
        try configuration.write(to: file, atomically: true, encoding: .utf8)
        self.program = try Program(
            try #require(Machine.path(of: "prometheus")),
            [
                "--config.file=\(file.path)", "--storage.tsdb.path=\(self.folder.path)/data", "--log.level=warn",
                "--web.listen-address=127.0.0.1:\(self.port)",
            ]
        )
        let isReady = try await eventually {
            try #require(self.program.isRunning, "\(self.program.errorText)")
            return try await Tool.run("curl", ["-sf", "\(self.url)/-/ready"], mayFail: true).status == 0
        }
        try #require(isReady, "\(self.program.errorText)")
    }

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    private var url: String { "http://127.0.0.1:\(self.port)" }

    /// All samples of a metric from the last hour.
    func series(_ selector: String) async throws -> [Series] {
        let said = try await Tool.run(
            "curl",
            ["-sf", "-G", "\(self.url)/api/v1/query", "--data-urlencode", "query=\(selector)[1h]"]
        )
        return try JSONDecoder().decode(Answer.self, from: said.outputData).data.result
    }

    private struct Now: Decodable {
        struct Contents: Decodable { var result: [Element] }
        struct Element: Decodable {}

        var data: Contents
    }

    /// - Returns: How many series the expression has now.
    /// - Throws: If Prometheus does not accept the expression.
    func evaluate(_ expression: String) async throws -> Int {
        let said = try await Tool.run(
            "curl",
            ["-sf", "-G", "\(self.url)/api/v1/query", "--data-urlencode", "query=\(expression)"]
        )
        return try JSONDecoder().decode(Now.self, from: said.outputData).data.result.count
    }

    func stop() async throws {
        self.program.signal(SIGTERM)
        try await self.program.exit()
    }
}
