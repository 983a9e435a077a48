import Foundation
import Testing
import TrafficExport
import TrafficModel

@Suite("Snapshots as CSV")
struct CSVTests {
    @Test("The columns of processes are these")
    func processColumns() {
        var random = RandomSnapshot(seed: 1)
        var snapshot = random.snapshot()
        snapshot.processes = nil
        #expect(
            String(decoding: snapshot.csv(.processes), as: UTF8.self) == """
                taken_at,host_name,pid,start_boottime_ns,started_at,name,executable,command_line,uid,user,systemd_unit,\
                container_id,cgroup,network_namespace,state,exited_at,sockets_open,payload_sent_bytes,\
                payload_received_bytes,pending_sent_bytes,wire_sent_bytes,wire_received_bytes,wire_estimated_bytes,retransmitted_bytes,\
                rates_payload_sent_bytes_per_second,rates_payload_received_bytes_per_second,explained_bytes,unattributed_bytes,\
                process_id\r\n
                """
        )
    }

    @Test("The columns of sockets are these")
    func socketColumns() {
        var random = RandomSnapshot(seed: 1)
        var snapshot = random.snapshot()
        snapshot.sockets = []
        #expect(
            String(decoding: snapshot.csv(.sockets), as: UTF8.self) == """
                taken_at,host_name,serial,cookie,protocol,family,local_address,local_port,remote_address,remote_port,role,scope,class,\
                state,opened_at,closed_at,preexisting,network_namespace,payload_sent_bytes,payload_received_bytes,\
                pending_sent_bytes,wire_sent_bytes,wire_received_bytes,wire_estimated_bytes,retransmitted_bytes,rates_payload_sent_bytes_per_second,\
                rates_payload_received_bytes_per_second,segments_sent,segments_received,retransmitted_segments,\
                smoothed_rtt_us,connect_us,wire_quality,owners,owners_inferred,explained_bytes,unattributed_bytes\r\n
                """
        )
    }

    @Test("The columns of endpoints are these, and an endpoint without durations has as many cells")
    func endpointColumns() throws {
        var random = RandomSnapshot(seed: 1)
        var snapshot = random.snapshot()
        snapshot.host.name = "h"
        let usage = EndpointUsage(
            process: .init(name: "web"),
            role: .server,
            subject: .route(host: "h", route: "/"),
            outcomes: [.ok: 3, .http4xx: 1],
            phases: [.wait: .init(count: 1, sum: 7, max: 7)]
        )
        snapshot.endpoints = [usage]
        let lines = String(decoding: snapshot.csv(.endpoints), as: UTF8.self).split(separator: "\r\n")
        #expect(
            lines[0] == """
                taken_at,host_name,process_name,process_executable,process_systemd_unit,process_container_id,process_uid,role,host,route,requests,responses,\
                outcomes,repeated_responses,sent_line_bytes,sent_header_bytes,sent_cookie_bytes,sent_body_bytes,sent_framing_bytes,sent_tls_bytes,\
                sent_message_bytes,received_line_bytes,received_header_bytes,received_cookie_bytes,received_body_bytes,\
                received_framing_bytes,received_tls_bytes,received_message_bytes,decoded_body_bytes,wire_bytes_estimated,\
                wasted_failed_bytes,wasted_throttled_bytes,wasted_redirected_bytes,content_bytes,duration_count,duration_p50_us,\
                duration_p90_us,duration_p99_us,duration_max_us,phases,quality,content_class
                """
        )
        #expect(
            lines[1].hasSuffix(
                ",h,web,,,,,server,h,/,0,0,http_4xx=1 ok=3,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,,0,0,0,0,,,,,,,wait=7,exact,"
            )
        )
    }

    @Test(
        "A text that begins a formula gets an apostrophe, a number does not",
        arguments: [
            ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@a", "'@a"), ("\t=1", "'\t=1"), ("\r=1", "\"'\r=1\""),
            ("a=1", "a=1"), ("a,b", "\"a,b\""), ("say \"hi\"", "\"say \"\"hi\"\"\""), ("a\nb", "\"a\nb\""), ("", ""),
            ("=a,b", "\"'=a,b\""), ("日本", "日本"), ("a\u{1b}[2J\u{9b}\u{7f}", "a\\x1b[2J\\x9b\\x7f"),
            ("\n=1", "\"'\n=1\""), ("a\u{202e}b\u{61c}", "a\\u202eb\\u061c"),
        ]
    )
    func cells(text: String, cell: String) {
        var random = RandomSnapshot(seed: 2)
        var snapshot = random.snapshot()
        snapshot.host.name = "h"
        var process = random.process()
        process.details = ProcessDetails(name: text, uid: 0)
        snapshot.processes = [process]
        let csv = String(decoding: snapshot.csv(.processes), as: UTF8.self)
        #expect(csv.contains("\(process.identity.startBoottimeNanoseconds),,\(cell),,,0,,"))
    }

    @Test("Python's csv module reads the right number of rows and columns", arguments: 0..<20 as Range<UInt64>)
    func python(seed: UInt64) throws {
        var random = RandomSnapshot(seed: seed)
        var snapshot = random.snapshot()
        snapshot.processes = (0..<5).map { _ in random.process() }
        let program = """
            import csv, io, sys
            rows = list(csv.reader(io.StringIO(sys.stdin.buffer.read().decode(), newline=''), strict=True))
            print(len(rows), len(set(map(len, rows))), rows[0].index('name'))
            """
        let python = try Python.run(program, input: snapshot.csv(.processes))
        #expect(python == Python.Result(status: 0, output: "6 1 5\n"))
    }

    @Test("TSV has the columns of CSV, and the text unchanged except for control characters")
    func tabs() throws {
        var random = RandomSnapshot(seed: 3)
        var snapshot = random.snapshot()
        snapshot.host.name = "h"
        var process = random.process()
        process.details = ProcessDetails(name: "=a\tb\nc\\d\u{1b}[2J\u{9b}\r日\u{2066}", uid: 0)
        snapshot.processes = [process]
        let lines = String(decoding: snapshot.tsv(.processes), as: UTF8.self).split(separator: "\n")
        let header = String(decoding: snapshot.csv(.processes), as: UTF8.self).prefix { $0 != "\r\n" }
        #expect(lines.count == 2 && lines[0] == header.replacing(",", with: "\t"))
        let cells = lines[1].split(separator: "\t", omittingEmptySubsequences: false)
        #expect(cells.count == header.split(separator: ",").count)
        #expect(cells[5] == #"=a\tb\nc\\d\x1b[2J\x9b\x0d日\u2066"#)
    }

    @Test("Exchanges have the fields of their JSON, and an open exchange has as many cells as an ended one")
    func exchanges() {
        var random = RandomSnapshot(seed: 4)
        let snapshot = random.snapshot()
        let reading = Reading(snapshot: snapshot, exchanges: (0..<20).map { _ in random.exchange() })
        let lines = String(decoding: ExchangeReport(reading).tsv(), as: UTF8.self).split(separator: "\n")
        let widths = lines.map { $0.split(separator: "\t", omittingEmptySubsequences: false).count }
        #expect(lines.count == 21 && Set(widths).count == 1)
        #expect(lines[0].hasPrefix("taken_at\thost_name\tpid\tstart_boottime_ns\tprocess_id\tprocess_name\texchange\t"))
    }
}
