import TestSupport
import Testing
import TrafficDocuments
import TrafficLimits
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

    @Test("without a width every column is there, as wide as it takes")
    func unlimited() throws {
        let snapshot = try Fixture.snapshot().withProcesses(sortedBy: RowOrder(.name), limit: 4)
        let frame = Table.processes(snapshot).frame(width: nil, typeface: Fixture.unicode, units: .bytes)
        try FrameTests.compare(frame.plainText, with: "table-processes-unlimited")
    }

    @Test("bytes of calls that have not returned have a column of their own, where there are any")
    func pending() throws {
        var snapshot = try Fixture.snapshot(withSockets: true)
        for index in snapshot.processes?.indices ?? 0..<0 { snapshot.processes?[index].bytes.pendingSent = 0 }
        for index in snapshot.sockets?.indices ?? 0..<0 { snapshot.sockets?[index].bytes.pendingSent = 0 }
        func lines(_ table: Table) -> [Substring] {
            table.frame(width: nil, typeface: .ascii, units: .bytes).plainText.split(separator: "\n")
        }
        #expect(lines(Table.processes(snapshot))[0].hasSuffix("RECV"))
        #expect(!lines(Table.sockets(snapshot))[0].contains("PENDING"))
        snapshot.processes?[0].bytes.pendingSent = 77
        snapshot.sockets?[0].bytes.pendingSent = 77
        let sent = Units.bytes.amount(try #require(snapshot.processes?[0].bytes.payload.sent))
        let processes = lines(Table.processes(snapshot))
        #expect(
            processes[0].hasSuffix("PENDING") && processes[1].hasSuffix("77 B") && processes[1].contains(" \(sent) ")
        )
        #expect(lines(Table.sockets(snapshot))[1].contains(" 77 B "))
    }

    @Test("Endpoints: a narrow table drops columns, but keeps host, route and bytes", arguments: [160, 80])
    func endpoints(width: Int) throws {
        let snapshot = try Fixture.snapshotWithEndpoints().withEndpoints(sortedBy: .received, limit: 5)
        let frame = Table.endpoints(snapshot).frame(width: width, typeface: Fixture.unicode, units: .bytes)
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "table-endpoints-\(width)")
    }

    @Test("Endpoints by host and by type have a column for that alone", arguments: [EndpointGrouping.host, .type])
    func groupedEndpoints(by grouping: EndpointGrouping) throws {
        let snapshot = try Fixture.readingWithEndpoints().grouped(by: grouping).snapshot.withEndpoints(sortedBy: .sent)
        let frame = Table.endpoints(snapshot, by: grouping).frame(width: 120, typeface: Fixture.unicode, units: .bytes)
        FrameTests.check(frame, width: 120, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "table-endpoints-by-\(grouping.rawValue)-120")
    }

    @Test(
        "Endpoints have the requested order, and equal endpoints are ordered by name",
        arguments: [
            (EndpointSortKey.total, "/images/{name}"), (.sent, "/images/{name}"), (.received, "/orders/{id}"),
            (.requests, "/orders/{id}"), (.failures, "/login"), (.wasted, "/login"),
            (.host, "/v2/charges/{id}/captures"),
            (.route, "/"), (.p90, "/v2/charges/{id}/captures"), (.process, "/v2/charges/{id}/captures"),
        ]
    )
    func endpointOrder(key: EndpointSortKey, first: String) throws {
        let sorted = try Fixture.snapshotWithEndpoints().withEndpoints(sortedBy: key).endpoints
        let other = try Fixture.snapshotWithEndpoints().withEndpoints(sortedBy: key, reversed: true).endpoints
        #expect(sorted.map { Array($0.reversed()) } == other)
        let printable = sorted?.first { $0.route?.contains("\u{1b}") == false }
        #expect(sorted?.count == 6 && printable?.route == first)
    }

    @Test("exchanges have the requested order; the limit keeps the newest, or the first of the order")
    func exchangeOrder() throws {
        let exchanges = try ([(1, 200), (2, 503), (3, 404)] as [(UInt64, UInt16)]).map { number, status in
            var exchange = try Fixture.exchange(number, status: status, outcome: .ok)
            exchange.duration = [50, 900, 10][Int(number) - 1]
            return exchange
        }
        let report = ExchangeReport(Reading(snapshot: try Fixture.snapshot(), exchanges: exchanges))
        func order(_ key: ExchangeSortKey, reversed: Bool = false, limit: Int? = nil) -> [UInt64] {
            report.sorted(by: key, reversed: reversed, limit: limit).exchanges.map(\.exchange)
        }
        #expect(order(.started) == [1, 2, 3] && order(.started, limit: 2) == [2, 3])
        #expect(order(.started, reversed: true, limit: 2) == [3, 2])
        #expect(order(.time) == [2, 1, 3] && order(.time, limit: 1) == [2])
        #expect(order(.status) == [2, 3, 1] && order(.time, reversed: true) == [3, 1, 2])
    }

    @Test("exchanges: ended ones and open ones", arguments: [160, 80])
    func exchanges(width: Int) throws {
        let exchanges = [
            try Fixture.exchange(1, status: 200, outcome: .ok), try Fixture.exchange(2, status: 503, outcome: .http5xx),
            try Fixture.exchange(3, status: 200, outcome: nil), try Fixture.exchange(4, status: nil, outcome: nil),
        ]
        let table = Table.exchanges(exchanges)
        let frame = table.frame(width: width, typeface: Fixture.unicode, units: .bytes)
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "table-exchanges-\(width)")
        #expect(table.rows.map { $0[9] } == [.text("ok"), .text("http_5xx"), .text("receiving"), .text("waiting")])
    }

    @Test("ten letters show the phases, each letter a tenth of the time")
    func phaseBar() {
        #expect(PhaseBar.text([:]) == "")
        #expect(PhaseBar.text([.wait: 0]) == "")
        #expect(PhaseBar.text([.wait: 1]) == "wwwwwwwwww")
        #expect(PhaseBar.text([.dns: 10, .connect: 10, .tls: 20, .send: 10, .wait: 30, .receive: 20]) == "dcttswwwrr")
        #expect(PhaseBar.text([.send: 1, .wait: 1, .receive: 1]) == "sssswwwrrr")
        #expect(PhaseBar.text([.wait: .max, .receive: .max]) == "wwwwwrrrrr")
        #expect(PhaseBar.text([.connect: 1, .wait: 1_000_000]) == "wwwwwwwwww")
    }

    @Test("sockets have a column of classes where there are classes")
    func classes() throws {
        let snapshot = try Fixture.snapshotWithClasses().withSockets(sortedBy: RowOrder(.total))
        let frame = Table.sockets(snapshot).frame(width: 160, typeface: Fixture.unicode, units: .bytes)
        FrameTests.check(frame, width: 160, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "table-sockets-classes-160")
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

    @Test(
        "the cost of counting is a table with its total, and a program that was not called has no time",
        arguments: [80, 40, 20]
    )
    func cost(width: Int) throws {
        let frame = DoctorView(typeface: Fixture.unicode, width: width).frame(of: try self.report(cost: Self.cost))
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        try FrameTests.compare(frame.plainText, with: "doctor-cost-\(width)")
    }

    private static let cost = CaptureCost(
        seconds: 2.0004,
        programs: [
            CaptureCost.Program(
                name: "sock_send_length",
                hook: "tp_btf/sock_send_length",
                growth: ProgramCounters(runs: 40_001, nanoseconds: 6_521_000),
                seconds: 2.0004
            ),
            CaptureCost.Program(
                name: "adopt_held_sockets",
                hook: "iter/task_file",
                growth: ProgramCounters(missed: 3),
                seconds: 2.0004
            ),
        ],
        statisticsWereOn: false,
        emptyProgramNanoseconds: 58.7,
        statisticsNanoseconds: 77
    )

    @Test("without programs the cost says so; with foreign statistics the cost says who may have switched them on")
    func otherCosts() throws {
        let view = DoctorView(typeface: Fixture.unicode, width: 200)
        let none = view.frame(of: try self.report(cost: CaptureCost(seconds: 0, programs: [])))
        #expect(none.plainText.contains("none in the kernel") && !none.plainText.contains("NS/CALL"))
        var cost = Self.cost
        cost.statisticsWereOn = true
        cost.statisticsNanoseconds = nil
        let shared = view.frame(of: try self.report(cost: cost)).plainText
        #expect(shared.contains("were on before (sysctl kernel.bpf_stats_enabled") && !shared.contains("longer"))
    }

    @Test("the doctor shows the limits on request")
    func limits() throws {
        var report = try self.report(cost: Self.cost)
        report.cost = nil
        report.limits = [
            .init(of: "sockets listed", user: 2_048, all: 16_384, beyond: "the oldest leave the list"),
            .init(of: "claims that wait", process: 7, user: 8, beyond: "decided at once"),
        ]
        let view = DoctorView(typeface: .ascii, width: 80)
        #expect(!view.frame(of: report).plainText.contains("sockets listed"))
        let text = view.frame(of: report, showsLimits: true).plainText
        let lines = [
            "sockets listed", "a user 2,048, all 16,384", "beyond: the oldest leave the list", "a process 7, a user 8",
        ]
        for line in lines {
            #expect(text.contains(line), "\(line)")
        }
        report.limits = nil
        #expect(view.frame(of: report, showsLimits: true).plainText.contains("this daemon tells none"))
    }

    private func report(cost: CaptureCost) throws -> DoctorReport {
        let snapshot = try Fixture.snapshot()
        let capture = CaptureStatus(method: .tracepoint, hooks: ["tp_btf/sock_send_length"], blindSpots: [])
        return DoctorReport(
            capture: capture,
            daemon: snapshot.daemon,
            host: snapshot.host,
            checks: [.init(name: "losses", status: .ok, detail: "none")],
            cost: cost
        )
    }

    @Test("where only poll is left, the doctor begins with that", arguments: [80, 40])
    func polled(width: Int) throws {
        let snapshot = try FrameTests.polled()
        let report = DoctorReport(
            capture: snapshot.capture,
            daemon: snapshot.daemon,
            host: snapshot.host,
            checks: [.init(name: "method", status: .degraded, detail: "poll", remedy: "mend the kernel")]
        )
        let frame = DoctorView(typeface: Fixture.unicode, width: width).frame(of: report)
        FrameTests.check(frame, width: width, height: .max, typeface: Fixture.unicode)
        #expect(frame.plainText.hasPrefix("NOT EXACT: every exact method is"))
        try FrameTests.compare(frame.plainText, with: "doctor-poll-\(width)")
    }

    @Test("the doctor says what is wrong, what it costs and what would help", arguments: [80, 40])
    func doctor(width: Int) throws {
        let snapshot = try Fixture.snapshot()
        var reports = ReportCounters()
        (reports.datagrams, reports.missingDatagrams, reports.records) = (12_345, 3, 2_000_000)
        let report = DoctorReport(
            capture: CaptureStatus(
                method: .tracepoint,
                reason: "BPF trampolines are refused (EPERM)",
                hooks: ["tp_btf/sock_send_length", "tp_btf/tcp_rcv_space_adjust"],
                blindSpots: ["Raw sockets are not seen."],
                loss: CaptureLoss(ringFull: 5),
                reports: reports
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
