import Testing
import TrafficReport

@testable import TrafficLedger

@Suite("Which bytes of a stream are claimed")
struct CoverageTests {
    @Test("no byte is claimed twice, and no free byte is refused, compared with a set of bytes")
    func exclusive() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<300 {
            var coverage = Coverage()
            var claimed: Set<UInt64> = []
            for _ in 0..<60 {
                let from = UInt64.random(in: 0..<500, using: &random)
                let interval = Report.Interval(from: from, to: from + .random(in: 1...20, using: &random))
                let bytes = Set(interval.from..<interval.to)
                let expected: Coverage.Verdict =
                    claimed.isDisjoint(with: bytes)
                    ? .accepted : claimed.isSuperset(of: bytes) ? .duplicate : .overlapping
                #expect(coverage.claim(interval) == expected)
                if expected == .accepted { claimed.formUnion(bytes) }
                #expect(coverage.bytes == UInt64(claimed.count))
            }
        }
    }

    @Test("interleaved messages share a stretch of the stream, and together have no more bytes than the stretch")
    func interleaved() {
        var coverage = Coverage()
        #expect(coverage.claim(.init(from: 0, to: 100, bytes: 40)) == .accepted)
        #expect(coverage.claim(.init(from: 10, to: 110, bytes: 50)) == .accepted)
        // A short message has its bytes to itself, between the frames of the others.
        #expect(coverage.claim(.init(from: 20, to: 30)) == .accepted)
        #expect(coverage.claim(.init(from: 20, to: 30)) == .duplicate)
        #expect(coverage.claim(.init(from: 0, to: 100, bytes: 11)) == .overlapping)
        #expect(coverage.claim(.init(from: 0, to: 100, bytes: 10)) == .accepted)
        #expect(coverage.bytes == 110)
        #expect(coverage.claim(.init(from: 110, to: 120)) == .accepted)
    }

    @Test("a stream with a thousand gaps takes little room, and still no byte twice")
    func gaps() {
        var coverage = Coverage()
        for index in 0..<1_000 {
            #expect(coverage.claim(.init(from: UInt64(index) * 10, to: UInt64(index) * 10 + 1)) == .accepted)
        }
        #expect(coverage.bytes == 1_000)
        // The oldest gaps are given up.
        #expect(coverage.claim(.init(from: 5, to: 6)) != .accepted)
        #expect(coverage.claim(.init(from: 9_985, to: 9_986)) == .accepted)
    }

    @Test("the length of ranges with one more is known before its insertion, also where ranges merge")
    func lengthAhead() {
        var random = SystemRandomNumberGenerator()
        for limit in [1, 2, 5, 64] {
            var ranges = ByteRanges()
            for _ in 0..<200 {
                let from = UInt64.random(in: 0..<2_000, using: &random)
                let range = from..<from + .random(in: 1...20, using: &random)
                let expected = ranges.length(with: range, limit: limit)
                ranges.insert(range, limit: limit)
                // The range is already in, so it adds nothing.
                #expect(ranges.length(with: range, limit: limit) == expected)
            }
        }
    }

    @Test("the smallest and the largest numbers")
    func extremes() {
        var coverage = Coverage()
        #expect(coverage.claim(.init(from: 0, to: .max)) == .accepted)
        #expect(coverage.claim(.init(from: .max - 1, to: .max)) == .duplicate)
        #expect(coverage.claim(.init(from: 0, to: .max, bytes: .max - 1)) == .overlapping)
        #expect(coverage.bytes == .max)
    }
}
