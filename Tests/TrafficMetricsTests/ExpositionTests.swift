import Foundation
import TestSupport
import Testing
import TrafficDocuments
import TrafficMetrics
import TrafficModel

/// What we write, as programs of others read it.
@Suite("The text of the metrics", .enabled(if: Prometheus.missing == nil, Prometheus.comment))
struct ExpositionTests {
    /// A name as a hostile user would choose it.
    private static let evil = "a\"} 1\n# EOF\\"

    private static func reading() -> MetricsReading {
        var bytes = ByteCounts(payload: PayloadBytes(sent: 9_007_199_254_740_991, received: 5))
        let plain = ProcessSeries(name: "web", executable: "/usr/bin/web", systemdUnit: "web.service", uid: 33)
        let hostile = ProcessSeries(name: Self.evil, executable: "/tmp/größe", uid: 1_000)
        var reading = MetricsReading(
            takenAt: Timestamp(nanosecondsSinceEpoch: 1_800_000_000_500_000_000),
            countingSince: Timestamp(nanosecondsSinceEpoch: 1_700_000_000_250_000_000),
            daemon: DaemonDescription(version: "1.2", pid: 7, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .tracepoint, hooks: [], blindSpots: ["one", "two"])
        )
        reading.processes.series = [.init(name: plain, value: bytes)]
        bytes.wireSent = 7
        bytes.wireReceived = 8
        bytes.wireEstimated = 5
        bytes.retransmitted = 9
        reading.processes.series.append(.init(name: hostile, value: bytes))
        reading.processes.overflow = [.init(user: 1_000): bytes, .init(user: nil): ByteCounts()]
        reading.host = .init(bytes: bytes, byScope: ["lan": bytes, "internet": ByteCounts()], byClass: ["paid": bytes])
        var durations = DurationBuckets()
        for microseconds: UInt64 in [4_000, 30_000, 2_000_000, 60_000_000] { durations.record(microseconds) }
        let counts = EndpointCounts(
            requests: 5,
            ended: 4,
            failures: 2,
            repeated: 1,
            sent: MessageParts(header: 10, body: 20, rest: 3),
            received: MessageParts(header: 100, body: 200, rest: 30)
        )
        reading.endpoints.series = [
            .init(
                name: EndpointSeries(process: plain, role: .client, host: "api.example", route: "/users/{id}"),
                value: EndpointSeriesCounts(counts: counts, durations: durations)
            ),
            .init(
                name: EndpointSeries(process: hostile, role: .server, host: "", route: Self.evil),
                value: EndpointSeriesCounts(counts: counts, durations: durations)
            ),
        ]
        reading.endpoints.overflow = [.init(user: 1_000, role: .server): EndpointSeriesCounts(counts: counts)]
        reading.interfaces.series = [.init(name: "eth0", value: InterfaceCounts(sentBytes: 1, receivedBytes: 2))]
        reading.interfaces.overflow = [.init(user: nil): InterfaceCounts(sentBytes: 3)]
        reading.capture.loss.missedRuns = 11
        reading.capture.loss.uncountedNanoseconds = 1_500_000_000
        reading.capture.reports.joined = 12
        reading.capture.reports.foreign = 13
        return reading
    }

    /// A document with every metric that there is.
    static var everything: MetricsDocument { Self.document(Self.reading()) }

    private static func document(_ reading: MetricsReading) -> MetricsDocument {
        let counters = ProgramCounters(runs: 10, nanoseconds: 2_000, missed: 0)
        let program = CaptureCost.Program(name: "socket_state", hook: "tp_btf/x", growth: counters, seconds: 2)
        return MetricsDocument(
            reading,
            cost: MeasuredCost(
                CaptureCost(seconds: 2, programs: [program]),
                at: Timestamp(nanosecondsSinceEpoch: 1_000_000_000)
            ),
            process: OwnProcess.now(),
            push: [Self.push]
        )
    }

    private static var push: PushStatus {
        var status = PushStatus(destination: "http://h/\"x")
        (status.delivered, status.failed, status.refused) = (3, 2, 1)
        (status.waiting, status.dropped, status.rejectedPoints) = (4, 5, 6)
        status.lastDelivery = Timestamp(nanosecondsSinceEpoch: 1_500_000_000)
        return status
    }

