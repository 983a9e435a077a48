import ArgumentParser
import Foundation
import TrafficDocuments
import TrafficExport
import TrafficHistory
import TrafficModel
import TrafficQuery

/// For a test: a history that is written and read in several time zones. The time zone is one for a process.
struct PastZones: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "zones",
        abstract: "Read lines `add TIME BYTES`, `report SINCE BUCKET NOW` or `month YYYY-MM NOW`, and print JSON.",
        shouldDisplay: false
    )

    @Argument var file: String

    func run() throws {
        var retention = HistoryRetention.default
        for level in HistoryLevel.allCases { retention.keep(level, for: nil) }
        let store = try HistoryStore(path: self.file, retention: retention, machine: nil)
        while let line = readLine() {
            let words = line.split(separator: " ").map(String.init)
            guard words.count >= 3 else { throw ValidationError("not a line of this: \(line)") }
            switch words[0] {
            case "add":
                var growth = Balance.Growth()
                growth.bytes = ByteCounts(payload: PayloadBytes(sent: UInt64(words[2]) ?? 0))
                let time = Timestamp(nanosecondsSinceEpoch: (Int64(words[1]) ?? 0) * 1_000_000_000)
                try store.add(HistoryMinute(growth, at: time, countedSeconds: 60))
            case "report":
                let since = Timestamp(nanosecondsSinceEpoch: (Int64(words[1]) ?? 0) * 1_000_000_000)
                let question = HistoryQuestion(since: since, bucket: HistoryLevel(rawValue: words[2]), by: [.total])
                self.show(try store.report(question, host: "h", now: Int64(words[3]) ?? 0).json())
            default:
                let question = MonthQuestion(month: CalendarMonth(words[1]))
                self.show(try store.report(question, host: "h", now: Int64(words[2]) ?? 0).json())
            }
        }
    }

    private func show(_ json: [UInt8]) { print(String(decoding: json, as: UTF8.self)) }
}
