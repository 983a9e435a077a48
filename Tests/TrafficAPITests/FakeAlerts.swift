import Synchronization
import TrafficAlerts
import TrafficDocuments
import TrafficFeed
import TrafficModel

/// One alert in force, and changes as the test makes them.
final class FakeAlerts: AlertSource {
    static let report = AlertReport(
        host: "h",
        takenAt: Timestamp(nanosecondsSinceEpoch: 0),
        rules: 2,
        alerts: [Alert(rule: "r", kind: .rate, since: Timestamp(nanosecondsSinceEpoch: 0), bytes: 5)]
    )
    static let time = Timestamp(nanosecondsSinceEpoch: 0)

    private let journal: Mutex<AlertJournal>
    private let followers = Mutex<[AsyncStream<Void>.Continuation]>([])

    init(origin: UInt64 = 0xc0ffee) { self.journal = Mutex(AlertJournal(host: "h", origin: origin)) }

    var followerCount: Int { self.followers.withLock(\.count) }

    func alerts() -> AlertReport { Self.report }

    func change(_ count: Int, rule: String = "r", of process: ProcessGroup? = nil) {
        let alert = Alert(rule: rule, kind: .rate, process: process, since: Self.time)
        self.journal.withLock { $0.add(Array(repeating: .began(alert), count: count), at: Self.time) }
        for follower in self.followers.withLock(\.self) { follower.yield() }
    }

    func beginning(after position: AlertPosition?) -> AlertNotice {
        self.journal.withLock { $0.beginning(after: position, at: Self.time) }
    }

    func notices(after number: UInt64) -> [AlertNotice] { self.journal.withLock(\.self).notices(after: number) }

    func news() -> AsyncStream<Void> {
        let (stream, follower) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.followers.withLock { $0.append(follower) }
        follower.yield()
        return stream
    }
}
