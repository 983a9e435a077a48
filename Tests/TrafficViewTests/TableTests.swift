import Testing
import TrafficModel

@testable import TrafficView

@Suite("Tables and the doctor's report")
struct TableTests {
    @Test("aligned tables fit the width by cutting names, not numbers", arguments: [160, 100, 80])
    func aligned(width: Int) throws {
        let snapshot = try Fixture.snapshot(withSockets: true)
        let order = RowOrder(.total)
        for (name, table) in [
            ("processes", Table.processes(snapshot.withProcesses(sortedBy: order))),
            ("sockets", Table.sockets(snapshot.withSockets(sortedBy: order))),
        ] {
            let frame = table.frame(width: width, typeface: Fixture.unicode, units: .bytes)
            FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
            try FrameTests.compare(frame.plainText, with: "table-\(name)-\(width)")
        }
    }

    @Test("piped tables have a tab between cells, exact numbers, and a line per row whatever a name contains")
    func piped() throws {
        let snapshot = try Fixture.snapshot().withProcesses(sortedBy: RowOrder(.name), limit: 4)
        let text = Table.processes(snapshot).tabSeparated(typeface: Fixture.unicode)
        try FrameTests.compare(text, with: "table-piped")
        let lines = text.split(separator: "\n")
        #expect(lines.count == 5)
        #expect(lines.allSatisfy { $0.split(separator: "\t", omittingEmptySubsequences: false).count == 10 })
    }

    @Test("sorting and cutting leave the rest of a snapshot alone")
    func choosing() throws {
        let snapshot = try Fixture.snapshot(withSockets: true)
        let cut = snapshot.withSockets(sortedBy: RowOrder(.rate), limit: 1)
        #expect(cut.sockets?.map(\.cookie.rawValue) == [1])
        #expect(cut.processes == snapshot.processes)
        #expect(
            snapshot.withProcesses(sortedBy: RowOrder(.pid, isReversed: true), limit: 2).processes?.map(\.identity.pid)
                == [4_194_304, 1301]
        )
        #expect(snapshot.withProcesses(sortedBy: RowOrder(.pid), limit: 0).processes == [])
    }

    @Test("the doctor says what is wrong, what it costs and what would help", arguments: [80, 40])
    func doctor(width: Int) throws {
        let snapshot = try Fixture.snapshot()
        let report = DoctorReport(
            capture: CaptureStatus(
                rung: .tracepoint,
                reason: "BPF trampolines are refused (EPERM)",
                hooks: ["tp_btf/sock_send_length", "tp_btf/tcp_rcv_space_adjust"],
                blindSpots: ["Raw sockets are not seen."],
                loss: CaptureLoss(ringFull: 5)
            ),
            daemon: snapshot.daemon,
            host: snapshot.host,
            checks: [
                .init(name: "privileges", status: .ok, detail: "root"),
                .init(
                    name: "trampolines",
                    status: .degraded,
                    detail: "refused by lockdown",
                    remedy: "boot with lockdown=none"
                ),
                .init(
                    name: "bpffs\u{1b}[2J",
                    status: .failed,
                    detail: "not mounted",
                    remedy: "mount -t bpf bpf /sys/fs/bpf"
                ),
            ]
        )
        let frame = DoctorView(typeface: Fixture.unicode, width: width).frame(of: report)
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "doctor-\(width)")
    }
}
