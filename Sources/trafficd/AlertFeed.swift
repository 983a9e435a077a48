import TrafficAlerts
import TrafficLedger
import TrafficModel

/// Makes samples for rules: what moved since the last one.
struct AlertFeed {
    private var last: Balance
    private let countingSince: Timestamp

    /// A sample is made every 5 seconds. A tick may come a little early.
    private static let interval: UInt64 = 4_500_000_000

    /// What was counted before is in no sample.
    init(_ ledger: Ledger, countingSince: Timestamp) {
        self.last = ledger.balance(countingSince: countingSince)
        self.countingSince = countingSince
    }

    /// - Parameter boottime: `CLOCK_BOOTTIME` of a tick.
    func isDue(at boottime: UInt64) -> Bool { boottime -| self.last.takenBoottimeNanoseconds >= Self.interval }

    mutating func sample(_ ledger: inout Ledger) -> AlertSample? {
        let balance = ledger.balance(countingSince: self.countingSince)
        // Before the first tick the ledger has no time.
        guard let growth = balance.growth(since: self.last), self.last.takenBoottimeNanoseconds > 0 else {
            self.last = balance
            return nil
        }
        let nanoseconds = balance.takenBoottimeNanoseconds -| self.last.takenBoottimeNanoseconds
        self.last = balance
        return AlertSample(
            takenAt: balance.takenAt,
            seconds: Double(nanoseconds) / 1e9,
            groups: growth.byGroup.mapValues(\.payload.total).filter { $0.value > 0 },
            endpoints: growth.byEndpoint,
            contacts: ledger.takeContacts()
        )
    }
}
