public import TrafficDocuments
public import TrafficModel

extension Table {
    /// A row for each alert that began or ended, in the order of time.
    ///
    /// - Parameters:
    ///   - events: When, what happened, and the alert as it was then.
    ///   - host: The name of the host.
    ///   - time: Writes a time.
    public static func alertEvents(
        _ events: [(time: Timestamp, event: String, alert: Alert)],
        host: String,
        units: Units,
        time: (Timestamp) -> String
    ) -> Table {
        let last = events.last?.time ?? Timestamp(nanosecondsSinceEpoch: 0)
        let report = AlertReport(host: host, takenAt: last, rules: 0, alerts: events.map(\.alert))
        var table = Self.alerts(report, units: units, time: time)
        table.columns.insert(contentsOf: [Column("TIME"), Column("ALERT")], at: 0)
        for (index, event) in events.enumerated() {
            table.rows[index].insert(contentsOf: [.text(time(event.time)), .text(event.event)], at: 0)
        }
        return table
    }
}
