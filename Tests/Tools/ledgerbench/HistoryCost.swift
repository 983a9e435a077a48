import ArgumentParser
import Foundation
import TrafficFeed
import TrafficHistory
import TrafficModel
import TrafficQuery

/// A database of months, as the daemon writes it.
struct HistoryCost: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "history",
        abstract: """
            Milliseconds to write a minute of history, bytes a row, and milliseconds to answer what the groups of a unit \
            moved in 30 days.
            """
    )

    @Option(help: "Groups that move bytes in each minute.")
    var groups = 2_000

    @Option(help: "Minutes to write, spread evenly over the days.")
    var minutes = 1_200

    @Option(help: "Days.")
    var days = 60

    @Option(help: "The figure is the median.")
    var rounds = 9

    func run() throws {
        let directory = FileManager.default.temporaryDirectory.appending(path: "history-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let path = directory.appending(path: "history.sqlite").path
        var retention = HistoryRetention.default
        for level in HistoryLevel.allCases { retention.keep(level, for: nil) }
        let now: Int64 = 1_795_600_800
        let store = try HistoryStore(path: path, retention: retention, machine: nil)
        var writes: [Double] = []
        for minute in 0..<self.minutes {
            let before = Int64(self.days) * 86_400 * Int64(self.minutes - minute) / Int64(self.minutes)
            let growth = self.growth(minute)
            let made = HistoryMinute(
                growth,
                at: Timestamp(nanosecondsSinceEpoch: (now - before) * 1_000_000_000),
                countedSeconds: 60
            )
            writes.append(try milliseconds { try store.add(made) })
        }
        var answers: [Double] = []
        let since = Timestamp(nanosecondsSinceEpoch: (now - 30 * 86_400) * 1_000_000_000)
        for _ in 0..<self.rounds {
            var question = HistoryQuestion(since: since, by: [.unit], top: 20)
            question.bucket = .day
            answers.append(try milliseconds { _ = try store.report(question, host: "h", now: now) })
        }
        let rows = try HistoryLevel.allCases.map { try store.rowCount($0) }.reduce(0, +)
        let size = try store.size()
        // Rows that one minute writes: of a group in four levels, and two more in five.
        let written = 4 * self.groups + 5 * 2
        let perRows = median(writes) / Double(written) * 25_000
        print(
            """
            {"groups": \(self.groups), "minute_ms": \(median(writes)), "ms_per_25000_rows": \(perRows), \
            "rows": \(rows), "bytes_per_row": \(Double(size) / Double(rows)), "answer_30d_ms": \(median(answers))}
            """
        )
    }

    private func growth(_ minute: Int) -> Balance.Growth {
        var growth = Balance.Growth()
        for number in 0..<self.groups {
            let bytes = UInt64(1 + (number &* 7_919 &+ minute &* 104_729) % 1_000_000)
            let group = ProcessGroup(
                name: "program-\(number)",
                executable: "/usr/bin/program-\(number)",
                systemdUnit: "unit-\(number % 500).service",
                uid: UInt32(number / 500)
            )
            growth.byGroup[group] = ByteCounts(
                payload: PayloadBytes(sent: bytes, received: 3 * bytes),
                wireSent: bytes + bytes / 10,
                wireReceived: 3 * bytes + bytes / 10,
                retransmitted: 0
            )
        }
        growth.bytes = growth.byGroup.values.reduce(ByteCounts(), +)
        growth.byScope = ["internet": growth.bytes]
        return growth
    }
}
