public import TrafficDocuments
public import TrafficModel

extension Table {
    /// A row per alert, the oldest first.
    ///
    /// - Parameter time: Writes a time.
    public static func alerts(_ report: AlertReport, units: Units, time: (Timestamp) -> String) -> Table {
        Table(
            columns: [
                Column("RULE", cutTo: 6), Column("PROCESS", cutTo: 8), Column("USER", cutTo: 4, rank: 2),
                Column("ENDPOINT", cutTo: 17), Column("SINCE"), Column("RATE/S"), Column("REQ/MIN", rank: 1),
                Column("SO FAR"), Column("30 DAYS"), Column("", rank: 0),
            ],
            rows: report.alerts.map { alert in
                [
                    // All processes of a rule together have no name: what they have in common is what the rule says.
                    .text(alert.rule), (alert.process?.name ?? alert.match).map(Cell.text) ?? .none,
                    (alert.user ?? alert.process?.uid.map { String($0) }).map(Cell.text) ?? .none,
                    alert.endpoint.map(Cell.text) ?? .none, .text(time(alert.since)), .rate(alert.bytesPerSecond),
                    alert.requestsPerSecond.map { .number(60 * $0, places: 1) } ?? .none, .bytes(alert.bytes),
                    .bytes(alert.monthBytes), alert.remark(units).map(Cell.text) ?? .none,
                ]
            }
        )
    }
}

extension Alert {
    fileprivate var endpoint: String? {
        guard let host, let route else { return self.destination }
        return host + " " + route
    }

    /// What only some kinds have.
    fileprivate func remark(_ units: Units) -> String? {
        func percent(_ share: Double) -> String { Units.fixed(100 * min(1, max(0, share)), decimals: 0) + " %" }
        if let share = self.failedShare { return percent(share) + " failed" }
        if let share = self.repeatedShare { return percent(share) + " repeated" }
        if let rate = self.pastRequestsPerSecond {
            return "at most " + Units.fixed(60 * max(0, rate), decimals: 1) + " a minute before"
        }
        guard let step = self.stepRatio, let limit = self.limitBytes else { return nil }
        let end = self.projectedBytes.map { ", \(units.text($0)) at the end" } ?? ""
        return Units.fixed(100 * max(0, step), decimals: 0) + " % of \(units.text(limit))\(end)"
    }
}
