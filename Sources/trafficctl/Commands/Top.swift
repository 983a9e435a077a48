import ArgumentParser
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

    @OptionGroup var interval: IntervalOption

    @Option(
        help: ArgumentHelp(
            "Show a past minute, of history: a time ago (3d, 6h) or a date (2026-11-01T14:30). Left and Right move by a minute.",
            valueName: "time"
        )
    )
    var at: PointInTime?

    @OptionGroup var look: TopLook

    @Option(
        name: [.customShort("n"), .long],
        help: ArgumentHelp("With --once: at most so many rows.", valueName: "n")
    )
    var limit: Int?

    func validate() throws {
        try self.validatePast()
        try self.look.check(limit: self.limit)
    }

    func run() throws {
        if self.look.once { return try self.printOnce() }
        // The terminal has its settings back. Now the signal may end the program, and the shell sees which signal it
        // was.
        if let signal = try self.runScreen() { raise(signal) }
    }

    /// - Returns: The signal that ended the screen; `nil` where none did.
    private func runScreen() throws -> Int32? {
        let file = SettingsFile()
        var state = try self.state(.init(width: 80, height: 24), file?.read() ?? TopSettings())
        try self.setFilter(&state)
        state.silenceAfterSeconds = max(15, 3 * self.interval.interval.seconds)
        // So that a daemon without history, or without this minute of it, is an error and no empty screen.
        if state.pastMinute != nil { try self.takeMinute(&state) }
        let (client, interval) = (try self.connection.client, self.interval.interval)
        let end = try self.look.runScreen(state) {
            SnapshotFeed(client: client, interval: interval, wakeDescriptor: $0)
        }
        // A past minute has fewer columns, and is no reason to forget what the person wants of the present.
        if end.signal == nil, self.at == nil { file?.write(end.settings) }
        return end.signal
    }

    private func state(_ size: TopState.Size, _ kept: TopSettings = TopSettings()) throws -> TopState {
        let address = try self.connection.client.address
        return TopState(
            size: size,
            typeface: TerminalLocale.typeface(ascii: self.look.ascii),
            address: address.description,
            isLocal: address.isLocal,
            settings: self.look.settings(over: kept),
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
    private func read(_ demand: Demand, _ take: (TopNews) throws -> Bool) throws {
        let pipe: WakePipe
        do throws(TerminalError) { pipe = try WakePipe() } catch { throw Failure.terminal(error) }
        let client = try self.connection.client
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
        var state = try self.state(self.look.size)
        try self.setFilter(&state)
        if state.pastMinute == nil { try self.takeSnapshots(&state) } else { try self.takeMinute(&state) }
        try self.look.print(state, limit: self.limit)
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
        if let group = self.look.group, !group.isInHistory {
            throw ValidationError("--at: history has rows by process, unit and user, not by \(group.rawValue).")
        }
        if let sort = self.look.sort, !sort.isInHistory {
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
