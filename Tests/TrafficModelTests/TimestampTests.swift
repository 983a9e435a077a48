import Foundation
import TestSupport
import Testing
import TrafficModel

@Suite("Times as text")
struct TimestampTests {
    @Test(
        "Known times print as RFC 3339 with milliseconds",
        arguments: [
            (0, "1970-01-01T00:00:00.000Z"), (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999_999_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000_000_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_001_000_000, "2000-03-01T00:00:00.001Z"), (Int64.max, "2262-04-11T23:47:16.854Z"),
            (Int64.min, "1677-09-21T00:12:43.145Z"), (4_107_542_400_000_000_000, "2100-03-01T00:00:00.000Z"),
        ]
    )
    func known(nanoseconds: Int64, text: String) {
        #expect(Timestamp(nanosecondsSinceEpoch: nanoseconds).description == text)
    }

    @Test("Every millisecond prints as Foundation prints it, and reads back")
    func foundation() throws {
        var generator = Seeded(1)
        let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        for _ in 0..<5000 {
            let milliseconds = Int64.random(in: -9_000_000_000_000...9_000_000_000_000, using: &generator)
            let time = Timestamp(nanosecondsSinceEpoch: milliseconds * 1_000_000)
            // Foundation cuts off, and a millisecond's Double is often too small: the test formats the middle.
            let date = Date(timeIntervalSince1970: (Double(milliseconds) + 0.5) / 1000)
            #expect(time.description == style.format(date))
            let read = try JSONDecoder().decode([Timestamp].self, from: Data("[\"\(time)\"]".utf8))
            #expect(read == [time])
        }
    }
}
