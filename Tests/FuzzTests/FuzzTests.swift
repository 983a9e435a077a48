import FuzzCases
import Testing

/// A short run; `trafficfuzz` makes long ones.
@Suite("Parsers compared with other implementations")
struct FuzzTests {
    @Test("cases from a seed", arguments: Fuzz.subjects.map { $0.name })
    func cases(name: String) throws {
        let subject = try #require(Fuzz.subjects.first { $0.name == name })
        try Fuzz.run(subject, seed: 1, count: 200)
    }
}
