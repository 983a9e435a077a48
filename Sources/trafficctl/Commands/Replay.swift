import ArgumentParser
import CommandOptions
import Glibc
import NIOCore
import TrafficDocuments
import TrafficExport
import TrafficModel
import TrafficQuery
import TrafficRecording
import TrafficView

/// Not asynchronous, because the screen belongs to the main thread, which waits for keys.
struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Shows a recording in top, or what history and alerts make of it.",
        discussion: """
            Needs no daemon. All keys of top work; [ and ] go a snapshot back and forward, { and } a minute, ( and ) \
            change the speed, ^ and $ go to the beginning and the end, and the space bar stops. Without a terminal, or \
            with --once, replay prints the last snapshot, or that of --at, as text.

            --to history adds up the bytes of the recording's time, as trafficctl history would. --to alerts judges the \
            rules of a configuration file over it, so that a rule can be tried on yesterday's traffic. --to ndjson \
            prints the snapshots, as trafficctl watch would.

            EXAMPLES
              trafficctl replay trouble.rec
              trafficctl replay trouble.rec --at 2026-11-25T14:30 --speed 10x
              trafficctl replay trouble.rec --once --sort total
              trafficctl replay night.rec --to history --by unit --bucket hour
              trafficctl replay night.rec --to alerts --config new-rules.yaml
              trafficctl replay night.rec --to alerts --config new-rules.yaml --format ndjson | jq .alert.rule
              trafficctl replay night.rec --to ndjson | jq .totals
            """
    )

    enum Destination: String, CaseIterable, ExpressibleByArgument {
        case top, history, alerts, ndjson
    }

    @Argument(help: "What trafficctl record wrote.", completion: .file())
    var file: String

    @Option(help: "What to show of it.")
    var to = Destination.top

    @Option(
        help: ArgumentHelp(
            "Begin with the snapshot of this time: a date (2026-11-01T14:30:05) or a time ago (6h).",
            valueName: "time"
        )
    )
    var at: PointInTime?

    @Option(help: ArgumentHelp("How many times as fast as it was recorded: 0.125x to 1024x.", valueName: "speed"))
    var speed = Speed(factor: 1)

    @Option(
        name: .shortAndLong,
        // A filter may begin with the minus that negates a term.
        parsing: .unconditional,
        help: ArgumentHelp("Only what matches all terms, as in top and history; -term excludes.", valueName: "terms")
    )
    var filter: String?

    @OptionGroup var look: TopLook

    @Option(
        name: [.customShort("n"), .long],
        help: ArgumentHelp("With --once or --to history: at most so many rows or names.", valueName: "n")
    )
    var limit: Int?

    @Option(help: ArgumentHelp("With --to history: as in trafficctl history. (default: process)", valueName: "words"))
    var by: String?

    @Option(help: "With --to history: a row for each of these times. (default: one row for the whole time)")
    var bucket: HistoryLevel?

    @Option(
        help:
            "With --to history: as in trafficctl history. With --to alerts: table, or a line of JSON for each change (json, ndjson). (default: table)"
    )
    var format: RowOptions.Format?

    @Option(
        help: ArgumentHelp("With --to alerts: the configuration file with the rules.", valueName: "file"),
        completion: .file(extensions: ["yaml"])
    )
    var config: String?

    struct Speed: ExpressibleByArgument, CustomStringConvertible {
        var factor: Double

        init(factor: Double) { self.factor = factor }

        init?(argument: String) {
            let digits = argument.hasSuffix("x") ? String(argument.dropLast()) : argument
            guard let factor = Double(digits), Replay.speeds.contains(factor) else { return nil }
            self.factor = factor
        }

        var description: String { self.factor == self.factor.rounded() ? "\(Int(self.factor))x" : "\(self.factor)x" }
        var defaultValueDescription: String { self.description }
    }

    // MARK: Options that have no meaning together

    func validate() throws {
        let options: [(name: String, isGiven: Bool, of: [Destination])] = [
            ("--at", self.at != nil, [.top]), ("--once", self.look.once, [.top]),
            ("--sort", self.look.sort != nil, [.top]), ("--group", self.look.group != nil, [.top]),
            ("--filter", self.filter != nil, [.top, .history, .ndjson]),
            ("--limit", self.limit != nil, [.top, .history]),
            ("--by", self.by != nil, [.history]), ("--bucket", self.bucket != nil, [.history]),
            ("--format", self.format != nil, [.history, .alerts]), ("--config", self.config != nil, [.alerts]),
        ]
        for option in options where option.isGiven && !option.of.contains(self.to) {
            let words = option.of.map { "--to \($0.rawValue)" }.joined(separator: " or ")
            throw ValidationError("\(option.name) is for \(words).")
        }
        switch self.to {
        case .top:
            try self.look.check(limit: self.limit)
            try self.checkFilter()
        case .ndjson: try self.checkFilter()
        case .history: _ = try self.question()
        case .alerts:
            if self.config == nil { throw ValidationError("--to alerts needs --config FILE, with the rules.") }
            if self.format == .csv || self.format == .tsv {
                throw ValidationError("--to alerts takes --format table, json or ndjson.")
            }
        }
    }

    private func checkFilter() throws {
        do throws(FilterError) { _ = try Filter(self.filter ?? "") } catch {
            throw ValidationError("--filter: \(error)")
        }
    }

    func question() throws -> HistoryQuestion {
        if let limit, !(1...HistoryQuestion.mostNames).contains(limit) {
            throw ValidationError("--limit must be between 1 and \(HistoryQuestion.mostNames).")
        }
        let isTable = (self.format ?? .table) == .table
        var question = try HistoryQuestion(by: self.by, bucket: self.bucket, filter: self.filter)
        question.top = self.limit ?? (isTable ? 20 : HistoryQuestion.mostNames)
        return question
    }

    // MARK: Running

    func run() throws {
        let recording: Recording
        do throws(RecordingError) { recording = try Recording(path: self.file) } catch {
            throw Failure.recording(error)
        }
        if recording.header.filtered, self.to == .history || self.to == .alerts {
            throw Failure.recording(.filtered(path: self.file))
        }
        do {
            switch self.to {
            case .top: try self.showTop(recording)
            case .history:
                self.warn(of: recording)
                try self.printHistory(recording)
            case .alerts:
                self.warn(of: recording)
                try self.printAlerts(recording)
            case .ndjson:
                self.warn(of: recording)
                try self.printSnapshots(recording)
            }
        } catch let error as RecordingError {
            throw Failure.recording(error)
        }
    }

    /// Says that the recording ends early. `top` says it on the screen.
    private func warn(of recording: Recording) {
        if let fault = recording.fault { say("\(fault); the \(recording.count) snapshots before that are used") }
    }

    private func showTop(_ recording: Recording) throws {
        let isOnce = self.look.once || !StandardStream.output.isTerminal
        let at = self.at.map { at in
            recording.index(at: Timestamp(nanosecondsSinceEpoch: at.seconds(now: Int64(time(nil))) *| 1_000_000_000))
        }
        let file = isOnce ? nil : SettingsFile()
        var state = TopState(
            size: isOnce ? self.look.size : .init(width: 80, height: 24),
            typeface: TerminalLocale.typeface(ascii: self.look.ascii),
            address: self.file,
            settings: self.look.settings(over: file?.read() ?? TopSettings()),
            replay: Replay(
                times: (0..<recording.count).map { recording.time(of: $0) },
                interval: recording.header.interval,
                from: at ?? (isOnce ? recording.count - 1 : 0),
                speed: self.speed.factor,
                fault: recording.fault?.description
            )
        )
        try state.setFilter(self.filter ?? "")
        guard let replay = state.replay else { return }
        if isOnce {
            state.apply(.togglePause)
            if let request = state.replay?.request {
                let time = LocalTime.withSeconds(recording.time(of: request.index))
                let snapshot = try recording.snapshot(request.index)
                state.receive(snapshot, at: request.index, time: time, for: request)
            }
            return try self.look.print(state, limit: self.limit)
        }
        let end = try self.look.runScreen(state) {
            ReplayFeed(recording, offsets: replay.offsets, wakeDescriptor: $0)
        }
        guard let signal = end.signal else {
            file?.write(end.settings)
            return
        }
        raise(signal)
    }

    private func printSnapshots(_ recording: Recording) throws {
        let filter = try self.filter.map { text in try Filter(text) }
        for index in 0..<recording.count {
            let snapshot = try recording.snapshot(index)
            let shown = filter.map { snapshot.filtered(by: $0) } ?? snapshot
            try StandardStream.output.write(ByteBuffer(bytes: shown.encoded(as: .json, table: .processes)))
        }
    }
}
