import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// What a real VictoriaMetrics has stored, beside what programs and curl say themselves.
    @Suite(
        .needsBPF,
        .needs("python3", "protoc", "curl"),
        .enabled(if: VictoriaMetrics.path != nil || Machine.mustNotSkip, "not installed: victoria-metrics")
    )
    struct PushTests {
        /// How long the receiver is away. The proof of ten minutes sets this variable to 600.
        private static let deadSeconds =
            ProcessInfo.processInfo.environment["TRAFFICD_TEST_DEAD_SECONDS"].flatMap(Double.init) ?? 10

        private static func start(_ pinned: PinnedDaemons, _ url: String) async throws -> Daemon {
            let settings = "push_interval: 1s\npush: [{url: \"\(url)\"}]\n"
            try Data(settings.utf8).write(to: pinned.configuration)
            try #require(chmod(pinned.configuration.path, 0o600) == 0)
            return try await Daemon(
                Machine.programs,
                directories: pinned.directories,
                configuration: pinned.configuration.path,
                arguments: pinned.arguments
                    + ["--state-directory", pinned.state, "--method", Machine.method, "--interval", "0.2"]
                    + ["--keep-exited", "1", "--log-level", "warning"]
            )
        }

        @Test(
            "after 503, a hang, an absence and every request twice, the receiver's sums are what programs moved"
        )
        func sums() async throws {
            let victoria = try await VictoriaMetrics()
            // Not a port that the kernel gives to clients: one may have it when the receiver comes back.
            var receiver = try await MetricsReceiver(root: Documents.root, port: try FreePort.next(), isQuiet: true)
            try await receiver.tell("forward \(victoria.receiver)")
            let pinned = try PinnedDaemons()
            var daemon = try await Self.start(pinned, receiver.url)
            let server = try await InstrumentedServer(reportingTo: pinned.directories.reportSocket.path)
            let traffic = try MixedTraffic(seed: 18, server: server)
            func move(seconds: Double) async throws {
                let end = ContinuousClock.now + .seconds(seconds)
                repeat { try await traffic.move(countedBy: daemon) } while ContinuousClock.now < end
            }
            /// While the receiver is away.
            func moveUntilReadingsWait() async throws {
                let before = try await Self.waitingRequests(daemon)
                try await move(seconds: Self.deadSeconds / 2)
                // The first one may be of a reading from before.
                let waiting = try await look(until: { $0 > before + 2 }) {
                    try await traffic.move(countedBy: daemon)
                    return try await Self.waitingRequests(daemon)
                }
                #expect(waiting > before + 2)
            }

            try await move(seconds: 3)
            for behaviour in ["status 503", "hang", "status 429 2", "twice \(victoria.receiver)"] {
                try await receiver.tell(behaviour)
                try await move(seconds: 3)
            }
            // The receiver is away, and meanwhile the daemon is stopped once and killed once.
            try await receiver.kill()
            let away = Date()
            try await moveUntilReadingsWait()
            let stopped = Date()
            #expect(try await daemon.stop() == 0)
            try await traffic.moveLong()
            daemon = try await Self.start(pinned, receiver.url)
            try await moveUntilReadingsWait()
            #expect(try await daemon.waitForCheckpoint())
            _ = try await daemon.stop(SIGKILL)
            try await traffic.moveLong()
            daemon = try await Self.start(pinned, receiver.url)
            let back = Date()
            receiver = try await MetricsReceiver(root: Documents.root, port: receiver.port, isQuiet: true)
            // Each request arrives, and again, because the daemon gets no answer.
            try await receiver.tell("lose \(victoria.receiver)")
            try await move(seconds: 3)
            try await receiver.tell("twice \(victoria.receiver)")

            for (name, moved) in traffic.moved {
                for (direction, bytes) in [("transmit", moved.sent), ("receive", moved.received)] {
                    let stored = try await look(until: { $0 == Double(bytes) }) {
                        try await Self.total(
                            victoria,
                            "process.network.io",
                            ["process.executable.name": name, "network.io.direction": direction]
                        )
                    }
                    #expect(stored == Double(bytes), "\(name) \(direction)")
                }
            }
            let route = ["http.route": "/length/{id}"]
            for (name, wanted) in [
                ("http.server.request.duration_count", traffic.requests),
                ("http.server.response.body.size_count", traffic.requests),
                ("http.server.response.body.size_sum", traffic.bodyBytes),
                ("trafficd.http.server.requests", traffic.requests),
            ] {
                let stored = try await look(until: { $0 == Double(wanted) }) {
                    try await Self.total(victoria, name, route)
                }
                #expect(stored == Double(wanted), "\(name)")
            }
            // What was read in the meantime waited, and has come too.
            let kept = try await victoria.series("trafficd.payload", ["network.io.direction": "transmit"])
            let inBetween = kept.flatMap(\.timestamps).map { Double($0) / 1_000 }
                .filter { $0 > away.timeIntervalSince1970 && $0 < back.timeIntervalSince1970 }
            #expect(inBetween.count >= 3)
            // Of both daemons, of which one was stopped and one was killed.
            for isBefore in [true, false] {
                #expect(inBetween.contains { ($0 < stopped.timeIntervalSince1970) == isBefore }, "before: \(isBefore)")
            }

            try await server.stop()
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
            try await victoria.stop()
        }

        /// How many requests the daemon says the receiver has not taken yet.
        private static func waitingRequests(_ daemon: Daemon) async throws -> Double {
            let socket = daemon.directories.controlSocket.path
            let text = try await Tool.run("curl", ["-sf", "--unix-socket", socket, "http://localhost/metrics"]).output
            let line = text.split(separator: "\n").first { $0.hasPrefix("trafficd_push_requests_waiting{") }
            return try #require(line?.split(separator: " ").last.flatMap { Double($0) }, "\(text)")
        }

        /// The last values of all series, none of which may have fallen.
        private static func total(
            _ victoria: VictoriaMetrics,
            _ name: String,
            _ labels: [String: String]
        ) async throws -> Double {
            let series = try await victoria.series(name, labels)
            #expect(series.filter(\.hasFallen).map(\.metric) == [], "\(name)")
            return series.reduce(0) { $0 + ($1.values.last ?? 0) }
        }
    }
}
