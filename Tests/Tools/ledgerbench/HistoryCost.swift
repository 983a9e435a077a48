import ArgumentParser
import Foundation
import TrafficDocuments
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
            moved, or what was asked of a host, in 30 days.
            """
    )

    @Option(help: "Groups that move bytes in each minute, and in another database endpoints with requests.")
    var groups = 2_000

    @Option(help: "Minutes to write, spread evenly over the days.")
    var minutes = 1_200

    @Option(help: "Days.")
    var days = 60

    @Option(help: "The figure is the median.")
    var rounds = 9

    private struct Figures {
        /// Milliseconds.
        var minute: Double
        var answer: Double
        var rows: Int64
        var bytesPerRow: Double
    }

    func run() throws {
        let groups = try self.measure(.unit, self.growth)
        let endpoints = try self.measure(.host, self.growthOfEndpoints)
        // Rows that one minute writes: of a group or endpoint in four levels. Of the total and a scope in five.
        func perRows(_ figures: Figures, others: Int) -> Double {
            figures.minute / Double(4 * self.groups + 5 * others) * 25_000
        }
        print(
            """
            {"groups": \(self.groups), "minute_ms": \(groups.minute), "ms_per_25000_rows": \(perRows(groups, others: 2)), \
            "rows": \(groups.rows), "bytes_per_row": \(groups.bytesPerRow), "answer_30d_ms": \(groups.answer), \
            "endpoint_minute_ms": \(endpoints.minute), \
            "endpoint_ms_per_25000_rows": \(perRows(endpoints, others: 1)), \
            "endpoint_bytes_per_row": \(endpoints.bytesPerRow), "endpoint_answer_30d_ms": \(endpoints.answer)}
            """
        )
    }

    /// A database of its own.
    private func measure(_ word: HistoryDimension, _ growth: (Int) -> Balance.Growth) throws -> Figures {
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
            let made = HistoryMinute(
                growth(minute),
                at: Timestamp(nanosecondsSinceEpoch: (now - before) * 1_000_000_000),
                countedSeconds: 60
            )
            writes.append(try milliseconds { try store.add(made) })
        }
        var answers: [Double] = []
        let since = Timestamp(nanosecondsSinceEpoch: (now - 30 * 86_400) * 1_000_000_000)
        for _ in 0..<self.rounds {
            var question = HistoryQuestion(since: since, by: [word], top: 20)
            question.bucket = .day
            answers.append(try milliseconds { _ = try store.report(question, host: "h", now: now) })
        }
        let rows = try HistoryLevel.allCases.map { try store.rowCount($0) }.reduce(0, +)
        return Figures(
            minute: median(writes),
            answer: median(answers),
            rows: rows,
            bytesPerRow: Double(try store.size()) / Double(rows)
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

    /// Requests of some hundred bytes, most without a body, and responses with some kilobytes.
    private func growthOfEndpoints(_ minute: Int) -> Balance.Growth {
        var growth = Balance.Growth()
        for number in 0..<self.groups {
            let requests = UInt64(1 + (number &* 7_919 &+ minute &* 104_729) % 100)
            let endpoint = ServiceEndpoint(
                process: ProcessGroup(
                    name: "program-\(number / 20)",
                    executable: "/usr/bin/program-\(number / 20)",
                    systemdUnit: "unit-\(number / 20).service",
                    uid: UInt32(number / 500)
                ),
                role: .client,
                host: "api-\(number % 50).example.com",
                route: "/v1/things/{id}/part-\(number)"
            )
            growth.byEndpoint[endpoint] = EndpointCounts(
                requests: requests,
                ended: requests,
                failures: number % 10 == 0 ? 1 : 0,
                sent: MessageParts(
                    header: 412 * requests,
                    body: number % 5 == 0 ? 900 * requests : 0,
                    rest: 61 * requests
                ),
                received: MessageParts(header: 388 * requests, body: 5_213 * requests, rest: 17 * requests)
            )
        }
        return growth
    }
}
