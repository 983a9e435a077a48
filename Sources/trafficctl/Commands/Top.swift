import ArgumentParser
import CTerminal
import CommandOptions
import Glibc
import TrafficModel
import TrafficQuery
import TrafficView

/// Not asynchronous, because the screen belongs to the main thread, which waits for keys.
struct Top: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "What moves bytes now, full screen; ? shows the keys.",
        discussion: """
            If trafficd is not running, top waits for it. With --once, top prints one snapshot as text, also without a \
            terminal.

            When you quit, top saves the sort order, grouping, units and display settings in \
            ~/.config/trafficctl/top.json (or below XDG_CONFIG_HOME). Delete the file to reset them. Options override \
            it. --once, and sudo with another user's home, neither read nor write it.

            EXAMPLES
              trafficctl top
              trafficctl top --filter user:www-data --group unit
              trafficctl top --once --sort total --limit 10
              trafficctl top --at 2026-11-25T14:30                what moved bytes in that minute
              trafficctl top --once --at 2h --group unit
            """
    )

    @OptionGroup var connection: ConnectionOptions
    @OptionGroup var filtering: FilterOptions
    @OptionGroup var color: ColorOptions
    @OptionGroup var unit: UnitOptions

    @OptionGroup var interval: IntervalOption

    @Option(
        name: .shortAndLong,
        help: "Order of the rows: largest first for amounts, A to Z for names. (default: rate, or as kept)"
    )
    var sort: SortKey?

    @Flag(name: .shortAndLong, help: "Reverse the order.")
    var reverse = false

    @Option(name: .shortAndLong, help: "What makes one row. (default: process, or as kept)")
    var group: Grouping?

    @Option(
        help: ArgumentHelp(
            "Show a past minute, of history: a time ago (3d, 6h) or a date (2026-11-01T14:30). Left and Right move by a minute.",
            valueName: "time"
        )
    )
    var at: PointInTime?

    @Flag(help: "Draw with ASCII; the default where the locale is not UTF-8.")
    var ascii = false

    @Flag(inversion: .prefixedNo, help: "Take the mouse. Without, the terminal can select text.")
    var mouse = true

    @Flag(help: "Print one picture as text and exit.")
    var once = false

    @Option(
        help: ArgumentHelp("With --once: width in cells. (default: the terminal's, COLUMNS, or 80)", valueName: "n")
    )
    var width: Int?

    @Option(help: ArgumentHelp("With --once: height in lines. (default: as many as there are rows)", valueName: "n"))
    var height: Int?

    @Option(
        name: [.customShort("n"), .long],
        help: ArgumentHelp("With --once: at most so many rows.", valueName: "n")
    )
    var limit: Int?

    func validate() throws {
        try self.validatePast()
        for (name, value) in [("--width", self.width), ("--height", self.height), ("--limit", self.limit)] {
            guard let value else { continue }
            if !self.once { throw ValidationError("\(name) is for --once.") }
            if !(1...10000).contains(value) { throw ValidationError("\(name) must be between 1 and 10000.") }
        }
    }

    func run() throws {
        if self.once { return try self.printOnce() }
        // The terminal has its settings back. Now the signal may end the program, and the shell sees which signal it
        // was.
        if let signal = try self.runScreen() { raise(signal) }
    }

    /// - Returns: The signal that ended the screen; `nil` where none did.
    private func runScreen() throws -> Int32? {
        // This runs after the loop and its screen are gone.
        defer { terminal_signals_remove() }
        let file = SettingsFile()
        var state = self.state(width: 80, height: 24, file?.read() ?? TopSettings())
        try self.setFilter(&state)
        // So that a daemon without history, or without this minute of it, is an error and no empty screen.
        if state.pastMinute != nil { try self.takeMinute(&state) }
        do throws(TerminalError) {
            let loop = try TopLoop(
                state: state,
                client: self.connection.client,
                interval: self.interval.interval,
                inColor: self.color.isWanted(.output),
                takesMouse: self.mouse
            )
            let end = loop.run()
            // A past minute has fewer columns, and is no reason to forget what the person wants of the present.
            if end.signal == nil, self.at == nil { file?.write(end.settings) }
            return end.signal
        } catch {
            throw Failure.terminal(error)
        }
    }

    private func state(width: Int, height: Int, _ kept: TopSettings = TopSettings()) -> TopState {
        var settings = kept
        if let sort {
            settings.sort = sort
            settings.reverse = false
            // An order by rates or by totals needs their columns.
            settings.measure = .rates
        }
        if self.reverse { settings.reverse = true }
        if let group { settings.group = group }
        if self.unit.bits { settings.units = .bits }
        return TopState(
            size: .init(width: width, height: height),
            typeface: TerminalLocale.typeface(ascii: self.ascii),
            socketPath: self.connection.client.socketPath,
            settings: settings,
            pastMinute: self.pastMinute
        )
    }

    private func setFilter(_ state: inout TopState) throws {
        do throws(FilterError) {
            try state.setFilter(self.filtering.filter ?? "")
        } catch {
            throw ValidationError("--filter: \(error)")
        }
    }

    /// Takes two snapshots, one interval apart, because a rate needs two samples.
    private func takeSnapshots(_ state: inout TopState) throws {
        var count = 0
        try self.read(state.demand) { news in
            if case .snapshot(let snapshot) = news {
                state.receive(snapshot)
                count += 1
            }
            return count == 2
        }
    }

    private func takeMinute(_ state: inout TopState) throws {
        try self.read(state.demand) { news in
            guard case .minute(let minute) = news else { return false }
            if let first = minute.first, minute.start < first.start {
                throw Failure.refused(status: 404, detail: "History has minutes from \(first.time) on.")
            }
            state.receive(minute)
            return true
        }
    }

    /// - Parameter take: Takes news; whether it was the last.
    private func read(_ demand: Demand, _ take: (SnapshotFeed.News) throws -> Bool) throws {
        let pipe: WakePipe
        do throws(TerminalError) { pipe = try WakePipe() } catch { throw Failure.terminal(error) }
        let client = self.connection.client
        let feed = SnapshotFeed(client: client, interval: self.interval.interval, wakeDescriptor: pipe.writeEnd)
        feed.start(demand)
        defer { feed.stop() }
        while true {
            pipe.wait()
            switch feed.takeNews() {
            case .lost(let failure): throw failure
            case let news?: if try take(news) { return }
            case nil: break
            }
        }
    }

    private func printOnce() throws {
        let output = StandardStream.output
        let width = self.width ?? output.columns ?? environment("COLUMNS").flatMap { Int($0) } ?? 80
        var state = self.state(width: width, height: self.height ?? 24)
        try self.setFilter(&state)
        if state.pastMinute == nil { try self.takeSnapshots(&state) } else { try self.takeMinute(&state) }
        let frame = self.height == nil ? state.wholeFrame(limit: self.limit) : state.frame()
        try output.write(frame, color: self.color)
    }
}

extension Top {
    /// The beginning of the minute of `--at`.
    fileprivate var pastMinute: Timestamp? {
        self.at.map { at in
            let seconds = at.seconds(now: Int64(time(nil)))
            return Timestamp(nanosecondsSinceEpoch: (seconds - seconds % 60) *| 1_000_000_000)
        }
    }

    fileprivate func validatePast() throws {
        guard let minute = self.pastMinute else { return }
        guard minute.nanosecondsSinceEpoch +| 60_000_000_000 <= Timestamp.now.nanosecondsSinceEpoch else {
            throw ValidationError("--at: that minute is not over. Without --at, top shows the present.")
        }
        if let group, !group.isInHistory {
            throw ValidationError("--at: history has rows by process, unit and user, not by \(group.rawValue).")
        }
        if let sort, !sort.isInHistory {
            throw ValidationError("--at: history has no column to sort by \(sort.rawValue).")
        }
        if let filter = self.filtering.filter {
            do throws(FilterError) {
                _ = try HistoryFilter(ofPastMinute: filter)
            } catch {
                throw ValidationError("--filter: \(error)")
            }
        }
    }
}
