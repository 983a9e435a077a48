import Foundation
import TestSupport
import Testing
import TrafficDocuments
import TrafficLimits
import TrafficMetrics
import TrafficModel

@testable import TrafficPush

/// What we send, as programs of others read it.
@Suite(
    "The messages of a push",
    .enabled(if: MetricsReceiver.missing == nil, Comment(rawValue: MetricsReceiver.missing ?? "")),
    .timeLimit(.minutes(60))
)
struct PushMessagesTests {
    static let evil = "a\"} 1\n# EOF\\ größe"
    private static let taken = Timestamp(nanosecondsSinceEpoch: 1_800_000_000_500_000_001)
    private static let host = Timestamp(nanosecondsSinceEpoch: 1_700_000_000_000_000_000)
    private static let series = Timestamp(nanosecondsSinceEpoch: 1_750_000_000_000_000_000)

    static func reading() -> MetricsReading {
        let web = ProcessSeries(name: "web", executable: "/usr/bin/web", systemdUnit: "web.service", uid: 33)
        let hostile = ProcessSeries(name: Self.evil, uid: 1_000)
        // Above 2^53, where a Double would round.
        let bytes = ByteCounts(payload: PayloadBytes(sent: 9_007_199_254_740_993, received: 5))
        var reading = MetricsReading(
            takenAt: Self.taken,
            countingSince: Self.host,
            seriesSince: Self.series,
            daemon: DaemonDescription(version: "1.2", pid: 7, startedAt: Timestamp(nanosecondsSinceEpoch: 5)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: ["one"])
        )
        reading.processes.series = [.init(name: web, value: bytes), .init(name: hostile, value: bytes)]
        reading.processes.overflow = [.init(user: 1_000): bytes, .init(user: nil): bytes]
        reading.host = .init(bytes: bytes, byScope: ["lan": bytes])
        var counts = EndpointSeriesCounts(
            counts: EndpointCounts(requests: 3, sent: MessageParts(header: 1, body: 20, rest: 3))
        )
        for microseconds: UInt64 in [4_000, 60_000_000] { counts.durations.record(microseconds) }
        for size: UInt64 in [0, 100, 101, 2_000_000_000] { counts.requestBodies.record(size) }
        counts.responseBodies.record(7)
        reading.endpoints.series = [
            .init(
                name: EndpointSeries(process: web, role: .client, host: "api.example", route: "/u/{id}"),
                value: counts
            )
        ]
        return reading
    }

    private static func points(
        _ form: PushDestination.Form,
        _ reading: MetricsReading
    ) async throws -> [MetricsReceiver.Point] {
        Array(try await Self.requests(form, reading).joined())
    }

    /// What a receiver reads of each body.
    private static func requests(
        _ form: PushDestination.Form,
        _ reading: MetricsReading
    ) async throws -> [[MetricsReceiver.Point]] {
        let receiver = try await MetricsReceiver(root: PushTests.root)
        let bodies = PushBatches.bodies(
            of: MetricsDocument(reading),
            as: form,
            hostName: "host1",
            version: "1.2",
            time: reading.takenAt
        )
        var requests: [[MetricsReceiver.Point]] = []
        for body in bodies {
            let file = FileManager.default.temporaryDirectory.appending(path: "body-\(UUID().uuidString)")
            defer { try? FileManager.default.removeItem(at: file) }
            try Data(body).write(to: file)
            var words = ["-sf", "--data-binary", "@\(file.path)", "-H", "Content-Type: \(form.format.mediaType)"]
            if form.compression == .gzip { words += ["-H", "Content-Encoding: gzip"] }
            // The receiver says what it read before it answers, and that may be long.
            async let sent = Tool.run("curl", words + [receiver.url])
            requests.append(try await receiver.next().points)
            _ = try await sent
        }
        return requests
    }

