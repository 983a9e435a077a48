import Foundation
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import Testing
import TrafficFeed
import TrafficMetrics
import TrafficModel

@testable import TrafficAPI

@Suite("GET /metrics")
struct MetricsRouteTests {
    private let routes = RouteTests()

    init() { self.routes.box.metrics.publish(Self.reading) }

    private static let reading: MetricsReading = {
        var reading = MetricsReading(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            daemon: DaemonDescription(version: "1", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])
        )
        let bytes = ByteCounts(payload: PayloadBytes(sent: 1, received: 2))
        reading.host = .init(bytes: bytes, byScope: ["lan": bytes], byClass: ["paid": bytes])
        for (name, uid) in [("theirs", 0), ("mine", 1_000)] as [(String, UInt32)] {
            let process = ProcessSeries(name: name, uid: uid)
            reading.processes.series.append(.init(name: process, value: bytes))
            reading.processes.overflow[.init(user: uid)] = bytes
            let endpoint = EndpointSeries(process: process, role: .client, host: "\(name).example", route: "/")
            reading.endpoints.series.append(.init(name: endpoint, value: EndpointSeriesCounts()))
            reading.endpoints.overflow[.init(user: uid, role: .client)] = EndpointSeriesCounts()
        }
        reading.interfaces.series = [.init(name: "lo", value: InterfaceCounts())]
        return reading
    }()

    private func get(
        _ path: String = "/metrics",
        as viewer: Viewer = .network,
        accept: String? = nil,
        method: HTTPRequest.Method = .get
    ) async throws -> TestResponse {
        let application = Application(
            router: ControlAPI.router(
                source: self.routes.box,
                cost: self.routes.meter,
                alerts: FakeAlerts(),
                access: .fixed(viewer)
            )
        )
        let headers: HTTPFields = accept.map { [.accept: $0] } ?? [:]
        return try await application.test(.router) { client in
            try await client.executeRequest(uri: path, method: method, headers: headers, body: nil)
        }
    }

    private func lines(_ response: TestResponse) -> [Substring] {
        String(buffer: response.body).split(separator: "\n").filter { $0.first != "#" }
    }

    @Test("The format is the one that the client prefers, and caches must not mix them up")
    func formats() async throws {
        let text = try await self.get()
        #expect(text.status == .ok && text.headers[.contentType] == "text/plain; version=0.0.4; charset=utf-8")
        #expect(text.headers[.vary] == "Accept" && text.headers[.cacheControl] == "no-store")
        let open = try await self.get(accept: "application/openmetrics-text")
        #expect(open.headers[.contentType] == "application/openmetrics-text; version=1.0.0; charset=utf-8")
        #expect(String(buffer: open.body).hasSuffix("# EOF\n") && !String(buffer: text.body).contains("# EOF"))
        let created = try await self.get("/metrics?created=true", accept: "application/openmetrics-text")
        #expect(String(buffer: created.body).contains("_created{"))
        #expect(!String(buffer: open.body).contains("_created"))
        let head = try await self.get(method: .head)
        #expect(head.status == .ok && head.body.readableBytes == 0)
    }

    @Test("Root and clients over TCP see every series")
    func everything() async throws {
        for viewer in [Viewer.administrator, .network] {
            let lines = self.lines(try await self.get(as: viewer))
            for part in ["\"theirs\"", "\"mine\"", "theirs.example", "trafficd_payload_bytes_total", "\"lo\""] {
                #expect(lines.contains { $0.contains(part) }, "\(part)")
            }
        }
    }

    @Test("Another user sees its own series and overflow, and no sum of all users")
    func user() async throws {
        let lines = self.lines(try await self.get(as: .user(1_000)))
        #expect(lines.contains { $0.contains("\"mine\"") } && lines.contains { $0.contains("mine.example") })
        #expect(lines.contains { $0.contains("otel_metric_overflow") && $0.contains("\"1000\"") })
        #expect(!lines.contains { $0.contains("theirs") || $0.contains("process_real_user_id=\"0\"") })
        for hidden in ["trafficd_payload_", "trafficd_wire_", "trafficd_scope_", "trafficd_class_"] {
            #expect(!lines.contains { $0.hasPrefix(hidden) }, "\(hidden)")
        }
        // Every user may read these in /proc/net/dev.
        #expect(lines.contains { $0.contains("\"lo\"") })
    }

    @Test("What a program cost at the last measurement is there from then on")
    func cost() async throws {
        #expect(!self.lines(try await self.get()).contains { $0.hasPrefix("trafficd_bpf_program") })
        let measured = LastMeasurement()
        func application(_ viewer: Viewer) -> some ApplicationProtocol {
            Application(
                router: ControlAPI.router(
                    source: self.routes.box,
                    cost: self.routes.meter,
                    alerts: FakeAlerts(),
                    measured: measured,
                    access: .fixed(viewer)
                )
            )
        }
        // Root measures on the control socket, and a scraper comes over TCP. No connection is needed for
        // either: one would end after 20 seconds of a busy machine.
        try await application(.administrator).test(.router) { client in
            let report = try await client.executeRequest(
                uri: "/v1/doctor?cost=0.1",
                method: .get,
                headers: [:],
                body: nil
            )
            #expect(report.status == .ok)
        }
        try await application(.network).test(.router) { client in
            let metrics = try await client.executeRequest(uri: "/metrics", method: .get, headers: [:], body: nil)
            #expect(String(buffer: metrics.body).contains("trafficd_bpf_program_run_mean_seconds{program="))
        }
    }

    @Test("Unknown and malformed parameters are refused, and a daemon that has just started says so")
    func refusals() async throws {
        try self.routes.expectProblem(try await self.get("/metrics?name=x"), .badRequest, parameter: "name")
        try self.routes.expectProblem(try await self.get("/metrics?created=1"), .badRequest, parameter: "created")
        try self.routes.expectProblem(try await self.get(method: .post), .methodNotAllowed)
        let application = Application(
            router: ControlAPI.router(
                source: ReadingBox(),
                cost: FakeMeter(),
                alerts: FakeAlerts(),
                access: .fixed(.network)
            )
        )
        let response = try await application.test(.router) { client in
            try await client.executeRequest(uri: "/metrics", method: .get, headers: [:], body: nil)
        }
        try self.routes.expectProblem(response, .serviceUnavailable)
        #expect(response.headers[.retryAfter] == "1")
    }
}
