/// Which of several numbers add up to a sum. Numbers that are 0 are never chosen.
enum Addends: Hashable {
    case none
    /// For each number, whether it is an addend.
    case only([Bool])
    /// Several choices fit, or there are too many numbers to try.
    case several

    /// Numbers to choose from, at most: with 10 numbers there are 1,024 sums. A peer chooses how many records come at
    /// once.
    static let mostNumbers = 10

    init(of sum: UInt64, in numbers: [UInt64]) {
        guard sum > 0 else {
            self = .only([Bool](repeating: false, count: numbers.count))
            return
        }
        let candidates = numbers.indices.filter { numbers[$0] > 0 && numbers[$0] <= sum }
        guard candidates.count <= Self.mostNumbers else {
            self = .several
            return
        }
        // Each sum differs from the sum before by one number (Gray code).
        var (chosen, total, found) = (0, UInt64(0), nil as Int?)
        for step in 1..<1 << candidates.count {
            let bit = step.trailingZeroBitCount
            chosen ^= 1 << bit
            let number = numbers[candidates[bit]]
            if chosen >> bit & 1 != 0 { total += number } else { total -= number }
            guard total == sum else { continue }
            guard found == nil else {
                self = .several
                return
            }
            found = chosen
        }
        guard let found else {
            self = .none
            return
        }
        var isAddend = [Bool](repeating: false, count: numbers.count)
        for (bit, index) in candidates.enumerated() { isAddend[index] = found >> bit & 1 != 0 }
        self = .only(isAddend)
    }
}