    @Test("a reader of others reads every value as it was, in both formats", arguments: MetricsFormat.allCases)
    func values(_ format: MetricsFormat) throws {
        let samples = try Prometheus.samples(of: Self.everything.encoded(as: format), format)
        let web = [
            "process_executable_name": "web", "process_executable_path": "/usr/bin/web", "process_real_user_id": "33",
            "systemd_unit": "web.service",
        ]
        let hostile = [
            "process_executable_name": Self.evil, "process_executable_path": "/tmp/größe",
            "process_real_user_id": "1000",
        ]
        let overflow = ["process_real_user_id": "1000", "otel_metric_overflow": "true"]
        func value(_ name: String, _ labels: [String: String], _ more: [String: String] = [:]) -> Double? {
            samples[Prometheus.Sample(name: name, labels: labels.merging(more) { $1 })]
        }
        let (sent, received) = (["network_io_direction": "transmit"], ["network_io_direction": "receive"])
        #expect(value("process_network_io_bytes_total", web, sent) == 9_007_199_254_740_991)
        #expect(value("process_network_io_bytes_total", web, received) == 5)
        let push = ["push_destination": "http://h/\"x"]
        #expect(value("trafficd_push_requests_total", push, ["outcome": "failed"]) == 2)
        #expect(value("trafficd_push_requests_waiting", push) == 4)
        #expect(value("trafficd_push_last_delivery_timestamp_seconds", push) == 1.5)
        // What is not counted has no line, and what is 0 has one.
        #expect(value("trafficd_process_wire_bytes_total", web, sent) == nil)
        #expect(value("trafficd_process_wire_bytes_total", hostile, received) == 8)
        #expect(value("trafficd_process_wire_estimated_bytes_total", web, [:]) == nil)
        #expect(value("trafficd_process_wire_estimated_bytes_total", hostile, [:]) == 5)
        #expect(value("trafficd_wire_estimated_bytes_total", [:], [:]) == 5)
        #expect(value("trafficd_process_retransmitted_bytes_total", overflow) == 9)
        #expect(value("process_network_io_bytes_total", ["otel_metric_overflow": "true"], sent) == 0)

        let client = web.merging(["server_address": "api.example", "url_template": "/users/{id}"]) { $1 }
        let server = hostile.merging(["http_route": Self.evil.replacing("\n", with: "\u{fffd}")]) { $1 }
        #expect(value("trafficd_http_client_requests_total", client) == 5)
        #expect(value("trafficd_http_client_failures_total", client) == 2)
        #expect(value("trafficd_http_client_repeated_responses_total", client) == 1)
        #expect(value("trafficd_http_client_message_bytes_total", client, sent) == 33)
        #expect(value("trafficd_http_server_body_bytes_total", server, received) == 200)
        #expect(value("trafficd_http_server_requests_total", overflow) == 5)
        #expect(value("trafficd_http_client_requests_total", overflow) == nil)
        for (bound, count) in [("0.005", 1), ("0.025", 1), ("0.05", 2), ("0.75", 2), ("2.5", 3), ("+Inf", 4)] {
            #expect(value("http_client_request_duration_seconds_bucket", client, ["le": bound]) == Double(count))
        }
        #expect(
            value("http_client_request_duration_seconds_bucket", client, ["le": "1.0"]) == (format == .text ? nil : 2)
        )
        #expect(
            value("http_client_request_duration_seconds_bucket", client, ["le": "1"]) == (format == .text ? 2 : nil)
        )
        #expect(value("http_client_request_duration_seconds_count", client) == 4)
        #expect(value("http_client_request_duration_seconds_sum", client) == 62.034)

        #expect(value("trafficd_scope_payload_bytes_total", ["scope": "lan"], received) == 5)
        #expect(value("trafficd_class_wire_bytes_total", ["class": "paid"], sent) == 7)
        #expect(value("system_network_io_bytes_total", ["network_interface_name": "eth0"], received) == 2)
        #expect(value("system_network_io_bytes_total", ["otel_metric_overflow": "true"], sent) == 3)
        #expect(value("trafficd_capture_lost_total", ["reason": "missed_runs"]) == 11)
        #expect(value("trafficd_uncounted_seconds_total", [:]) == 1.5)
        #expect(value("trafficd_report_claims_total", ["quality": "exact"]) == 12)
        #expect(value("trafficd_report_records_rejected_total", ["reason": "foreign"]) == 13)
        #expect(value("trafficd_capture_info", ["method": "tracepoint"]) == 1)
        #expect(value("trafficd_build_info", ["version": "1.2"]) == 1)
        #expect(
            value("trafficd_bpf_program_run_mean_seconds", ["program": "socket_state", "hook": "tp_btf/x"]) == 2e-7
        )
        #expect(value("trafficd_series_names", ["kind": "process"]) == 2)
        #expect(value("trafficd_counting_start_timestamp_seconds", [:]) == 1_700_000_000.25)
        #expect(value("process_resident_memory_bytes", [:]) ?? 0 > 1_000_000)
        #expect(value("process_open_fds", [:]) ?? 0 > 2)
        // The hostile name is a value, and no line of its own.
        #expect(
            !samples.keys.contains {
                $0.name.hasPrefix("a\"") || $0.labels.keys.contains { $0.contains("a") && $0.contains("\"") }
            }
        )
    }

    @Test("lines _created are there on request only, and only in OpenMetrics")
    func created() throws {
        let document = Self.everything
        func created(_ format: MetricsFormat, _ isAsked: Bool) throws -> [Prometheus.Sample: Double] {
            try Prometheus.samples(of: document.encoded(as: format, hasCreated: isAsked), format)
                .filter { $0.key.name.hasSuffix("_created") }
        }
        #expect(try created(.openMetrics, false).isEmpty && created(.text, true).isEmpty)
        let lines = try created(.openMetrics, true)
        #expect(lines.count > 20)
        for (sample, time) in lines {
            // The daemon of the test has started at the beginning of time.
            let isOfDaemon = sample.name.hasPrefix("process_cpu") || sample.name.hasPrefix("trafficd_push")
            #expect(time == (isOfDaemon ? 0 : 1_700_000_000.25), "\(sample.name)")
        }
    }

    @Test("promtool finds nothing to complain about")
    func promtool() throws {
        let said = try Tool.wait(
            for: "promtool",
            ["check", "metrics"],
            input: Data(Self.everything.encoded(as: .text)),
            mayFail: true
        )
        #expect(said.status == 0 && said.output + said.error == "")
    }

    @Test("a daemon that has counted nothing has valid metrics too", arguments: MetricsFormat.allCases)
    func empty(_ format: MetricsFormat) throws {
        let nothing = MetricsReading(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            daemon: DaemonDescription(version: "", pid: 1, startedAt: Timestamp(nanosecondsSinceEpoch: 0)),
            capture: CaptureStatus(method: .poll, hooks: [], blindSpots: [])
        )
        let samples = try Prometheus.samples(of: MetricsDocument(nothing).encoded(as: format), format)
        #expect(samples[Prometheus.Sample(name: "trafficd_series_names", labels: ["kind": "endpoint"])] == 0)
        #expect(!samples.keys.contains { $0.name.hasPrefix("process_network_io") })
    }
}
