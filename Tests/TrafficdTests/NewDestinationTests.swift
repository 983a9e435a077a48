import Foundation
import Logging
import Synchronization
import TestSupport
import Testing
import TrafficAlerts
import TrafficCapture
import TrafficDocuments
import TrafficHistory
import TrafficModel
import TrafficQuery

@testable import trafficd

/// Rules about new destinations as the daemon judges them: with a real history, and samples of this test.
@Suite("New destinations", .timeLimit(.minutes(60)))
struct NewDestinationTests {
    private static let app = ProcessGroup(name: "app", uid: 4_711)
    private static let rule = AlertRule(
        name: "new",
        filter: .everything,
        kind: .newDestination(learningSeconds: 3_600)
    )

    /// A daemon's history and watch.
    private final class Watched {
        let history: History?
        let watch: AlertWatch
        let kept = Kept()

        init(_ directory: String?) throws {
            self.history = try directory.map {
                try History(directory: $0, host: "h", retention: .default, userName: { _ in nil }, report: { _ in })
            }
            let kept = self.kept
            let logger = Logger(label: "test") { _ in Lines(all: kept) }
            self.watch = AlertWatch(host: "h", history: self.history, names: UserNames(), logger: logger)
            let (history, watch) = (self.history, self.watch)
            if let history { Thread.detachNewThread { history.run() } }
            Thread.detachNewThread { watch.run() }
            watch.configure([NewDestinationTests.rule])
        }

        deinit {
            self.watch.stop()
            self.history?.stop()
        }

        func reach(_ destinations: String..., seconds: Double = 5) {
            let bytes = destinations.map { (Contact(process: NewDestinationTests.app, destination: $0), 10 as UInt64) }
            let sums = ContactSums(bytes: Dictionary(uniqueKeysWithValues: bytes))
            self.watch.add(AlertSample(takenAt: .now, seconds: seconds, contacts: sums))
        }
    }

    private static func wait(_ isDone: () async throws -> Bool) async throws {
        try #require(try await eventually(every: .milliseconds(20)) { try await isDone() })
    }

    @Test("what was learned stays learned over a restart, and each new destination is said once")
    func restart() async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "tn-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        func sql(_ sql: String) async throws -> String {
            try await Tool.sql(directory + "/history.sqlite", sql)
        }
        do {
            let first = try Watched(directory)
            first.reach("192.0.2.0/24", "api.example")
            try await Self.wait { try await sql("SELECT count(*) FROM contact") == "2\n" }
            // History is asked only about what was not seen today.
            first.reach("192.0.2.0/24")
            first.reach("198.51.100.0/24")
            try await Self.wait { try await sql("SELECT count(*) FROM contact") == "3\n" }
            #expect(first.watch.alerts().alerts.isEmpty && first.kept.lines.withLock(\.self).isEmpty)
        }
        // The first one's thread still has the directory for a moment.
        _ = try await sql("UPDATE contact_group SET since = since - 3600")
        let next = try await look(every: .milliseconds(20), until: { $0 != nil }) { () -> Watched? in
            do { return try Watched(directory) } catch is HistoryError { return nil }
        }
        let second = try #require(next)
        second.reach("192.0.2.0/24", "198.51.100.0/24", "other.example")
        try await Self.wait { !second.watch.alerts().alerts.isEmpty }
        second.reach("other.example")
        second.reach("last.example")
        // The watch says an alert after it has published it.
        try await Self.wait {
            second.watch.alerts().alerts.count > 1 && second.kept.lines.withLock(\.count) > 1
        }
        let alerts = second.watch.alerts().alerts
        let bytes = Dictionary(uniqueKeysWithValues: alerts.map { ($0.destination ?? "", $0.bytes) })
        #expect(bytes == ["other.example": 20, "last.example": 10])
        let lines = second.kept.lines.withLock(\.self)
        let line = "alert new: app of user 4711 to other.example since "
        #expect(lines.count == 2 && lines[0].hasPrefix(line), "\(lines)")
        // An hour of samples later it is over.
        second.reach(seconds: 3_600)
        try await Self.wait {
            second.watch.alerts().alerts.isEmpty && second.kept.lines.withLock(\.count) > 3
        }
        #expect(second.kept.lines.withLock { $0.count { $0.hasPrefix("alert is over: new: app") } } == 2)
    }

    @Test("a rule that comes with a reload and finds no history is said not to be judged")
    func withoutHistory() async throws {
        let watched = try Watched(nil)
        watched.reach("192.0.2.0/24")
        try await Self.wait { !watched.kept.lines.withLock(\.isEmpty) }
        let lines = watched.kept.lines.withLock(\.self)
        #expect(lines.count == 1 && lines[0] == "alert new needs history: set state_directory and restart", "\(lines)")
        #expect(watched.watch.alerts().rules == 1 && watched.watch.alerts().alerts.isEmpty)
    }
}
