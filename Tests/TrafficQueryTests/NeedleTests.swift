import TestSupport
import Testing

@testable import TrafficQuery

@Suite("Searching a text for a filter's value")
struct NeedleTests {
    @Test("finds exactly what a plain comparison at each place finds")
    func random() {
        var random = Seeded(11)
        func text(_ most: Int) -> String {
            let count = Int.random(in: 0...most, using: &random)
            return String((0..<count).map { _ in "abA".randomElement(using: &random) ?? "a" })
        }
        var found = 0
        for _ in 0..<20_000 {
            let (needle, hay) = (text(6), text(30))
            let (small, large) = (Array(needle.lowercased().utf8), Array(hay.lowercased().utf8))
            let isThere =
                large.count >= small.count
                && (0...large.count - small.count).contains { large[$0..<$0 + small.count].elementsEqual(small) }
            #expect(Filter.Needle(needle).isPart(of: hay) == isThere, "\(needle) in \(hay)")
            if isThere { found += 1 }
        }
        #expect(found > 2_000 && found < 18_000)
        #expect(!Filter.Needle("a").isPart(of: nil))
    }
}
