import TrafficDocuments
import TrafficModel

/// The bytes that the processes of a rule may move in a day or month, and what history has of them.
struct BudgetMeter {
    let rule: AlertRule
    private let limit: UInt64
    /// Percents of the allowed bytes, in rising order.
    private let steps: [Int]
    private(set) var alert: Alert?

    /// - Returns: `nil` for a rule of another kind.
    init?(_ rule: AlertRule) {
        guard case .bytes(let limit, _, let steps) = rule.kind else { return nil }
        (self.rule, self.limit, self.steps) = (rule, limit, steps)
    }

    mutating func take(_ sum: BudgetSum) -> [AlertChange] {
        var changes: [AlertChange] = []
        if let alert, alert.since != sum.since {
            changes.append(.ended(alert))
            self.alert = nil
        }
        let earlier = self.alert
        self.alert = self.steps.last { UInt128(sum.bytes) * 100 >= UInt128(self.limit) * UInt128($0) }.map { step in
            Alert(
                rule: self.rule.name,
                kind: .bytes,
                match: self.rule.match,
                since: sum.since,
                bytes: sum.bytes,
                bytesPerSecond: Double(sum.bytes) / Double(max(1, sum.countedSeconds)),
                limitBytes: self.limit,
                stepRatio: Double(step) / 100,
                projectedBytes: Self.projection(sum)
            )
        }
        switch (earlier, self.alert) {
        case (nil, let alert?): changes.append(.began(alert))
        case (let earlier?, let alert?) where alert.stepRatio != earlier.stepRatio: changes.append(.rose(alert))
        case (let earlier?, nil): changes.append(.ended(earlier))
        default: break
        }
        return changes
    }

    /// As ``MonthReport/projection``.
    private static func projection(_ sum: BudgetSum) -> UInt64? {
        guard sum.countedSeconds >= MonthReport.leastSeconds else { return nil }
        let rest = UInt128(sum.bytes) * UInt128(sum.remainingSeconds) / UInt128(sum.countedSeconds)
        return sum.bytes +| UInt64(clamping: rest)
    }
}
