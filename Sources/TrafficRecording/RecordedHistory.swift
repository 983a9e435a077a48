package import TrafficDocuments
import TrafficHistory
import TrafficModel
package import TrafficQuery

/// The history that a daemon would have of the time of a recording, in a database in memory.
package struct RecordedHistory {
    private let store: HistoryStore
    private let host: String
    private let first: Timestamp
    private let last: Timestamp
    private let users: [UInt32: String]

    /// - Throws: ``RecordingError``; errors of the database.
    package init(_ recording: Recording) throws {
        var retention = HistoryRetention.default
        for level in HistoryLevel.allCases { retention.keep(level, for: nil) }
        self.store = try HistoryStore(path: ":memory:", retention: retention, machine: nil)
        var (sums, feed): (RecordedSums, HistoryFeed?) = (RecordedSums(), nil)
        var (balance, host): (Balance?, String) = (nil, "")
        for index in 0..<recording.count {
            let snapshot = try recording.snapshot(index)
            host = snapshot.host.name
            let before = balance
            if before?.countingSince != snapshot.countingSince {
                try Self.end(feed, before, self.store)
                (sums, feed) = (sums.anew, nil)
            }
            let now = sums.add(snapshot)
            balance = now
            guard feed != nil else {
                feed = Self.feed(now, after: before)
                continue
            }
            if feed?.isDue(at: now.takenAt) == true, let minute = feed?.minute(now) { try self.store.add(minute) }
        }
        try Self.end(feed, balance, self.store)
        (self.host, self.users) = (host, sums.users)
        // The clock may have been put back meanwhile.
        let times = (0..<recording.count).map { recording.time(of: $0) }
        (self.first, self.last) = (times.min() ?? times[0], times.max() ?? times[0])
    }

    /// - Parameter before: The last balance of an earlier count.
    private static func feed(_ balance: Balance, after before: Balance?) -> HistoryFeed {
        // Of a count that began after the last snapshot of the one before, all bytes are of the recording's time.
        let since = balance.takenAt.nanosecondsSinceEpoch -| balance.countingSince.nanosecondsSinceEpoch
        guard let before, balance.countingSince >= before.takenAt, since >= 0 else {
            return HistoryFeed(after: balance)
        }
        return HistoryFeed(
            countingSince: balance.countingSince,
            boottimeNanoseconds: balance.takenBoottimeNanoseconds -| UInt64(since)
        )
    }

    /// The last minute, which need not be over.
    private static func end(_ feed: HistoryFeed?, _ balance: Balance?, _ store: HistoryStore) throws {
        guard var feed, let balance, let minute = feed.minute(balance, isLast: true) else { return }
        try store.add(minute)
    }

    /// - Parameter question: Its times do not matter: the answer is about the whole recording.
    /// - Throws: errors of the database, `HistoryRefusal`.
    package func report(_ question: HistoryQuestion) throws -> HistoryReport {
        var question = question
        (question.since, question.until) = (self.first, nil)
        // The last minute counts whole.
        let end = self.last.nanosecondsSinceEpoch / 1_000_000_000 + 1
        var report = try self.store.report(question, host: self.host, now: end, userName: self.user)
        report.name { _ in self.users }
        return report
    }

    /// The name of a user, as the recording has it.
    private func user(_ uid: UInt32) -> String? { self.users[uid] }
}
