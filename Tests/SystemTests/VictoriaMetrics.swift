import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport

/// A separate VictoriaMetrics on a free port: a receiver of OTLP that others wrote.
final class VictoriaMetrics {
    /// One series with all its samples.
    struct Series: Decodable {
        var metric: [String: String]
        var values: [Double]
        /// Milliseconds since 1970.
        var timestamps: [Int64]

        var hasFallen: Bool { zip(self.values, self.values.dropFirst()).contains { $0 > $1 } }
    }

    /// Where `scripts/test` puts it, or in PATH. Debian has no version with OTLP before Debian 13.
    static let path: URL? = {
        let environment = ProcessInfo.processInfo.environment
        let cache = environment["XDG_CACHE_HOME"] ?? "\(environment["HOME"] ?? "")/.cache"
        let fetched = "\(cache)/trafficd/victoria-metrics/root/usr/bin/victoria-metrics"
        return FileManager.default.isExecutableFile(atPath: fetched)
            ? URL(filePath: fetched) : Machine.path(of: "victoria-metrics")
    }()

    private let port: Int
    private let folder = FileManager.default.temporaryDirectory.appending(path: "victoria-\(UUID().uuidString)")
    private let program: Program

    init() async throws {
        self.port = try FreePort.next()
        self.program = try Program(
            try #require(Self.path),
            [
                "-storageDataPath=\(self.folder.path)", "-httpListenAddr=127.0.0.1:\(self.port)", "-retentionPeriod=1",
                "-loggerLevel=WARN",
            ]
        )
        let isReady = try await eventually {
            try #require(self.program.isRunning, "\(self.program.errorText)")
            return try await Tool.run("curl", ["-sf", "\(self.url)/health"], mayFail: true).status == 0
        }
        try #require(isReady, "\(self.program.errorText)")
    }

    deinit { try? FileManager.default.removeItem(at: self.folder) }

    private var url: String { "http://127.0.0.1:\(self.port)" }
    var receiver: String { "\(self.url)/opentelemetry/v1/metrics" }

    /// All samples of a metric as they came.
    func series(_ name: String, _ labels: [String: String] = [:]) async throws -> [Series] {
        let selectors = ["__name__": name].merging(labels) { $1 }.sorted { $0.key < $1.key }
            .map { "\"\($0.key)\"=\"\($0.value)\"" }.joined(separator: ",")
            .replacing("\"__name__\"", with: "__name__")
        let said = try await Tool.run(
            "curl",
            ["-sf", "-G", "\(self.url)/api/v1/export", "--data-urlencode", "match[]={\(selectors)}"]
        )
        return try said.output.split(separator: "\n").map {
            try JSONDecoder().decode(Series.self, from: Data($0.utf8))
        }
    }

    func stop() async throws {
        self.program.signal(SIGTERM)
        try await self.program.exit()
    }
}
