import CommandOptions
import Testing

@Suite("Points in time")
struct PointInTimeTests {
    /// 2026-11-25T10:20:30Z.
    private static let now: Int64 = 1_795_602_030

    @Test(
        "a time ago, and dates in UTC",
        arguments: [
            ("3d", 1_795_602_030 - 259_200), ("90m", 1_795_602_030 - 5_400), ("2026-11-01T00:00:00Z", 1_793_491_200),
            ("2026-11-01 14:30Z", 1_793_543_400), ("1970-01-01Z", 0), ("3650000d", 0),
            ("1w", 1_794_997_230), ("2w1d", 1_794_306_030),
            ("2028-02-29Z", 1_835_395_200), ("2000-02-29Z", 951_782_400),
        ]
    )
    func good(text: String, seconds: Int64) {
        #expect(PointInTime(argument: text)?.seconds(now: Self.now) == seconds)
    }

    @Test("the beginning of an hour, day, month and year is not after now, and a date reads as it is written")
    func beginnings() throws {
        var last = Self.now
        for word in ["hour", "day", "month", "year"] {
            let begin = try #require(PointInTime(argument: word)).seconds(now: Self.now)
            #expect(begin <= last && begin >= Self.now - 366 * 86_400)
            last = begin
        }
        #expect(PointInTime(argument: "today") == PointInTime(argument: "day"))
        let day = try #require(PointInTime(argument: "day")).seconds(now: Self.now)
        let yesterday = try #require(PointInTime(argument: "yesterday"))
        #expect(yesterday.seconds(now: Self.now) == PointInTime(argument: "day")?.seconds(now: day - 1))
        let month = try #require(PointInTime(argument: "month")).seconds(now: Self.now)
        let lastMonth = try #require(PointInTime(argument: "last-month"))
        #expect(lastMonth.seconds(now: Self.now) == PointInTime(argument: "month")?.seconds(now: month - 1))
        // Also in January.
        let january = try #require(PointInTime(argument: "2026-01-15")).seconds(now: 0)
        #expect(lastMonth.seconds(now: january) == PointInTime(argument: "2025-12-01")?.seconds(now: 0))
        #expect(PointInTime(argument: "2026-11") == PointInTime(argument: "2026-11-01"))
        #expect(yesterday.description == "yesterday" && lastMonth.description == "last-month")
        for text in ["2026-11-01T14:30:00", "2026-11-01T14:30:00Z"] {
            #expect(PointInTime(argument: text)?.description == text)
        }
    }

    @Test(
        "any other text is no time",
        arguments: [
            "", "3", "last-year", "2026", "2026-13", "2026-1", "2026-13-01", "2026-11-32", "2026-11-01T",
            "2026-11-01T25:00",
            "2026-11-01T10", "2026-11-01T10:00:00:00", "1969-12-31", "-1d", "26-11-01", "2026-11-01TZ", "20261-1-1",
            "２０２６-11-01", "2026-02-31", "2026-11-31", "2025-02-29", "2100-02-29", "2026-04-31T10:00Z",
        ]
    )
    func bad(text: String) {
        #expect(PointInTime(argument: text) == nil)
    }
}
