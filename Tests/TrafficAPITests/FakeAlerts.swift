import TrafficFeed
import TrafficModel

/// One alert.
struct FakeAlerts: AlertSource {
    static let report = AlertReport(
        host: "h",
        takenAt: Timestamp(nanosecondsSinceEpoch: 0),
        rules: 2,
        alerts: [Alert(rule: "r", kind: .rate, since: Timestamp(nanosecondsSinceEpoch: 0), bytes: 5)]
    )

    func alerts() -> AlertReport { Self.report }
}
