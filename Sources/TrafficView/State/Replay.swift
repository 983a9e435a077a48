public import TrafficModel

/// Which snapshot of a recording the screen shows, and how the recording plays. A value without a clock: whoever has the
/// recording plays it as ``request`` says.
public struct Replay: Sendable, Hashable {
    /// From where to play, and how fast.
    public struct Request: Sendable, Hashable {
        /// Of the snapshot to begin with.
        public var index: Int
        /// How many times as fast as it was recorded; `nil`: stands still.
        public var speed: Double?
        /// Makes a request differ from all before.
        fileprivate var number = 0
    }

    /// What a person can do.
    public enum Move: Sendable, Hashable {
        /// Snapshots forward; a negative number goes back.
        case step(Int)
        case minutes(Int)
        case first, last
        /// Doubles the speed so many times; a negative number halves it.
        case faster(Int)
        case togglePause
    }

    /// Of each snapshot. At least one.
    public let times: [Timestamp]
    /// When each snapshot comes at speed 1, in seconds from the first. A clock that was put back or forward, and a time
    /// without a daemon, make no long waits.
    public let offsets: [Double]
    /// Why the recording ends early, if it does.
    let fault: String?
    public private(set) var request: Request
    /// The snapshot that is on the screen.
    private(set) var index: Int
    private var speed: Double

    public static let speeds: ClosedRange<Double> = 0.125...1024
    private static let longestWait = 5.0

    /// - Parameters:
    ///   - speed: Must be within ``speeds``.
    ///   - interval: Seconds between two snapshots, as asked for.
    public init(times: [Timestamp], interval: Double, from index: Int, speed: Double, fault: String?) {
        precondition(times.indices.contains(index), "a recording has a snapshot")
        (self.times, self.fault, self.speed, self.index) = (times, fault, speed, index)
        self.request = Request(index: index, speed: speed)
        var (offsets, sum) = ([0.0], 0.0)
        for (earlier, later) in zip(times, times.dropFirst()) {
            let seconds = Double(later.nanosecondsSinceEpoch -| earlier.nanosecondsSinceEpoch) / 1e9
            sum += min(max(0, seconds), max(Self.longestWait, 2 * interval))
            offsets.append(sum)
        }
        self.offsets = offsets
    }

    /// - Returns: Whether `index` is earlier than the snapshot before it on the screen.
    mutating func show(_ index: Int) -> Bool {
        defer { self.index = index }
        return index < self.index
    }

    mutating func apply(_ move: Move) {
        switch move {
        case .step(let count): self.stand(at: self.index + count)
        case .minutes(let count): self.play(from: self.index(minutes: count))
        case .first: self.play(from: 0)
        case .last: self.stand(at: self.times.count - 1)
        case .faster(let steps):
            let factor = steps > 0 ? 2.0 : 0.5
            for _ in 0..<steps.magnitude { self.speed *= factor }
            self.speed = min(max(self.speed, Self.speeds.lowerBound), Self.speeds.upperBound)
            self.play(from: self.index)
        case .togglePause:
            if self.request.speed == nil { self.ask(self.index, self.speed) } else { self.stand(at: self.index) }
        }
    }

    /// The snapshot so many minutes later; if the times jump, by the time that passes at speed 1.
    private func index(minutes: Int) -> Int {
        let target = self.offsets[self.index] + 60 * Double(minutes)
        return minutes > 0
            ? self.offsets.firstIndex { $0 >= target } ?? self.times.count - 1
            : self.offsets.lastIndex { $0 <= target } ?? 0
    }

    private mutating func stand(at index: Int) { self.ask(index, nil) }

    /// Goes on as before, playing or standing.
    private mutating func play(from index: Int) { self.ask(index, self.request.speed == nil ? nil : self.speed) }

    private mutating func ask(_ index: Int, _ speed: Double?) {
        let number = self.request.number &+ 1
        let index = max(0, min(self.times.count - 1, index))
        self.request = Request(index: index, speed: speed, number: number)
        // So that keys pressed faster than snapshots are read add up.
        self.index = index
    }

    /// `12 of 300, 10x`.
    var place: String {
        let end = self.index == self.times.count - 1 ? ", the end" : ""
        let pace = self.request.speed.map { "\(Self.text($0))x" } ?? "paused"
        return "\(self.index + 1) of \(self.times.count)\(end), \(pace)"
    }

    private static func text(_ speed: Double) -> String {
        speed == speed.rounded() ? "\(Int(speed))" : "\(speed)"
    }
}
