import Foundation
import Testing
import TrafficDocuments
import TrafficExport
import TrafficModel

@Suite("Snapshots as JSON")
struct JSONTests {
    @Test("A snapshot decodes to itself", arguments: 0..<200 as Range<UInt64>)
    func roundTrip(seed: UInt64) throws {
        var random = RandomSnapshot(seed: seed)
        let snapshot = random.snapshot()
        let json = Data(snapshot.json())
        #expect(try JSONDecoder().decode(Snapshot.self, from: json) == snapshot)
        #expect(try JSONSerialization.jsonObject(with: json) is [String: Any])
        #expect(!json.contains(0x0a), "one line")
    }

    @Test("A doctor report decodes to itself", arguments: 0..<50 as Range<UInt64>)
    func report(seed: UInt64) throws {
        var random = RandomSnapshot(seed: seed)
        let report = random.report()
        #expect(try JSONDecoder().decode(DoctorReport.self, from: Data(report.json())) == report)
    }

    @Test("The status of a report is the worst of its checks")
    func worst() {
        var random = RandomSnapshot(seed: 1)
        var report = random.report()
        report.checks = []
        #expect(report.status == .ok)
        report.checks = [.degraded, .failed, .ok].map { DoctorReport.Check(name: "", status: $0, detail: "") }
        #expect(report.status == .failed)
    }

    @Test("Field names are those of the interface, and unknown fields are absent")
    func names() throws {
        var random = RandomSnapshot(seed: 3)
        var snapshot = random.snapshot()
        var process = random.process()
        process.details = ProcessDetails(name: "x", uid: 0)
        process.exitedAt = nil
        process.bytes = ByteCounts()
        process.endpoints = nil
        snapshot.processes = [process]
        let document = try #require(try JSONSerialization.jsonObject(with: Data(snapshot.json())) as? [String: Any])
        let row = try #require((document["processes"] as? [[String: Any]])?.first)
        #expect(
            Set(row.keys) == [
                "pid", "start_boottime_ns", "process_id", "name", "uid", "state", "sockets_open", "payload_sent_bytes",
                "payload_received_bytes", "pending_sent_bytes", "rates", "explained_bytes", "unattributed_bytes",
            ]
        )
        #expect(document["schema_version"] as? Int == 1)
    }

    @Test("A process's own endpoints are in JSON, also where the process reported none; CSV has no place for them")
    func ownEndpoints() throws {
        var random = RandomSnapshot(seed: 3)
        var snapshot = random.snapshot()
        let endpoint = ProcessEndpoint(
            role: .server,
            host: "h",
            route: "/orders/{id}",
            requests: 3,
            responses: 2,
            failures: 1,
            sent: 900,
            received: 70,
            quality: .inferred
        )
        snapshot.processes = [[endpoint], [], nil].map { endpoints in
            var process = random.process()
            process.endpoints = endpoints
            return process
        }
        for json in [snapshot.json(), Array(snapshot.ndjson().split(separator: 10)[1])] {
            let text = String(decoding: json, as: UTF8.self)
            #expect(
                text.contains(
                    #"""
                    "endpoints":[{"role":"server","host":"h","route":"/orders/{id}","requests":3,"responses":2,"failures":1,\#
                    "sent_message_bytes":900,"received_message_bytes":70,"quality":"inferred"}]
                    """#
                )
            )
        }
        let read = try JSONDecoder().decode(Snapshot.self, from: Data(snapshot.json()))
        #expect(read.processes?.map(\.endpoints) == [[endpoint], [], nil])
        #expect(!String(decoding: snapshot.csv(.processes), as: UTF8.self).contains("/orders/{id}"))
    }

    @Test("Rates that JSON has no number for stay finite", arguments: [Double.nan, .infinity, -.infinity])
    func finite(rate: Double) throws {
        var random = RandomSnapshot(seed: 4)
        var snapshot = random.snapshot()
        snapshot.totals.rates = PayloadRates(sent: rate, received: rate)
        let read = try JSONDecoder().decode(Snapshot.self, from: Data(snapshot.json()))
        #expect(read.totals.rates.sent.isFinite)
    }

    @Test("Control characters, line separators and what reorders a line are escaped, other text is not")
    func escapes() {
        var random = RandomSnapshot(seed: 5)
        var report = random.report()
        report.checks = [
            .init(name: "\u{1b}\u{9b}\u{2028}\n\"\\é€👍/", status: .ok, detail: ""),
            .init(name: "a\u{202e}b\u{2067}c\u{61c}\u{200f}ن", status: .ok, detail: ""),
        ]
        let json = String(decoding: report.json(), as: UTF8.self)
        #expect(json.contains(#""name":"a\u202eb\u2067c\u061c\u200fن""#))
        #expect(json.contains(#""name":"\u001b\u009b\u2028\n\"\\é€👍/""#))
    }

    @Test("NDJSON has a line for every row, with the row's kind, time and host")
    func ndjson() throws {
        var random = RandomSnapshot(seed: 9)
        var snapshot = random.snapshot()
        snapshot.processes = [random.process(), random.process()]
        snapshot.exited = [ExitedUsage(group: ProcessGroup(name: "a", uid: 1), processes: 1)]
        snapshot.sockets = [random.socket()]
        snapshot.endpoints = [random.endpoint()]
        snapshot.interfaces = [InterfaceUsage(name: "lo", sentBytes: 1, receivedBytes: 1)]
        let lines = snapshot.ndjson().split(separator: UInt8(ascii: "\n"))
        #expect(snapshot.ndjson().last == UInt8(ascii: "\n"))
        let rows = try lines.map { try #require(try JSONSerialization.jsonObject(with: Data($0)) as? [String: Any]) }
        #expect(
            rows.map { $0["type"] as? String } == [
                "totals", "process", "process", "exited", "socket", "endpoint", "interface",
            ]
        )
        for row in rows {
            #expect(row["taken_at"] as? String == snapshot.takenAt.description)
            #expect(row["host_name"] as? String == snapshot.host.name)
        }
        let decoder = JSONDecoder()
        #expect(try decoder.decode(Totals.self, from: Data(lines[0])) == snapshot.totals)
        let whole = try #require(try JSONSerialization.jsonObject(with: Data(snapshot.json())) as? NSDictionary)
        #expect(rows[0]["capture"] as? NSDictionary == whole["capture"] as? NSDictionary)
        #expect(try decoder.decode(ProcessUsage.self, from: Data(lines[1])) == snapshot.processes?.first)
        #expect(try decoder.decode(SocketUsage.self, from: Data(lines[4])) == snapshot.sockets?.first)
        // In this row `host` is not the machine.
        #expect(try decoder.decode(EndpointUsage.self, from: Data(lines[5])) == snapshot.endpoints?.first)
    }

    @Test("Every format ends its last line", arguments: ExportFormat.allCases)
    func lastLine(format: ExportFormat) {
        var random = RandomSnapshot(seed: 11)
        var snapshot = random.snapshot()
        snapshot.processes = [random.process()]
        #expect(snapshot.encoded(as: format, table: .processes).last == UInt8(ascii: "\n"))
    }
}
