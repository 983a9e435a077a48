import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficView

@Suite("The table of history")
struct HistoryTableTests {
    private static func report(_ by: [HistoryDimension], _ rows: [HistoryRow]) -> HistoryReport {
        HistoryReport(
            host: "h",
            since: Timestamp(nanosecondsSinceEpoch: 0),
            until: Timestamp(nanosecondsSinceEpoch: 1),
            level: .day,
            by: by,
            rows: rows
        )
    }

    private static func lines(_ report: HistoryReport, _ typeface: Typeface = .ascii, width: Int? = nil) -> [String] {
        Table.history(report)
            .frame(width: width, typeface: typeface, units: .bytes).plainText.split(separator: "\n").map(String.init)
    }

    @Test("a row has its names, bytes and a bar; what more there is adds up below")
    func rows() throws {
        var report = Self.report(
            [.process, .user],
            [
                HistoryRow(
                    name: HistoryName(process: "nginx", uid: 33),
                    user: "www-data",
                    bytes: ByteCounts(payload: PayloadBytes(sent: 3_000, received: 1_000), wireSent: 5_000)
                ),
                HistoryRow(
                    name: HistoryName(process: "e\u{1b}[2J", uid: 7),
                    bytes: ByteCounts(payload: PayloadBytes(sent: 1, received: 0))
                ),
            ]
        )
        report.others = HistoryRow(name: HistoryName(), bytes: ByteCounts(payload: PayloadBytes(sent: 9)))
        report.othersCount = 4
        let lines = Self.lines(report)
        #expect(lines.count == 4)
        #expect(lines[0].split(separator: " ") == ["PROCESS", "USER", "SENT", "RECV", "TOTAL", "WIRE"])
        #expect(lines[1].hasPrefix("nginx ") && lines[1].contains("www-data") && lines[1].contains("5.00 kB"))
        #expect(lines[1].hasSuffix(String(repeating: "#", count: 16)))
        // A bar for every byte; and no process can command the terminal.
        #expect(lines[2].contains("e\\x1b[2J") && lines[2].contains(" 7 ") && lines[2].last == "#")
        #expect(lines[3].hasPrefix("4 more ") && lines[3].contains("9 B"))
        #expect(Self.lines(report, Fixture.unicode)[1].hasSuffix("█"))
    }

    @Test("times come first, and a narrow terminal loses the bar before the bytes")
    func times() {
        let row = HistoryRow(
            time: Timestamp(nanosecondsSinceEpoch: 5),
            localTime: HostTime(Timestamp(nanosecondsSinceEpoch: 5), offset: 3_600),
            name: HistoryName(),
            bytes: ByteCounts(payload: PayloadBytes(sent: 1_500, received: 2))
        )
        let lines = Self.lines(Self.report([.total], [row]), width: 34)
        #expect(lines[0].split(separator: " ") == ["TIME", "SENT", "RECV", "TOTAL"])
        #expect(lines[1].hasPrefix("1970-01-01 ") && !lines[1].contains("#"))
    }

    @Test("two sums with the same time say how far the clock was from UTC, and no others")
    func sameTimes() {
        // 2026-10-25T00:00:00Z, and the hours after: the clock goes back at 01:00Z.
        let hours = [(0, 7_200), (1, 3_600), (2, 3_600)].map { hour, offset in
            let time = Timestamp(nanosecondsSinceEpoch: (1_792_886_400 + Int64(hour) * 3_600) * 1_000_000_000)
            return HistoryRow(
                time: time,
                localTime: HostTime(time, offset: Int64(offset)),
                name: HistoryName(),
                bytes: ByteCounts(payload: PayloadBytes(sent: 1))
            )
        }
        var report = Self.report([.total], hours)
        report.level = .hour
        let lines = Self.lines(report)
        #expect(lines[1].hasPrefix("2026-10-25 02:00 +02:00 ") && lines[2].hasPrefix("2026-10-25 02:00 +01:00 "))
        #expect(lines[3].hasPrefix("2026-10-25 03:00  "))
    }

    @Test("rows of messages have requests and their role, and rows of interfaces packets")
    func otherAmounts() throws {
        let counts = EndpointCounts(
            requests: 12,
            ended: 11,
            failures: 3,
            sent: MessageParts(header: 100, body: 0, rest: 20),
            received: MessageParts(header: 300, body: 4_000, rest: 80)
        )
        let name = HistoryName(role: "client", host: "api.example", route: "/users/{id}\u{7}")
        var report = Self.report([.host, .route], [HistoryRow(name: name, amounts: .messages(counts))])
        report.sums = .messages(counts)
        report.others = HistoryRow(name: HistoryName(), amounts: .messages(EndpointCounts(requests: 7)))
        report.othersCount = 2
        let lines = Self.lines(report)
        #expect(
            lines[0].split(separator: " ")
                == ["HOST", "ROUTE", "ROLE", "REQ", "FAIL", "HEADERS", "BODIES", "SENT", "RECV", "TOTAL"]
        )
        #expect(
            lines[1].split(separator: " ").dropLast()
                == [
                    "api.example", "/users/{id}\\x07", "client", "12", "3", "400", "B", "4.00", "kB", "120", "B",
                    "4.38", "kB", "4.50", "kB",
                ]
        )
        #expect(lines[2].hasPrefix("2 more ") && lines[2].contains(" 7 "))
        let packets = InterfaceCounts(sentBytes: 1_500, receivedBytes: 500, sentPackets: 3, receivedPackets: 4)
        report = Self.report(
            [.interface],
            [HistoryRow(name: HistoryName(interface: "eth0"), amounts: .packets(packets))]
        )
        report.sums = .packets(packets)
        let interfaces = Self.lines(report)
        #expect(interfaces[0].split(separator: " ") == ["INTERFACE", "SENT", "RECV", "TOTAL", "PACKETS"])
        #expect(
            interfaces[1].split(separator: " ").dropLast()
                == ["eth0", "1.50", "kB", "500", "B", "2.00", "kB", "7"]
        )
    }
}
