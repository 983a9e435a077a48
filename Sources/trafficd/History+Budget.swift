import TrafficAlerts
import TrafficDocuments
import TrafficHistory
import TrafficModel
import TrafficQuery

extension History {
    /// What the processes of a rule moved in the present day or month, as `trafficctl history` has it. Before that, of the
    /// day or month of `minute`, if that is over.
    ///
    /// - Parameter minute: Of the earliest minute that was not judged: seconds since 1970.
    /// - Returns: Nothing for a rule of another kind.
    /// - Throws: ``HistoryRefusal``.
    func sums(of rule: AlertRule, since minute: Int64?, at time: Timestamp) async throws -> [BudgetSum] {
        guard case .bytes(_, let period, _) = rule.kind else { return [] }
        let level: HistoryLevel =
            switch period {
            case .day: .day
            case .month: .month
            }
        let now = time.nanosecondsSinceEpoch / 1_000_000_000
        let present = level.start(of: now)
        var starts = [present]
        // If the clock was put back, it is later.
        if let earlier = minute.map(level.start(of:)), earlier < present { starts.insert(earlier, at: 0) }
        var sums: [BudgetSum] = []
        for start in starts {
            let (since, end) = (Self.time(start), level.end(of: start))
            let question = HistoryQuestion(
                since: since,
                until: start == present ? nil : Self.time(end),
                bucket: level,
                by: [.total],
                filter: HistoryFilter(rule.filter)
            )
            let report = try await self.answerForAlerts(question)
            sums.append(
                BudgetSum(
                    since: since,
                    bytes: report.totals.payload.total,
                    countedSeconds: report.countedSeconds,
                    remainingSeconds: UInt64(clamping: end - now)
                )
            )
        }
        return sums
    }

    private static func time(_ seconds: Int64) -> Timestamp {
        Timestamp(nanosecondsSinceEpoch: seconds *| 1_000_000_000)
    }
}
