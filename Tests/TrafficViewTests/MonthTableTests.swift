import Testing
import TrafficDocuments
import TrafficModel

@testable import TrafficView

@Suite("The table of a month")
struct MonthTableTests {
    private static func report() throws -> MonthReport {
        let month = try #require(CalendarMonth(year: 2026, month: 11))
        let time = Timestamp(nanosecondsSinceEpoch: 0)
        return MonthReport(host: "h", month: month, since: time, until: time)
    }

    private static func lines(_ report: MonthReport, width: Int? = nil) -> [String] {
        Table.month(report, units: .bytes)
            .frame(width: width, typeface: .ascii, units: .bytes).plainText.split(separator: "\n").map(String.init)
    }

    @Test("each number has a line, and what is not known has none")
    func rows() throws {
        var report = try Self.report()
        report.totals = ByteCounts(payload: PayloadBytes(sent: 3_000, received: 1_000))
        let few = Self.lines(report)
        #expect(
            few.map { $0.split(separator: " ").joined(separator: " ") } == [
                "SENT RECV BOTH", "total 3.00 kB 1.00 kB 4.00 kB",
            ]
        )
        #expect(report.notes(width: nil, typeface: .ascii).count == 2)

        report.totals.wireSent = 5_000
        report.dailyAverage = report.totals
        report.topDay = MonthReport.Day(
            time: report.since,
            localTime: HostTime(Timestamp(nanosecondsSinceEpoch: 1_794_009_600_000_000_000), offset: 3_600),
            bytes: report.totals
        )
        report.projection = report.totals
        report.intervals = MonthReport.Intervals(total: 30, counted: 20)
        report.percentile95 = MonthReport.BitRates(payloadSent: 12_300_000, payloadReceived: 999, wireSent: 0)
        report.exceeding = MonthReport.Excess(
            bitsPerSecond: 100_000_000,
            payloadSent: 7,
            payloadReceived: 0,
            wireSent: 8
        )
        let all = Self.lines(report, width: 80)
        #expect(all.count == 7 && all.allSatisfy { $0.count <= 80 })
        #expect(all[0].contains("WIRE SENT") && all[1].contains("5.00 kB") && all[1].hasSuffix("-"))
        #expect(all[3].hasPrefix("most, on 2026-11-07 ") && all[4].hasPrefix("projection "))
        #expect(all[5].contains("12.3 Mbit/s") && all[5].contains("999 bit/s") && all[5].hasPrefix("95th percentile"))
        #expect(all[6].split(separator: " ").joined(separator: " ") == "above 100 Mbit/s 7 0 - 8 -")
        // A narrow terminal loses the packets first.
        #expect(!Self.lines(report, width: 60)[0].contains("WIRE SENT"))
        let notes = report.notes(width: 80, typeface: .ascii)
        #expect(notes.allSatisfy { $0.count <= 80 })
        #expect(
            notes.joined(separator: " ").contains("of 20 intervals")
                && notes.joined(separator: " ").contains("10 intervals that were not counted")
        )
    }
}
