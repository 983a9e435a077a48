import Testing

@testable import trafficd

@Suite("When to make a reading for monitoring systems")
struct MetricsPaceTests {
    private static let second: UInt64 = 1_000_000_000

    @Test("nobody has scraped: never; while somebody scrapes: once a second, and at once for a request")
    func pace() {
        var pace = MetricsPace()
        #expect(!pace.isDue(isAsked: false, at: 10 * Self.second) && !pace.isWanted(at: 10 * Self.second))
        let start = 20 * Self.second
        let asked = pace.isDue(isAsked: true, at: start)
        let soon = pace.isDue(isAsked: false, at: start + Self.second - 1)
        let later = pace.isDue(isAsked: false, at: start + Self.second)
        let again = pace.isDue(isAsked: true, at: start + Self.second + 1)
        #expect(asked && !soon && later && again)
        // Five minutes after the last request.
        let end = start + Self.second + 1 + 300 * Self.second
        let last = pace.isDue(isAsked: false, at: end - 1)
        let after = pace.isDue(isAsked: false, at: end)
        #expect(last && !after && pace.isWanted(at: end - 1) && !pace.isWanted(at: end))
    }
}
