import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// What a real Prometheus has stored, beside what programs and curl say themselves.
    @Suite(.needsBPF, .needs("prometheus", "python3", "curl"))
    struct PrometheusTests {
        /// How long to scrape. The proof of ten minutes sets this variable to 600.
        private static let seconds =
            ProcessInfo.processInfo.environment["TRAFFICD_TEST_SCRAPE_SECONDS"].flatMap(Double.init) ?? 20

        private static func grown(
            _ prometheus: PrometheusServer,
            _ selector: String,
            _ direction: String
        ) async throws
            -> Double
        {
            let series = try await prometheus.series(selector)
            #expect(series.filter(\.hasFallen).map(\.labels) == [], "\(selector)")
            return series.filter { $0.labels["network_io_direction"] == direction }.reduce(0) { $0 + $1.growth }
        }

        private static func process(_ name: String) -> String {
            "process_network_io_bytes_total{process_executable_name=\"\(name)\"}"
        }

        private static func expectAll(_ movers: [String: PayloadBytes], in prometheus: PrometheusServer) async throws {
            for (name, moved) in movers {
                for (direction, bytes) in [("transmit", moved.sent), ("receive", moved.received)] {
                    let stored = try await look(until: { $0 == Double(bytes) }) {
                        try await Self.grown(prometheus, Self.process(name), direction)
                    }
                    #expect(stored == Double(bytes), "\(name) \(direction)")
                }
            }
        }

        @Test(
            "the growth of every series is what programs moved, while the daemon is stopped, killed and started again"
        )
        func restarts() async throws {
            let pinned = try PinnedDaemons()
            let target = "127.0.0.1:\(try FreePort.next())"
            // Processes leave the list soon after their end.
            let arguments = ["--listen", target, "--keep-exited", "1"]
            let prometheus = try await PrometheusServer(scraping: target)
            let server = try await InstrumentedServer(reportingTo: pinned.directories.reportSocket.path)
            var daemon = try await pinned.start(arguments)
            let traffic = try MixedTraffic(seed: 18, server: server)
            let (began, step) = (ContinuousClock.now, Self.seconds / 6)
            for round in 1...6 {
                while ContinuousClock.now < began + .seconds(step * Double(round)) {
                    try await traffic.move(countedBy: daemon)
                }
                guard round == 2 || round == 4 else { continue }
                if round == 4 {
                    // What a program has reported since the last checkpoint is lost with a daemon that is killed.
                    #expect(try await daemon.waitForCheckpoint())
                }
                _ = try await daemon.stop(round == 2 ? SIGTERM : SIGKILL)
                // The programs in the kernel count without a daemon.
                try await traffic.moveLong()
                daemon = try await pinned.start(arguments)
            }
            try await Self.expectAll(traffic.moved, in: prometheus)
            let (requests, body) = (traffic.requests, traffic.bodyBytes)

            let route = "{http_route=\"/length/{id}\"}"
            let counted = try await look(until: { $0 == Double(requests) }) {
                let series = try await prometheus.series("http_server_request_duration_seconds_count\(route)")
                return series.reduce(0) { $0 + $1.growth }
            }
            let bodies = try await look(until: { $0 == Double(body) }) {
                try await Self.grown(prometheus, "trafficd_http_server_body_bytes_total\(route)", "transmit")
            }
            #expect(counted == Double(requests) && bodies == Double(body))
            // No series of all that came fell: one that falls is added up wrongly by every query.
            let counters = try await prometheus.series("{__name__=~\".+_total|.+_bucket|.+_count\",job=\"trafficd\"}")
            let fallen = counters.filter { $0.labels["__name__"] != "process_cpu_seconds_total" && $0.hasFallen }
            #expect(fallen.map(\.labels) == [])
            #expect(counters.count > 100)
            let up = try await prometheus.series("up")
            #expect(up.contains { $0.samples.contains(1) })

            let expressions = try Self.dashboard()
            #expect(expressions.count > 20)
            for expression in expressions {
                // There are no clients that report, no overflows and no losses here: a comparison leaves those out.
                let mayBeEmpty = expression.hasSuffix("> 0") || expression.contains("http_client")
                // After a scrape that took too long, Prometheus has no present value until the next one.
                let count = try await look(until: { $0 > 0 || mayBeEmpty }) {
                    try await prometheus.evaluate(expression)
                }
                #expect(count > 0 || mayBeEmpty, "\(expression)")
            }

            try await server.stop()
            try await prometheus.stop()
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        /// The expressions of the dashboard, with its variables filled in.
        private static func dashboard() throws -> [String] {
            struct Dashboard: Decodable {
                struct Panel: Decodable { var targets: [Target]? }
                struct Target: Decodable { var expr: String }

                var panels: [Panel]
            }
            let file = Documents.root.appending(path: "packaging/grafana/trafficd.json")
            return try JSONDecoder().decode(Dashboard.self, from: Data(contentsOf: file)).panels
                .flatMap { $0.targets ?? [] }
                .map {
                    $0.expr.replacing("$instance", with: ".+").replacing("$job", with: "trafficd")
                        .replacing("$__rate_interval", with: "1m").replacing("$__range", with: "1h")
                }
        }
    }
}
