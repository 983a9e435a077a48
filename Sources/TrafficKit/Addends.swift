/// Which of some numbers add up to a sum. Those that are 0 are not among them.
enum Addends: Hashable {
    case none
    /// Of each number, whether it is one.
    case only([Bool])
    /// Or nobody has looked: there are too many.
    case several

    /// Numbers that may be among them: 1,024 sums are looked at. A peer chooses how many records come at once.
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
        // Each of the sums differs from the one before by one number (Gray's code).
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
