import Foundation
import TestSupport
import Testing
import TrafficDocuments
import TrafficFeed
import TrafficModel
import TrafficQuery

@testable import TrafficHistory

@Suite("The report of a month")
struct MonthTests {
    private static let web = HistoryStoreTests.web
    private static let november = CalendarMonth(year: 2026, month: 11)
    /// The beginning of November 2026 here.
    private static var start: Int64 { Self.november?.start ?? 0 }

    private static func store(_ folder: Folder) throws -> HistoryStore {
        try HistoryStore(path: folder.database, retention: .default, machine: nil).patient()
    }

    /// Whatever the database has, by other arithmetic than ours: the largest twentieth is thrown away, and the largest of
    /// the rest is the percentile, as providers describe it.
    private static func witness(_ folder: Folder, column: String, above rate: UInt64) async throws -> [UInt64] {
        let script = """
            import sqlite3, sys
            rows = sqlite3.connect(sys.argv[1]).execute(
                "SELECT ifnull(sum({0}), 0), counted.seconds, counted.time FROM counted LEFT JOIN (five_minutes JOIN series ON id = series "
                "AND kind = 0) ON counted.time = five_minutes.time WHERE level = '5minute' GROUP BY counted.time ORDER BY counted.time"
                .format(sys.argv[2])).fetchall()
            rates, last = [], int(sys.argv[4]) // 60 - 5
            for bytes, seconds, time in rows:
                # Not more intervals than passed since the last sum.
                n = max(1, min(round(seconds / 300), (time - last) // 5))
                last = time
                rates += [bytes * 8 / (300 * n)] * n
            rates.sort(reverse=True)
            print(int(rates[len(rates) * 5 // 100]), sum(r > int(sys.argv[3]) for r in rates), len(rates))
            """
        let output = try await Tool.run("python3", ["-c", script, folder.database, column, "\(rate)", "\(self.start)"])
            .output
        return output.split(whereSeparator: \.isWhitespace).compactMap { UInt64($0) }
    }

