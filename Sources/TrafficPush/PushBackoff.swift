/// How long to wait before the next try: twice as long after each failure in a row. By chance a bit shorter or longer, so
/// that not all daemons that lost the same receiver come back at once.
struct PushBackoff {
    static let longest = 60.0
    private var seconds = 1.0

    /// - Parameter wanted: What the receiver asked for, in seconds.
    mutating func next(atLeast wanted: Double?) -> Double {
        let pause = self.seconds * Double.random(in: 0.8...1.2)
        self.seconds = min(self.seconds * 2, Self.longest)
        return max(pause, min((wanted ?? 0) * Double.random(in: 1...1.2), PushAnswer.longestWait))
    }

    mutating func reset() { self.seconds = 1 }
}
