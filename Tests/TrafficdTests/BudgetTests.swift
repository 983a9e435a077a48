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

/// Budgets as the daemon judges them: with a real history, and minutes of this test.
@Suite("Budgets of days and months", .timeLimit(.minutes(60)))
struct BudgetTests {
    @Test(
        "a budget that the last minute of a day or month exceeds is said of that day or month",
        arguments: ["day", "month"]
    )
    func lastMinute(period: String) async throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "tb-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: directory) }
        let history = try History(
            directory: directory,
            host: "h",
            retention: .default,
            userName: { _ in nil },
            report: { _ in }
        )
        let kept = Kept()
        let logger = Logger(label: "test") { _ in Lines(all: kept) }
        let watch = AlertWatch(host: "h", history: history, names: UserNames(), logger: logger)
        Thread.detachNewThread { history.run() }
        Thread.detachNewThread { watch.run() }
        defer {
            watch.stop()
            history.stop()
        }

        let rule = AlertRule(
            name: "budget",
            filter: .everything,
            kind: .bytes(1_000, per: period == "day" ? .day : .month)
        )
        let level = period == "day" ? HistoryLevel.day : .month
        let begin = level.start(of: Int64(time(nil)))
        let earlier = level.start(of: begin - 1)
        func add(_ bytes: UInt64, at time: Int64) {
            var growth = Balance.Growth()
            growth.bytes = ByteCounts(payload: PayloadBytes(sent: bytes, received: 0))
            growth.byGroup = [ProcessGroup(name: "app"): growth.bytes]
            let minute = HistoryMinute(
                growth,
                at: Timestamp(nanosecondsSinceEpoch: time * 1_000_000_000),
                countedSeconds: 60
            )
            history.add(minute)
            watch.minuteEnded(minute.time)
        }
        watch.configure([rule])
        // Below a half until the last minute, and all of it with that minute.
        add(400, at: begin - 120)
        add(600, at: begin - 60)
        add(100, at: begin)
        let wanted =
            "alert is over: budget since \(Timestamp(nanosecondsSinceEpoch: earlier * 1_000_000_000)): 1000 bytes"
        let isOver = try await eventually(every: .milliseconds(20)) {
            kept.lines.withLock { $0.contains { $0.hasPrefix(wanted) } }
        }
        #expect(isOver)
        let lines = kept.lines.withLock(\.self)
        #expect(lines.allSatisfy { $0.hasPrefix("alert budget since") || $0.hasPrefix("alert is over: budget since") })
        #expect(
            lines.contains { $0.hasPrefix("alert budget since") && $0.contains(", 100 % of 1000 reached") },
            "\(lines)"
        )
        // The present one has only its own bytes.
        #expect(watch.alerts().alerts.isEmpty)
    }
}
