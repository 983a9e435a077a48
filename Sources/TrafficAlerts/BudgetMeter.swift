import TrafficDocuments
import TrafficModel

/// The bytes that the processes of a rule may move in a day or month, and what history has of them.
struct BudgetMeter {
    let rule: AlertRule
    private let limit: UInt64
    private(set) var alert: Alert?

    /// Percents of the allowed bytes.
    private static let steps = [100, 80, 50]

    /// - Returns: `nil` for a rule of another kind.
    init?(_ rule: AlertRule) {
        guard case .bytes(let limit, _) = rule.kind else { return nil }
        (self.rule, self.limit) = (rule, limit)
    }

    mutating func take(_ sum: BudgetSum) -> [AlertChange] {
        var changes: [AlertChange] = []
        if let alert, alert.since != sum.since {
            changes.append(.ended(alert))
            self.alert = nil
        }
        let earlier = self.alert
        self.alert = Self.steps.first { UInt128(sum.bytes) * 100 >= UInt128(self.limit) * UInt128($0) }.map { step in
            Alert(
                rule: self.rule.name,
                kind: .bytes,
                match: self.rule.match,
                since: sum.since,
                bytes: sum.bytes,
                bytesPerSecond: Double(sum.bytes) / Double(max(1, sum.countedSeconds)),
                limitBytes: self.limit,
                stepPercent: step,
                projectedBytes: Self.projection(sum)
            )
        }
        switch (earlier, self.alert) {
        case (nil, let alert?): changes.append(.began(alert))
        case (let earlier?, let alert?) where alert.stepPercent != earlier.stepPercent: changes.append(.rose(alert))
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
