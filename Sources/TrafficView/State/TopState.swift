public import TrafficModel
public import TrafficQuery

/// Everything that decides what `top` shows. This is a value: ``apply(_:)`` and ``receive(_:)`` change it, and
/// ``frame()`` draws it. None of them reads a clock, a terminal or a socket.
public struct TopState: Sendable {
    public enum Mode: Sendable, Hashable {
        case list
        /// The person types a filter. Every key changes the filter at once.
        case filter(LineEditor)
        /// - Parameter scroll: Lines of the page above the screen.
        case page(Page, scroll: Int)
    }

    public enum Connection: Sendable, Hashable {
        case connecting
        case live
        /// - Parameter reason: One line.
        case lost(reason: String)
    }

    public struct Size: Sendable, Hashable {
        public var width: Int
        public var height: Int

        /// At least one cell.
        public init(width: Int, height: Int) {
            self.width = max(1, width)
            self.height = max(1, height)
        }
    }

    // What the person chose.
    public let typeface: Typeface
    public internal(set) var order = RowOrder(.rate)
    public internal(set) var grouping = Grouping.process
    public internal(set) var measure = Measure.rates
    public internal(set) var units = Units.bytes
    public internal(set) var mode = Mode.list
    public internal(set) var showsDetails = false
    public internal(set) var showsEndpoints = false
    public internal(set) var filterText = ""
    /// Why the typed text is not a filter. The filter before stays in force.
    public internal(set) var filterError: String?
    var filter: Filter?
    /// The filter that is in force again when the person leaves the prompt with Esc.
    var filterTextBeforeEditing = ""
    public internal(set) var wantsQuit = false
    /// Whoever draws the screen sends the whole picture and sets this to `false`.
    public var wantsRedraw = false
    var expanded: Set<RowID> = []
    var unlimited: Set<RowID> = []
    var pinned: RowID?

    // What the daemon said.
    public internal(set) var connection = Connection.connecting
    /// Where the daemon is expected: a path, or a URL. The message about a missing daemon shows it.
    public let address: String
    /// The daemon is asked on its own socket. Over TCP no daemon shows sockets.
    public let isLocal: Bool
    var live = Timeline()
    /// The data that the screen shows while paused.
    var paused: Timeline?
    public var isPaused: Bool { self.paused != nil }
    var timeline: Timeline { self.paused ?? self.live }
    /// Wall-clock time, to show how old the data is.
    public internal(set) var now: Timestamp?

    /// Data older than this on a standing connection means that the daemon hangs.
    public var silenceAfterSeconds = 15.0

    // The past.
    /// The beginning of the minute of history that the screen is to show; `nil` for the present.
    public internal(set) var pastMinute: Timestamp?
    /// What history said of it, or of the one before.
    var minute: PastMinute?
    var pastFilter = HistoryFilter()
    /// Why the person can't go on to an earlier or later minute.
    var pastEnd: String?

    // A recording.
    /// `nil` for what the daemon says.
    public internal(set) var replay: Replay?
    /// When the shown snapshot was taken, for people.
    var replayTime = ""

    // What follows from the choices and the data.
    public internal(set) var size: Size
    /// The part of the snapshot that passed the filter.
    var shown: Snapshot?
    var rows: [ListRow] = []
    /// The row that the cursor follows; `nil` while it stays at the top.
    var selected: RowID?
    /// Where the selected row is in ``rows``.
    var cursor = 0
    /// Lines of the list above the screen.
    var scroll = 0

    public init(
        size: Size,
        typeface: Typeface,
        address: String,
        isLocal: Bool = true,
        settings: TopSettings = TopSettings(),
        pastMinute: Timestamp? = nil,
        replay: Replay? = nil
    ) {
        self.size = size
        self.typeface = typeface
        (self.address, self.isLocal) = (address, isLocal)
        self.order = RowOrder(settings.sort, isReversed: settings.reverse)
        // An order by totals comes with columns of totals.
        self.measure = settings.sort.asked(of: .rates) == settings.sort ? settings.measure : .totals
        self.order.key = self.order.key.asked(of: self.measure)
        self.grouping = settings.group
        self.units = settings.units
        self.showsDetails = settings.showsDetails
        self.showsEndpoints = settings.showsEndpoints
        self.replay = replay
        self.pastMinute = pastMinute
        if !isLocal, self.grouping == .remote { self.grouping = .process }
        guard pastMinute != nil else { return }
        if !self.order.key.isInHistory { self.order = RowOrder(.rate.asked(of: self.measure)) }
        if !self.grouping.isInHistory { self.grouping = .process }
        self.showsDetails = false
    }

    /// What the person chose, for the next start.
    public var settings: TopSettings {
        TopSettings(
            sort: self.order.key,
            reverse: self.order.isReversed,
            group: self.grouping,
            measure: self.measure,
            units: self.units,
            showsDetails: self.showsDetails,
            showsEndpoints: self.showsEndpoints
        )
    }

