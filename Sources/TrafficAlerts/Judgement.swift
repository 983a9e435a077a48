import TrafficModel

/// What was counted in one of the short times into which a rule divides time.
struct Slot: Sendable, Hashable {
    var counts: SlotCounts
    var seconds: Double
}

/// The numbers of a group or endpoint that rules judge.
struct SlotCounts: Sendable, Hashable {
    var requests: UInt64 = 0
    var ended: UInt64 = 0
    var failures: UInt64 = 0
    var repeated: UInt64 = 0
    /// Payload of a group, or messages of an endpoint, both ways.
    var bytes: UInt64 = 0

    init(bytes: UInt64 = 0) { self.bytes = bytes }

    init(_ counts: EndpointCounts) {
        (self.requests, self.ended) = (counts.requests, counts.ended)
        (self.failures, self.repeated) = (counts.failures, counts.repeated)
        self.bytes = counts.messageBytes
    }

    static func += (left: inout Self, right: Self) {
        left.requests +|= right.requests
        left.ended +|= right.ended
        left.failures +|= right.failures
        left.repeated +|= right.repeated
        left.bytes +|= right.bytes
    }
}

/// How a rule divides time.
struct SlotShape: Sendable, Hashable {
    /// Of one slot.
    var seconds: Double
    /// How many are judged.
    var count: Int
    /// How many of these, the last ones, tell the present rate.
    var recent: Int
}

extension AlertRule.Kind {
    /// Samples are so far apart, so a slot is not shorter.
    package static let shortestSlot = 5.0
    /// Of fewer exchanges, a share says little.
    package static let leastExchanges: UInt64 = 20
    /// Of fewer requests in an hour, even many times as many are few.
    package static let leastRequestsOfHour: UInt64 = 60
    /// A past must have a whole day, because requests rise and fall with the time of day.
    package static let shortestPastNanoseconds: Int64 = 86_400_000_000_000

    /// `nil` for the kinds that history alone judges.
    var shape: SlotShape? {
        switch self {
        case .rate(_, let seconds), .failures(_, let seconds), .repeated(_, let seconds):
            let count = Int(min(5, max(1, seconds / Self.shortestSlot)))
            return SlotShape(seconds: seconds / Double(count), count: count, recent: count)
        // Three windows of two slots, so that a window of 20 s or two periods begins soon after whatever goes wrong.
        case .requestsEvery(let seconds): return SlotShape(seconds: max(seconds, 10), count: 6, recent: 2)
        case .requestsGrowing: return SlotShape(seconds: 60, count: 15, recent: 1)
        // An hour, as history has it.
        case .requestsOverPast: return SlotShape(seconds: 180, count: 20, recent: 2)
        case .bytes, .newDestination: return nil
        }
    }

    /// Whether an alert begins.
    ///
    /// - Parameters:
    ///   - slots: The last ones, the oldest first. At first there are fewer than the shape has.
    ///   - past: `nil` if history was not asked, or has not answered.
    func begins(_ slots: [Slot], after past: EndpointPast?) -> Bool {
        switch self {
        case .rate(let rate, _):
            return self.isComplete(slots) && slots.allSatisfy { Double($0.counts.bytes) > rate * $0.seconds }
        case .requestsEvery(let period):
            return self.isComplete(slots)
                && stride(from: 0, to: slots.count, by: 2).allSatisfy { Self.exceedsPeriod(slots[$0..<$0 + 2], period) }
        case .requestsGrowing:
            return self.isComplete(slots) && Trend(slots.map(self.usualRequests)).isSteadyGrowth
        // Fewer slots than an hour has may be enough.
        case .requestsOverPast(let multiple):
            return slots.total(\.requests) >= Self.leastRequestsOfHour && Self.exceedsPast(slots, past, multiple)
        case .failures(let share, _):
            return Self.reaches(share, \.failures, slots)
        case .repeated(let share, _):
            return Self.reaches(share, \.repeated, slots)
        case .bytes, .newDestination:
            return false
        }
    }

    /// Whether an alert that has begun goes on. Some alerts end later than they would begin, so that they do not come
    /// and go.
    func goesOn(_ slots: [Slot], after past: EndpointPast?) -> Bool {
        switch self {
        case .rate(let rate, _):
            Double(slots.total(\.bytes)) > rate * slots.seconds
        case .requestsEvery(let period): Self.exceedsPeriod(slots.suffix(2), period)
        case .requestsGrowing: Trend(slots.map(self.usualRequests)).mayGrow
        case .requestsOverPast(let multiple): Self.exceedsPast(slots, past, multiple)
        case .failures(let share, _): Self.reaches(share, \.failures, slots)
        case .repeated(let share, _): Self.reaches(share, \.repeated, slots)
        case .bytes, .newDestination: false
        }
    }

    private func isComplete(_ slots: [Slot]) -> Bool { slots.count == self.shape?.count }

    /// What a slot of the usual length would have. A slot is longer where samples came late, and would look like growth.
    /// Rounded, so that slots that differ by a few milliseconds stay equal; but some requests never become none.
    private func usualRequests(_ slot: Slot) -> UInt64 {
        guard slot.counts.requests > 0, slot.seconds > 0, let usual = self.shape?.seconds else { return 0 }
        let requests = Double(slot.counts.requests) * usual / slot.seconds
        return UInt64(min(max(1, requests.rounded()), 0x1p63))
    }

    /// More than one and a half times the expected requests, and at least one more than expected.
    private static func exceedsPeriod(_ window: ArraySlice<Slot>, _ period: Double) -> Bool {
        let (requests, expected) = (Double(window.total(\.requests)), window.seconds / period)
        return requests > 1.5 * expected && requests >= expected + 1
    }

    private static func exceedsPast(_ slots: [Slot], _ past: EndpointPast?, _ multiple: Double) -> Bool {
        guard let past else { return false }
        // Samples that come late make slots longer than an hour together.
        let hours = max(1, slots.seconds / 3_600)
        return past.until.nanosecondsSinceEpoch -| past.since.nanosecondsSinceEpoch >= Self.shortestPastNanoseconds
            && Double(slots.total(\.requests)) > multiple * Double(past.mostRequests) * hours
    }

    private static func reaches(_ share: Double, _ count: KeyPath<SlotCounts, UInt64>, _ slots: [Slot]) -> Bool {
        let ended = slots.total(\.ended)
        return ended >= Self.leastExchanges && Double(slots.total(count)) >= share * Double(ended)
    }
}

extension Collection<Slot> {
    var seconds: Double { self.reduce(0) { $0 + $1.seconds } }

    func total(_ count: KeyPath<SlotCounts, UInt64>) -> UInt64 {
        self.reduce(0) { $0 +| $1.counts[keyPath: count] }
    }
}
