import TrafficReport

/// Which bytes of one direction of a socket messages have claimed, so that no byte counts twice.
struct Coverage: Codable {
    enum Verdict: Hashable {
        case accepted
        /// Earlier claims have all of these bytes.
        case duplicate
        /// Earlier claims have some of these bytes.
        case overlapping
    }

    /// If there are more ranges than this, the lowest ranges grow together. The gap between two joined ranges counts as
    /// claimed: a late claim on the gap is rejected, and no byte counts twice.
    static let mostRanges = 64
    /// The limit for a process that has used up its allowance.
    static let fewestRanges = 4

    /// Ranges of messages that interleave with no other message: each byte is of one message.
    private var unshared = ByteRanges()
    /// Ranges of all messages, joined. Messages that interleave (HTTP/2) have fewer bytes than their ranges are long.
    private var joined = ByteRanges()
    /// How many bytes are claimed.
    private(set) var bytes: UInt64 = 0

    /// How many ranges are kept.
    var rangeCount: Int { self.unshared.count + self.joined.count }

    /// - Parameters:
    ///   - interval: A possible interval that is not empty.
    ///   - limit: How many ranges of each kind may be kept.
    mutating func claim(_ interval: Report.Interval, limit: Int = Coverage.mostRanges) -> Verdict {
        let range = interval.from..<interval.to
        let isUnshared = interval.bytes == interval.to - interval.from
        if isUnshared {
            switch self.unshared.overlap(with: range) {
            case 0: break
            case interval.bytes: return .duplicate
            default: return .overlapping
            }
        }
        // All claims together may have as many bytes as their joined ranges are long, and no more.
        guard interval.bytes <= self.joined.length(with: range, limit: limit) - self.bytes else {
            return .overlapping
        }
        self.joined.insert(range, limit: limit)
        self.bytes += interval.bytes
        if isUnshared { self.unshared.insert(range, limit: limit) }
        return .accepted
    }
}

/// Disjoint ranges in ascending order. No range touches the next.
struct ByteRanges: Codable {
    private var ranges: [Range<UInt64>] = []

    var count: Int { self.ranges.count }

    private var length: UInt64 { self.ranges.reduce(0) { $0 + ($1.upperBound - $1.lowerBound) } }

    /// The length of all ranges together after `range` is inserted.
    func length(with range: Range<UInt64>, limit: Int) -> UInt64 {
        guard self.ranges.count < limit else {
            // Some ranges grow together.
            var all = self
            all.insert(range, limit: limit)
            return all.length
        }
        return self.length + (range.upperBound - range.lowerBound - self.overlap(with: range))
    }

    /// How many bytes of `range` are in these ranges.
    func overlap(with range: Range<UInt64>) -> UInt64 {
        var sum: UInt64 = 0
        // From the end, because messages usually come in order.
        for own in self.ranges.reversed() {
            if own.upperBound <= range.lowerBound { break }
            let common = own.clamped(to: range)
            sum += common.upperBound - common.lowerBound
        }
        return sum
    }

    /// - Parameter limit: More ranges than this grow together.
    mutating func insert(_ range: Range<UInt64>, limit: Int) {
        // Messages usually come in order.
        if let last = self.ranges.last, last.upperBound == range.lowerBound {
            self.ranges[self.ranges.count - 1] = last.lowerBound..<range.upperBound
            return
        }
        var merged = range
        var index = self.ranges.endIndex
        while index > 0, self.ranges[index - 1].upperBound >= merged.lowerBound {
            index -= 1
            guard self.ranges[index].lowerBound <= merged.upperBound else { continue }
            let own = self.ranges.remove(at: index)
            merged = min(own.lowerBound, merged.lowerBound)..<max(own.upperBound, merged.upperBound)
        }
        self.ranges.insert(merged, at: index)
        guard self.ranges.count > limit else { return }
        let surplus = self.ranges.count - limit
        let first = self.ranges[0].lowerBound
        self.ranges.removeFirst(surplus)
        self.ranges[0] = first..<self.ranges[0].upperBound
    }
}