    @Test(
        "OTLP has every value as it was, below the resource that it is of",
        arguments: PushDestination.Compression.allCases
    )
    func otlp(_ compression: PushDestination.Compression) async throws {
        let points = try await Self.points(.init(format: .otlp, compression: compression), Self.reading())
        func find(
            _ name: String,
            _ resource: [String: MetricsReceiver.Word],
            _ attributes: [String: MetricsReceiver.Word]
        )
            throws -> MetricsReceiver.Point
        {
            let instance =
                resource["process.executable.name"] == .text("web") ? "host1 web /usr/bin/web 33 web.service" : nil
            let common: [String: MetricsReceiver.Word] = [
                "host.name": .text("host1"), "service.name": .text("trafficd"), "service.version": .text("1.2"),
                "os.type": .text("linux"),
            ]
            let found = points.filter { point in
                var rest = point.resource
                let id = rest.removeValue(forKey: "service.instance.id")
                return point.name == name && rest == resource.merging(common) { $1 } && point.attributes == attributes
                    && (instance == nil || id == .text(instance ?? ""))
            }
            #expect(found.count == 1, "\(name) \(attributes)")
            return try #require(found.first)
        }
        let web: [String: MetricsReceiver.Word] = [
            "process.executable.name": .text("web"), "process.executable.path": .text("/usr/bin/web"),
            "process.real_user.id": .whole(33), "systemd.unit": .text("web.service"),
        ]
        let sent = try find("process.network.io", web, ["network.io.direction": .text("transmit")])
        #expect(sent.value == .whole(9_007_199_254_740_993) && sent.unit == "By" && sent.kind == "sum")
        #expect(sent.cumulative == true && sent.start == UInt64(Self.series.nanosecondsSinceEpoch))
        #expect(sent.time == .whole(Self.taken.nanosecondsSinceEpoch))
        let hostile = try find(
            "process.network.io",
            ["process.executable.name": .text(PushMessagesTests.evil), "process.real_user.id": .whole(1_000)],
            ["network.io.direction": .text("receive")]
        )
        #expect(hostile.value == .whole(5))
        let overflow: [String: MetricsReceiver.Word] = [
            "otel.metric.overflow": .flag(true), "network.io.direction": .text("receive"),
        ]
        #expect(try find("process.network.io", ["process.real_user.id": .whole(1_000)], overflow).value == .whole(5))
        let daemon: [String: MetricsReceiver.Word] = [:]
        #expect(try find("process.network.io", daemon, overflow).value == .whole(5))
        let scope = try find(
            "trafficd.scope.payload",
            daemon,
            ["scope": .text("lan"), "network.io.direction": .text("transmit")]
        )
        #expect(scope.value == .whole(9_007_199_254_740_993) && scope.start == UInt64(Self.host.nanosecondsSinceEpoch))
        let endpoint: [String: MetricsReceiver.Word] = [
            "server.address": .text("api.example"), "url.template": .text("/u/{id}"),
        ]
        let durations = try find("http.client.request.duration", web, endpoint)
        #expect(durations.count == 2 && durations.sum == 60.004 && durations.unit == "s")
        #expect(durations.bounds?.count == 14 && durations.bounds?.first == 0.005 && durations.bounds?.last == 10)
        #expect(durations.buckets == [1] + Array(repeating: 0, count: 13) + [1] && durations.cumulative == true)
        let sizes = try find("http.client.request.body.size", web, endpoint)
        #expect(sizes.buckets == [1, 1, 1, 0, 0, 0, 0, 0, 0, 1] && sizes.sum == 2_000_000_201 && sizes.unit == "By")
        #expect(try find("http.client.response.body.size", web, endpoint).buckets == [0, 1, 0, 0, 0, 0, 0, 0, 0, 0])
        let blind = try find("trafficd.blind_spots", daemon, [:])
        #expect(blind.kind == "gauge" && blind.value == .whole(1) && blind.start == 0)
        let method = try find("trafficd.capture.info", daemon, ["method": .text("tracepoint")])
        #expect(method.value == .whole(1))
        // After an upgrade these begin at 0 with the series, while the host's sums go on.
        let reports = try find("trafficd.report.datagrams", daemon, [:])
        #expect(reports.start == UInt64(Self.series.nanosecondsSinceEpoch))
        // No point comes twice, and no two resources look alike to a store that knows only this id.
        let instances = Dictionary(grouping: points) { $0.resource["service.instance.id"] }
        #expect(
            instances.values.allSatisfy { Set($0.map { "\($0.resource)".count }).count == 1 } && instances.count >= 4
        )
        let names = points.map { "\($0.name) \($0.resource) \($0.attributes)" }
        #expect(Set(names).count == names.count)
    }

    @Test("NDJSON has the same points with the same values")
    func lines() async throws {
        let binary = try await Self.points(.init(format: .otlp, compression: .gzip), Self.reading())
        let lines = try await Self.points(.init(format: .ndjson, compression: .gzip), Self.reading())
        #expect(lines.count == binary.count && binary.count > 40)
        let values = { (points: [MetricsReceiver.Point], name: String) in
            points.filter { $0.name == name }.compactMap(\.value).map { "\($0)" }.sorted()
        }
        for name in ["process.network.io", "trafficd.scope.payload", "trafficd.http.client.requests"] {
            #expect(values(lines, name) == values(binary, name) && !values(lines, name).isEmpty, "\(name)")
        }
        let sizes = try #require(lines.first { $0.name == "http.client.request.body.size" })
        #expect(sizes.buckets == [1, 1, 1, 0, 0, 0, 0, 0, 0, 1] && sizes.sum == 2_000_000_201)
        #expect(sizes.resource["process.executable.name"] == .text("web") && sizes.kind == "histogram")
        let sent = try #require(lines.first { $0.name == "process.network.io" })
        #expect(sent.time == .text("2027-01-15T08:00:00.500Z") && sent.startTime == "2025-06-15T15:06:40.000Z")
        let host = try #require(lines.first { $0.name == "trafficd.scope.payload" })
        #expect(host.startTime == "2023-11-14T22:13:20.000Z")
        // What is now has no start.
        #expect(lines.filter { $0.kind == "gauge" }.allSatisfy { $0.startTime == nil })
        #expect(lines.filter { $0.kind != "gauge" && $0.kind != "info" }.allSatisfy { $0.startTime != nil })
    }

    @Test(
        "no request has more points than its limit, and together they have all",
        arguments: [PushDestination.Format.otlp, .ndjson]
    )
    func batches(_ format: PushDestination.Format) async throws {
        var reading = Self.reading()
        reading.processes.series = (0..<SeriesLimits.processes).map { index in
            .init(
                name: ProcessSeries(name: "p\(index)", uid: UInt32(index)),
                value: ByteCounts(payload: PayloadBytes(sent: UInt64(index), received: 1))
            )
        }
        reading.endpoints.series = (0..<SeriesLimits.endpoints).map { index in
            let process = ProcessSeries(name: "p\(index)", uid: UInt32(index))
            let name = EndpointSeries(process: process, role: .server, host: "", route: "/\(index)")
            return .init(name: name, value: reading.endpoints.series[0].value)
        }
        let requests = try await Self.requests(.init(format: format, compression: .gzip), reading)
        let counts = requests.map(\.count)
        #expect(counts.count > 1 && counts.allSatisfy { $0 > 0 && $0 <= PushBatches.mostPoints }, "\(counts)")
        let sent = requests.joined().filter { (point: MetricsReceiver.Point) -> Bool in
            guard point.name == "process.network.io", point.attributes["otel.metric.overflow"] == nil else {
                return false
            }
            return point.attributes["network.io.direction"] == .text("transmit")
        }
        var sum: Int64 = 0
        for point in sent { if case .whole(let value) = point.value { sum += value } }
        #expect(
            sent.count == SeriesLimits.processes
                && sum == Int64(SeriesLimits.processes * (SeriesLimits.processes - 1) / 2)
        )
        #expect(requests.joined().count { $0.name == "http.server.request.duration" } == SeriesLimits.endpoints)
    }
}
