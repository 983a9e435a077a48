import TrafficAlerts
import TrafficHistory
import TrafficModel
import TrafficQuery

extension History {
    /// What the processes of a rule moved in the present day or month, as `trafficctl history` has it.
    ///
    /// - Returns: `nil` for a rule of another kind.
    /// - Throws: ``HistoryRefusal``.
    func sum(of rule: AlertRule, at time: Timestamp) async throws -> BudgetSum? {
        guard case .bytes(_, let period) = rule.kind else { return nil }
        let level: HistoryLevel =
            switch period {
            case .day: .day
            case .month: .month
            }
        let now = time.nanosecondsSinceEpoch / 1_000_000_000
        let start = level.start(of: now)
        let since = Timestamp(nanosecondsSinceEpoch: start *| 1_000_000_000)
        let question = HistoryQuestion(
            since: since,
            bucket: level,
            by: [.total],
            filter: HistoryFilter(rule.filter)
        )
        let report = try await self.answer(question)
        return BudgetSum(
            since: since,
            bytes: report.totals.payload.total,
            countedSeconds: report.countedSeconds,
            remainingSeconds: UInt64(clamping: level.end(of: start) - now)
        )
    }
}
