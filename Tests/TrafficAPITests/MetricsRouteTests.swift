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
        let metrics = MetricsTexts()
        func application(_ viewer: Viewer) -> some ApplicationProtocol {
            Application(
                router: ControlAPI.router(
                    source: self.routes.box,
                    cost: self.routes.meter,
                    alerts: FakeAlerts(),
                    metrics: metrics,
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

@Suite("The texts of the metrics")
struct MetricsTextTests {
    private static func reading(_ second: Int64, names: Int) -> MetricsReading {
        var reading = MetricsReading(
            takenAt: Timestamp(nanosecondsSinceEpoch: second * 1_000_000_000),
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            daemon: DaemonDescription(version: "1", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: [])
        )
        reading.processes.series = (0..<names).map {
            .init(
                name: ProcessSeries(name: "p\($0)", executable: String(repeating: "x", count: 250), uid: 0),
                value: .init()
            )
        }
        return reading
    }

    @Test("all who ask for a reading get the same text, and a text that nobody reads is gone")
    func shared() async {
        let texts = MetricsTexts()
        let reading = Self.reading(1, names: 1)
        let first = await texts.text(of: reading, as: .text, hasCreated: false, for: .network)
        let second = await texts.text(of: reading, as: .text, hasCreated: false, for: .administrator)
        #expect(first === second)
        let other = await texts.text(of: reading, as: .openMetrics, hasCreated: false, for: .network)
        let own = await texts.text(of: reading, as: .text, hasCreated: false, for: .user(0))
        #expect(other !== first && own !== first)
        #expect(own === (await texts.text(of: reading, as: .text, hasCreated: false, for: .user(0))))
        #expect(own !== (await texts.text(of: reading, as: .text, hasCreated: false, for: .user(1))))
        weak let gone = await texts.text(of: Self.reading(2, names: 1), as: .text, hasCreated: false, for: .network)
        #expect(gone != nil, "until the next reading")
        _ = await texts.text(of: Self.reading(3, names: 1), as: .text, hasCreated: false, for: .network)
        #expect(gone == nil)
    }

    /// The texts of so many readings, one after the other, as clients hold them that do not read.
    private func unread(
        _ texts: MetricsTexts,
        by viewer: Viewer,
        _ readings: Int,
        names: Int
    ) async
        -> [MetricsTexts.Text]
    {
        var held: [MetricsTexts.Text] = []
        for second in 1...readings {
            let reading = Self.reading(Int64(second), names: names)
            held.append(await texts.text(of: reading, as: .text, hasCreated: false, for: viewer))
        }
        return held
    }

    @Test(
        "clients that read slowly do not hold more than the room; the newest text is whole",
        arguments: [
            (.network, 40, 4_000, MetricsTexts.room), (.user(0), 60, 200, MetricsTexts.roomOfUser),
        ] as [(Viewer, Int, Int, Int)]
    )
    func slowReaders(viewer: Viewer, readings: Int, names: Int, room: Int) async {
        let texts = MetricsTexts()
        let held = await self.unread(texts, by: viewer, readings, names: names)
        let kept = held.filter { $0.piece(at: 0, atMost: 1) != nil }
        let length = kept.reduce(0) { $0 + $1.length }
        #expect(kept.count < held.count && kept.last === held.last)
        // One more would be too much.
        #expect(length <= room && length + held[held.count - kept.count - 1].length > room)
        let newest = held[held.count - 1]
        #expect(newest.piece(at: newest.length - 1, atMost: 10)?.readableBytes == 1)
    }

    @Test("a user who reads slowly costs neither scrapers nor other users a text")
    func slowUser() async {
        let texts = MetricsTexts()
        let scraped = await self.unread(texts, by: .network, 2, names: 1)
        let other = await self.unread(texts, by: .user(1), 2, names: 1)
        let slow = await self.unread(texts, by: .user(0), 60, names: 200)
        let again = await texts.text(of: Self.reading(2, names: 1), as: .text, hasCreated: false, for: .network)
        #expect(again === scraped.last)
        #expect(slow.contains { $0.piece(at: 0, atMost: 1) == nil })
        #expect((scraped + other).allSatisfy { $0.piece(at: 0, atMost: 1) != nil })
    }
}
