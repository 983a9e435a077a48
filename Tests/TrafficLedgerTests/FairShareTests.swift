import Testing
import TrafficLimits
import TrafficModel

@testable import TrafficLedger

@Suite("Fair shares")
struct FairShareTests {
    @Test("the users with the most come down to one number, and a user below that number gives nothing")
    func levels() {
        #expect(FairShare.surplus(of: [1: 3, 2: 4], limit: 7) == [:])
        #expect(FairShare.surplus(of: [1: 1, 2: 9, 3: 20], limit: 10) == [2: 5, 3: 16])
        #expect(FairShare.surplus(of: [1: 5], limit: 0) == [1: 5])
    }

    @Test("nobody keeps more than one user may, and those with the most give up what is beyond the limit of all")
    func kept() {
        #expect(FairShare.kept(of: [1: 3, 2: 4, 3: 90], within: .init(5, inAll: 12)) == [1: 3, 2: 4, 3: 5])
        #expect(FairShare.kept(of: [1: 3, 2: 4, 3: 90], within: .init(5, inAll: 9)) == [1: 3, 2: 3, 3: 3])
    }

    @Test("with more users than places some users lose their only place, and the limit holds")
    func manyUsers() {
        let counts = Dictionary(uniqueKeysWithValues: (0..<50 as Range<UInt32>).map { ($0, $0 == 7 ? 30 : 1) })
        let surplus = FairShare.surplus(of: counts, limit: 20)
        let left = counts.map { $0.value - surplus[$0.key, default: 0] }
        #expect(left.reduce(0, +) == 20 && left.allSatisfy { $0 == 0 || $0 == 1 })
        // The first of them keep it, so that the same events leave the same entries.
        #expect(surplus.keys.sorted() == [7] + Array(20..<50))
    }

    @Test("between two ticks all together may exceed their limit by a quarter; at a tick those with the most come down")
    func tick() {
        var queue = FairQueue<Int>()
        let limit = UserLimit(10, inAll: 12)
        for element in 0..<15 {
            let user = PayingUser(element < 9 ? 1 : UInt32(element - 7))
            #expect(queue.append(element, of: user, within: limit) == [])
        }
        #expect(queue.take(within: limit, andWhile: { _ in false }) == [0, 1, 2])
        #expect(queue.count == 12 && queue.elements.sorted() == Array(3..<15))
    }
}
