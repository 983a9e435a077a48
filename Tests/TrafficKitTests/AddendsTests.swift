import Testing

@testable import TrafficKit

@Suite("Numbers that add up to a sum")
struct AddendsTests {
    @Test("one choice, more than one, none")
    func choices() {
        #expect(Addends(of: 0, in: [5, 7]) == .only([false, false]))
        #expect(Addends(of: 12, in: [5, 9, 7, 0]) == .only([true, false, true, false]))
        #expect(Addends(of: 21, in: [5, 9, 7]) == .only([true, true, true]))
        #expect(Addends(of: 7, in: [7, 7]) == .several)
        #expect(Addends(of: 7, in: [5, 2, 7]) == .several)
        #expect(Addends(of: 8, in: [5, 2, 7]) == .none)
        #expect(Addends(of: 8, in: []) == .none)
    }

    @Test("every choice is examined for as many numbers as a peer may send at once, and for no more")
    func limit() {
        // Powers of 2, and one number above the sum, which is no candidate. So each sum has exactly one choice.
        let most = (0..<Addends.mostNumbers).map { UInt64(1) << UInt64($0) }
        let sum = most.reduce(0, +)
        #expect(Addends(of: sum, in: most + [sum + 1]) == .only(most.map { _ in true } + [false]))
        #expect(Addends(of: sum - 1, in: most) == .only([false] + most.dropFirst().map { _ in true }))
        #expect(Addends(of: sum, in: most + [sum]) == .several)
        #expect(Addends(of: sum + 1, in: most + [sum + 1]) == .several)
    }
}
