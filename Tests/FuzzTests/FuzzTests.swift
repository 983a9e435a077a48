import FuzzCases
import TestSupport
import Testing

/// A short run; `trafficfuzz` makes long ones.
@Suite("Parsers compared with other implementations")
struct FuzzTests {
    @Test("cases from a seed", arguments: Fuzz.subjects.map { $0.name })
    func cases(name: String) throws {
        let subject = try #require(Fuzz.subjects.first { $0.name == name })
        try Fuzz.run(subject, seed: 1, count: 200)
    }

    @Test("HTTP/2: more streams than a connection may have, and a header block that is too long")
    func extreme() throws {
        let subject = HTTP2Fuzz(isExtreme: true)
        for seed in 0..<8 as Range<UInt64> {
            var random = Seeded(seed)
            let finding = try subject.run(&random)
            #expect(finding == nil, "seed \(seed)")
        }
    }
}
