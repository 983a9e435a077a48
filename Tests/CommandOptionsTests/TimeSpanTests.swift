import CommandOptions
import Testing

@Suite("Times with units")
struct TimeSpanTests {
    @Test(
        "a unit for each number, the larger first; a number alone is seconds",
        arguments: [
            ("1", 1), ("0", 0), ("0.5", 0.5), ("10s", 10), ("500ms", 0.5), ("5m", 300), ("1.5m", 90), ("1h30m", 5_400),
            ("7d", 604_800),
            ("1d2h3m4s5ms", 93_784.005),
        ]
    )
    func good(text: String, seconds: Double) {
        #expect(TimeSpan(argument: text)?.seconds == seconds)
    }

    @Test(
        "any other text is no time",
        arguments: [
            "", " ", "s", "1x", "-1", "-1s", "+1", "1 s", "1s1s", "1s1m", "1h30", "nan", "inf", "1e3", "0x10", ".",
            "1.2.3", "1..2s", "١s",
        ]
    )
    func bad(text: String) {
        #expect(TimeSpan(argument: text) == nil)
    }

    @Test(
        "a time is written in the largest unit without a fraction, and reads back",
        arguments: [
            (0.0, "0s"), (0.1, "100ms"), (1, "1s"), (1.5, "1500ms"), (90, "90s"), (300, "5m"), (7_200, "2h"),
            (86_400, "1d"), (315_360_000, "3650d"),
        ]
    )
    func text(seconds: Double, text: String) {
        #expect(TimeSpan(seconds: seconds).description == text)
        #expect(TimeSpan(argument: text)?.seconds == seconds)
    }
}