    /// The sockets that snapshots must have for what the screen shows now.
    public var socketDemand: SocketDemand {
        if case .page(.details, _) = self.mode { return .all }
        // A filter tests the sockets of all processes.
        if self.filter?.needsSockets == true { return .all }
        let demand = self.builder.socketDemand
        return self.filter?.isEmpty == false && demand != .none ? .all : demand
    }

    var builder: ListBuilder {
        ListBuilder(
            order: self.order,
            grouping: self.grouping,
            expanded: self.expanded,
            unlimited: self.unlimited,
            showsEndpoints: self.showsEndpoints,
            pinned: self.pinned
        )
    }

    // MARK: What the daemon says

    public mutating func receive(_ snapshot: Snapshot) {
        self.connection = .live
        self.live.append(snapshot)
        self.closeRowsOfGoneProcesses(snapshot)
        if self.isPaused {
            // When the person opens a row while paused, its sockets come from the running stream, once.
            let demand = self.socketDemand
            guard self.paused?.snapshot?.covers(demand) == false, snapshot.covers(demand) else { return }
            self.paused = self.live
        }
        self.rebuild()
    }

    /// The screen asks for the sockets of every open row. A row that is gone must not cause that.
    private mutating func closeRowsOfGoneProcesses(_ snapshot: Snapshot) {
        guard !self.expanded.isEmpty, let processes = snapshot.processes else { return }
        let listed = Set(processes.map { RowID.process($0.identity) })
        self.expanded = self.expanded.filter { row in
            if case .process = row { listed.contains(row) } else { true }
        }
    }

    /// - Parameter reason: One line. The screen makes the text printable before showing it.
    public mutating func loseConnection(reason: String) {
        self.connection = .lost(reason: reason)
    }

    public mutating func tick(now: Timestamp) {
        self.now = now
    }

    public mutating func resize(to size: Size) {
        self.size = size
        self.keepCursorVisible()
    }

    /// Puts `text` in force as the filter.
    ///
    /// - Throws: `FilterError` where `text` is not a filter. The filter before then stays in force.
    public mutating func setFilter(_ text: String) throws(FilterError) {
        if self.pastMinute != nil { self.pastFilter = try HistoryFilter(ofPastMinute: text) }
        let filter = text.allSatisfy(\.isWhitespace) ? nil : try Filter(text)
        if !self.isLocal, filter?.needsSockets == true { throw FilterError(reason: .noSockets, offset: 0) }
        self.filter = filter
        self.filterText = self.filter == nil ? "" : text
        self.filterError = nil
        self.rebuild()
    }

    // MARK: What follows

    /// Filters, groups and orders again. The cursor stays with its row, or in its line where the row is gone.
    mutating func rebuild() {
        let cursorWasVisible = self.cursor >= self.scroll && self.cursor < self.scroll + self.listHeight
        if self.pastMinute != nil {
            guard let minute else { return }
            self.rows = self.builder.rows(of: minute, passing: self.pastFilter)
        } else {
            guard let snapshot = self.timeline.snapshot else { return }
            self.show(snapshot)
        }
        self.locateCursor()
        // At the top, the person watches which rows come up, so the list does not scroll after a row that sinks.
        // Further down, the person watches one row, so the list scrolls with that row.
        if cursorWasVisible, self.scroll > 0 { self.keepCursorVisible() }
        self.clampScroll()
    }

    private mutating func show(_ snapshot: Snapshot) {
        // A filter on sockets does not work on a snapshot without all sockets. The next snapshot has them.
        let canFilter = self.filter.map { !$0.needsSockets || snapshot.covers(.all) } ?? false
        self.shown = if let filter, canFilter { snapshot.filtered(by: filter) } else { snapshot }
        // A row's share is a share of all traffic, also of the traffic that the filter hides.
        self.shown?.totals = snapshot.totals
        if let shown { self.rows = self.builder.rows(of: shown) }
    }

    private mutating func locateCursor() {
        guard let selected else {
            self.cursor = 0
            return
        }
        if let index = self.rows.firstIndex(where: { $0.id == selected }) {
            self.cursor = index
        } else {
            self.cursor = min(self.cursor, max(0, self.rows.count - 1))
            self.selected = self.rows.indices.contains(self.cursor) ? self.rows[self.cursor].id : nil
        }
    }

    mutating func keepCursorVisible() {
        let height = self.listHeight
        if self.cursor < self.scroll { self.scroll = self.cursor }
        if self.cursor >= self.scroll + height { self.scroll = self.cursor - height + 1 }
        self.clampScroll()
    }

    private mutating func clampScroll() {
        self.scroll = max(0, min(self.scroll, self.rows.count - self.listHeight))
    }

    var selectedRow: ListRow? {
        self.rows.indices.contains(self.cursor) ? self.rows[self.cursor] : nil
    }
}
