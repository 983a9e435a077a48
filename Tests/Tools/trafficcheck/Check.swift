import ArgumentParser
import Foundation
import GroundTruth
import TrafficDocuments
import TrafficHistory
import TrafficModel

/// The tests, scripts/accuracy and scripts/kernel-matrix share this comparison.
@main
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficcheck",
        abstract: "Compare what trafficd counts with what trafficgen's calls returned and what the kernel saw pass.",
        subcommands: [Run.self, Table.self, Starts.self, PastZones.self],
        defaultSubcommand: Run.self
    )
}

/// Reads rows and prints Markdown.
struct Table: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Read lines that runs have printed and print them as a table in Markdown."
    )

    func run() async throws {
        let input = String(decoding: FileHandle.standardInput.readDataToEndOfFile(), as: UTF8.self)
        let rows = input.split(separator: "\n").compactMap { AccuracyRow(line: String($0)) }
        guard !rows.isEmpty else { throw ValidationError("No line of a run in the input.") }
        FileHandle.standardOutput.write(Data(AccuracyTable(rows).markdown.utf8))
    }
}

/// For a test: the time zone is one for a process, and tests share theirs.
struct Starts: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Read seconds since 1970, a line each, and print when their hours, days and months began.",
        shouldDisplay: false
    )

    func run() {
        while let line = readLine() {
            guard let time = Int64(line) else { continue }
            let starts = [HistoryLevel.hour, .day, .month, .fiveMinutes].map { $0.start(of: time) }
            let month = CalendarMonth(of: time)?.start
            print((starts + [month ?? 0]).map { "\($0)" }.joined(separator: " "))
        }
    }
}