    @Test(
        "the percentile and the intervals above a rate are those of other arithmetic on the same file",
        arguments: 0..<5
    )
    func percentile(seed: UInt64) async throws {
        let folder = try Folder()
        var (store, random): (HistoryStore?, Seeded) = (try Self.store(folder), Seeded(seed))
        // Days with pauses of the daemon, with minutes of which some have more than their own time.
        var (minute, until) = (Int64(0), Int64.random(in: 1_500...2_500, using: &random))
        while minute < until {
            let step = Int64.random(in: 0..<40, using: &random) == 0 ? Int64.random(in: 2...30, using: &random) : 1
            let isCounted = Bool.random(using: &random)
            minute += step - 1
            let sent = UInt64.random(in: 0...50_000_000, using: &random) >> UInt64.random(in: 0..<20, using: &random)
            try store?.add(
                .made(
                    at: Self.start + minute * 60 + .random(in: 0..<60, using: &random),
                    seconds: isCounted ? UInt64(step) * 60 : 60,
                    [Self.web: .sent(sent, sent / 3, wire: sent + 40)]
                )
            )
            minute += 1
        }
        until = Self.start + (minute + 4) / 5 * 300 + 120
        let rate = UInt64(1_000_000)
        let report = try #require(
            try store?.report(MonthQuestion(month: Self.november, exceeding: rate), host: "h", now: until)
        )
        store = nil
        let excess = try #require(report.exceeding)
        let percentile = try #require(report.percentile95)
        for (column, ours, count) in [
            ("sent", percentile.payloadSent, excess.payloadSent),
            ("received", percentile.payloadReceived, excess.payloadReceived),
            ("wire_sent", percentile.wireSent ?? 0, excess.wireSent ?? 0),
        ] {
            let theirs = try await Self.witness(folder, column: column, above: rate)
            #expect(theirs == [ours, count, report.intervals.counted], "\(column)")
        }
        #expect(report.intervals.total == UInt64(minute + 4) / 5 && excess.payloadSent > 0)
        #expect(report.intervals.counted <= report.intervals.total)
        #expect(percentile.wireReceived == 0)
    }

    @Test(
        "of n intervals a twentieth lies above, rounded down",
        arguments: [(1, 1), (19, 19), (20, 19), (21, 20), (39, 38), (40, 38), (100, 95)] as [(UInt64, UInt64)]
    )
    func rank(count: UInt64, expected: UInt64) {
        var rates = IntervalRates()
        // 37.5 bytes are a bit per second for 300 seconds.
        for number in (1...count).shuffled() { rates.add(.sent(number * 75), countedSeconds: 300, most: 1) }
        #expect(rates.percentile95(hasWire: false)?.payloadSent == expected * 2)
        #expect(rates.percentile95(hasWire: false)?.wireSent == nil)
        // At the rate itself an interval is not above; a bit more, and it is.
        #expect(rates.exceeding(2 * count, hasWire: false).payloadSent == 0)
        #expect(rates.exceeding(2 * count - 1, hasWire: false).payloadSent == 1)
        #expect(rates.exceeding(0, hasWire: true).wireSent == 0)
    }

    @Test("bytes of a long time are as many intervals with their average, but no more than there were")
    func long() {
        var rates = IntervalRates()
        rates.add(.sent(3_750), countedSeconds: 3_000, most: 10)
        #expect(rates.count == 10 && rates.percentile95(hasWire: false)?.payloadSent == 10)
        var first = IntervalRates()
        first.add(.sent(3_750), countedSeconds: 3_000, most: 2)
        #expect(first.count == 2 && first.percentile95(hasWire: false)?.payloadSent == 50)
        // A part of an interval is one.
        var part = IntervalRates()
        part.add(.sent(3_750), countedSeconds: 1, most: 9)
        #expect(part.count == 1 && part.percentile95(hasWire: false)?.payloadSent == 100)
        #expect(IntervalRates().percentile95(hasWire: true) == nil)
        var huge = IntervalRates()
        huge.add(.sent(.max), countedSeconds: .max, most: .max)
        #expect(huge.exceeding(.max, hasWire: false).payloadSent == 0)
    }

    @Test("total, average, best day and projection are of the counted time")
    func sums() throws {
        let store = try Self.store(try Folder())
        // The whole 1st, nothing on the 2nd, half of the 3rd.
        for (hour, sent) in [(0, 100), (12, 100), (36, 0), (48, 150)] as [(Int64, UInt64)] where sent > 0 {
            try store.add(
                .made(at: Self.start + hour * 3_600, seconds: 43_200, [Self.web: .sent(sent, 3, wire: 2 * sent)])
            )
        }
        let now = Self.start + 60 * 3_600
        let report = try store.report(MonthQuestion(), host: "h", now: now)
        #expect(report.month == Self.november && report.since.seconds == Self.start && report.until.seconds == now)
        #expect(report.countedSeconds == 3 * 43_200 && report.missingSeconds == 24 * 3_600)
        #expect(report.totals == .sent(350, 9, wire: 700))
        // In 36 hours; 9 * 24 / 36 = 6.
        #expect(report.dailyAverage == .sent(233, 6, wire: 466))
        #expect(report.topDay?.time.seconds == Self.start && report.topDay?.bytes == .sent(200, 6, wire: 400))
        let rest = UInt64(HistoryLevel.month.end(of: Self.start) - now)
        #expect(report.projection?.payload.sent == 350 + 350 * rest / 129_600)
        #expect(report.exceeding == nil)

        let scope = try store.report(MonthQuestion(part: .scope(.localArea)), host: "h", now: now)
        #expect(scope.totals == report.totals && scope.scope == "lan" && scope.percentile95 == report.percentile95)
        let other = try store.report(MonthQuestion(part: .scope(.internet)), host: "h", now: now)
        #expect(other.totals == ByteCounts() && other.countedSeconds == report.countedSeconds && other.topDay == nil)
        #expect(other.percentile95?.payloadSent == 0 && other.percentile95?.wireSent == nil)

        let over = try store.report(
            MonthQuestion(month: Self.november),
            host: "h",
            now: HistoryLevel.month.end(of: Self.start) + 120
        )
        #expect(over.projection == nil && over.totals == report.totals)
        #expect(over.intervals.total == UInt64(HistoryLevel.month.end(of: Self.start) - Self.start) / 300)
        #expect(over.until.seconds == HistoryLevel.month.end(of: Self.start))
    }

    @Test("there is an average when an hour is counted")
    func least() throws {
        let store = try Self.store(try Folder())
        try store.add(.made(at: Self.start, seconds: 3_599, [Self.web: .sent(3_600)]))
        let early = try store.report(MonthQuestion(), host: "h", now: Self.start + 3_600)
        #expect(early.dailyAverage == nil && early.projection == nil && early.totals == .sent(3_600))
        try store.add(.made(at: Self.start + 3_600, seconds: 1, [:]))
        let late = try store.report(MonthQuestion(), host: "h", now: Self.start + 3_600)
        #expect(late.dailyAverage == .sent(86_400))
        #expect(late.projection == .sent(UInt64(HistoryLevel.month.end(of: Self.start) - Self.start)))
    }

    @Test("the interval that is not over, and one whose last minute may be under way, are in no percentile")
    func present() throws {
        let store = try Self.store(try Folder())
        for minute in 0..<10 as Range<Int64> {
            try store.add(.made(at: Self.start + minute * 60, [Self.web: .sent(1)]))
        }
        for (now, count) in [(419, 0), (420, 1), (719, 1), (720, 2)] as [(Int64, UInt64)] {
            let report = try store.report(MonthQuestion(), host: "h", now: Self.start + now)
            #expect(report.intervals == MonthReport.Intervals(total: count, counted: count), "\(now)")
            #expect((report.percentile95 == nil) == (count == 0))
        }
    }

    @Test("months that have not begun, that were before history, and classes that it does not have are refused")
    func refusals() throws {
        let store = try Self.store(try Folder())
        let now = Self.start + 86_400
        func said(_ question: MonthQuestion) -> String {
            let answer = Result { try store.report(question, host: "h", now: now) }
            guard case .failure(let error) = answer else { return "" }
            return "\(error)"
        }
        let (december, october) = (CalendarMonth(year: 2026, month: 12), CalendarMonth(year: 2026, month: 10))
        #expect(said(MonthQuestion(month: december)) == "The month 2026-12 has not begun.")
        #expect(said(MonthQuestion(month: october)).hasPrefix("History is empty:"))
        // The present month is there from the beginning.
        #expect(said(MonthQuestion()) == "")
        try store.add(.made(at: now, [Self.web: .sent(1)]))
        #expect(said(MonthQuestion(month: october)) == "History has nothing of 2026-10. It begins with 2026-11.")
        #expect(said(MonthQuestion(part: .class("paid"))).hasPrefix("History has no class 'paid'. It has none:"))
        var growth = Balance.Growth()
        growth.byClass = ["own": .sent(1), "far": .sent(2)]
        try store.add(HistoryMinute(growth, at: Timestamp(seconds: now), countedSeconds: 60))
        #expect(said(MonthQuestion(part: .class("paid"))) == "History has no class 'paid'. It has far, own.")
        #expect(try store.report(MonthQuestion(part: .class("far")), host: "h", now: now).totals == .sent(2))
    }

    @Test("a day that is removed is not taken for one without traffic, and its intervals are missing")
    func removed() throws {
        let store = try Self.store(try Folder())
        try store.add(.made(at: Self.start, [Self.web: .sent(900)]))
        // So long has the daemon counted meanwhile.
        let later = Self.start + 70 * 86_400
        try store.add(.made(at: later, seconds: 70 * 86_400, [Self.web: .sent(1)]))
        let report = try store.report(MonthQuestion(month: Self.november), host: "h", now: later + 60)
        #expect(report.totals == .sent(900) && report.topDay == nil)
        #expect(report.percentile95 == nil && report.intervals.counted == 0 && report.intervals.total > 8_000)
    }

    @Test(
        "a month is read as people write it",
        arguments: [
            ("2026-11", true), ("1970-01", true), ("9999-12", true), ("2026-13", false), ("2026-00", false),
            ("26-11", false),
            ("2026-1", false), ("2026-11-01", false), ("2026", false), ("", false), ("+026-11", false),
            ("1969-12", false),
            ("२०२६-११", false),
        ]
    )
    func months(text: String, isMonth: Bool) {
        #expect(CalendarMonth(text)?.description == (isMonth ? text : nil))
    }
}
