package import TrafficAlerts
package import TrafficDocuments
package import TrafficModel

/// Judges rules over a recording, as a daemon would have judged them at that time.
package struct RecordedAlerts {
    package struct Event: Sendable, Hashable {
        package var time: Timestamp
        package var change: AlertChange
    }

    /// In the order of time.
    package private(set) var events: [Event] = []
    private let header: RecordingHeader
    /// Those in force at the end.
    package private(set) var alerts: [Alert] = []
    /// Rules that need history: a recording of some minutes can't tell the bytes of a month, or what was before.
    package private(set) var unjudged: [AlertRule]

    /// A daemon makes a sample every 5 seconds. A tick may come a little early.
    private static let interval: UInt64 = 4_500_000_000

    /// - Throws: ``RecordingError``.
    package init(_ rules: [AlertRule], over recording: Recording) throws(RecordingError) {
        self.header = recording.header
        self.unjudged = rules.filter { $0.kind.reported.needsHistory }
        var (book, sums) = (AlertBook(), RecordedSums())
        _ = book.configure(rules.filter { !$0.kind.reported.needsHistory })
        var last: Balance?
        for index in 0..<recording.count {
            let snapshot = try recording.snapshot(index)
            if let last, last.countingSince == snapshot.countingSince,
                snapshot.takenBoottimeNanoseconds >= last.takenBoottimeNanoseconds,
                snapshot.takenBoottimeNanoseconds - last.takenBoottimeNanoseconds < Self.interval
            {
                continue
            }
            let isOfCount = last?.countingSince == snapshot.countingSince
            if !isOfCount { sums = sums.anew }
            let balance = sums.add(snapshot)
            // What was counted before is in no sample.
            if isOfCount, let last, let growth = balance.growth(since: last) {
                let nanoseconds = balance.takenBoottimeNanoseconds - last.takenBoottimeNanoseconds
                let sample = AlertSample(
                    takenAt: balance.takenAt,
                    seconds: Double(nanoseconds) / 1e9,
                    groups: growth.byGroup.mapValues(\.payload.total).filter { $0.value > 0 },
                    endpoints: growth.byEndpoint
                )
                let changes = book.add(sample) { sums.users[$0] }
                self.events += changes.map { change in
                    Event(time: balance.takenAt, change: change.naming { sums.users[$0] })
                }
            }
            last = balance
        }
        self.alerts = book.alerts.map { $0.naming { sums.users[$0] } }
    }

    /// The events as followers of a daemon get them. The recording is their origin: whoever replays it with the same rules
    /// gets the same ids.
    package var notices: [AlertNotice] {
        var position = AlertPosition(origin: UInt64(bitPattern: self.header.startedAt.nanosecondsSinceEpoch))
        return self.events.map { event in
            position.number += 1
            let host = self.header.host?.name ?? ""
            return AlertNotice(of: event.change, host: host, position: position, at: event.time)
        }
    }
}
