import Testing

@testable import TrafficView

@Suite("Numbers for people")
struct UnitsTests {
    @Test(
        "amounts have three digits and one width",
        arguments: [
            (0, "   0 B "), (1, "   1 B "), (999, " 999 B "), (1000, "1.00 kB"), (1234, "1.23 kB"), (9994, "9.99 kB"),
            (9995, "10.0 kB"), (99_949, "99.9 kB"), (99_950, " 100 kB"), (999_499, " 999 kB"), (999_500, "1.00 MB"),
            (1_500_000_000, "1.50 GB"), (2_000_000_000_000, "2.00 TB"), (UInt64.max, "18.4 EB"),
        ] as [(UInt64, String)]
    )
    func bytes(_ bytes: UInt64, _ text: String) {
        #expect(Units.bytes.amount(bytes) == text)
        #expect(text.utf8.count == Units.bytes.width)
    }

    @Test(
        "bits are eight times as many",
        arguments: [
            (0, "   0 bit "), (1, "   8 bit "), (125, "1.00 kbit"), (1_250_000, "10.0 Mbit"), (UInt64.max, " 148 Ebit"),
        ] as [(UInt64, String)]
    )
    func bits(_ bytes: UInt64, _ text: String) {
        #expect(Units.bits.amount(bytes) == text)
        #expect(text.utf8.count == Units.bits.width)
    }

    @Test("rates that are not numbers print as no rate")
    func strangeRates() {
        #expect(Units.bytes.rate(.nan) == "0 B/s")
        #expect(Units.bytes.rate(-5) == "0 B/s")
        #expect(Units.bytes.rate(.infinity) == "0 B/s")
        #expect(Units.bytes.rate(1e30).hasSuffix(" ZB/s"))
        #expect(Units.bits.rate(1_250_000) == "10.0 Mbit/s")
        #expect(Units.bytes.short(4_870_000) == "4.87M")
    }

    @Test(
        "durations have two units and at most seven cells",
        arguments: [
            (0, "0s"), (59.9, "59s"), (60, "1m 00s"), (3599, "59m 59s"), (3600, "1h 00m"), (86_399, "23h 59m"),
            (86_400, "1d 0h"), (8_639_999, "99d 23h"), (8_640_000, "100d"), (-3, "0s"), (.nan, "0s"), (.infinity, "0s"),
        ] as [(Double, String)]
    )
    func durations(_ seconds: Double, _ text: String) {
        #expect(TimeText.duration(seconds: seconds) == text)
        #expect(text.utf8.count <= 7)
    }

    @Test(
        "round-trip times",
        arguments: [
            (1, "1 us", "1us"), (999, "999 us", "999us"), (1000, "1.00 ms", "1.0ms"), (9_994, "9.99 ms", "10ms"),
            (12_345, "12.3 ms", "12ms"), (340_000, "340 ms", "340ms"), (999_500, "1.0 s", "1s"),
            (12_000_000, "12.0 s", "12s"),
            (UInt64.max, "9999 s", "9999s"),
        ] as [(UInt64, String, String)]
    )
    func roundTrips(_ microseconds: UInt64, _ text: String, _ short: String) {
        #expect(TimeText.roundTrip(microseconds: microseconds) == text)
        #expect(TimeText.shortRoundTrip(microseconds: microseconds) == short)
        #expect(short.utf8.count <= 5)
    }

    @Test("digits stand in threes", arguments: [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")])
    func grouping(_ value: UInt64, _ text: String) {
        #expect(TimeText.grouped(value) == text)
    }

    @Test("a sparkline shows no traffic, the least and the most apart")
    func sparkline() {
        var history = RateHistory()
        for rate in [0, 1, 50, 100] { history.append(Double(rate)) }
        #expect(history.sparkline(width: 6, typeface: Fixture.unicode) == "  ▁▂▅█")
        #expect(history.sparkline(width: 2, typeface: Fixture.unicode) == "▅█")
        #expect(history.sparkline(width: 4, typeface: .ascii) == "_.=#")
        #expect(history.sparkline(width: 0, typeface: .ascii) == "")
        #expect(RateHistory().sparkline(width: 3, typeface: .ascii) == "   ")
    }

    @Test("a history keeps its length, and a sum ends where its parts end")
    func history() {
        var long = RateHistory()
        for rate in 0..<200 { long.append(Double(rate)) }
        #expect(long.samples.count == RateHistory.length)
        #expect(long.samples.last == 199)
        var short = RateHistory()
        short.append(1)
        short.add(long)
        #expect(short.samples.count == RateHistory.length)
        #expect(short.samples.last == 200)
        #expect(short.samples.first == 140)
    }
}
