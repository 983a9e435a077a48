/// How long to wait before the next try: about twice as long each time, and never for many at the same moment.
struct BackOff {
    /// Seconds.
    let longest: Double
    private var failures = 0

    init(longest: Double) { self.longest = longest }

    /// - Parameter chance: From 0 to 1. The wait is between a half and all of 1, 2, 4, 8 … seconds.
    mutating func next(chance: Double = .random(in: 0...1)) -> Double {
        var whole = 1.0
        for _ in 0..<self.failures where whole < self.longest { whole *= 2 }
        self.failures += 1
        whole = min(whole, self.longest)
        return whole / 2 + chance * whole / 2
    }

    mutating func reset() { self.failures = 0 }
}
