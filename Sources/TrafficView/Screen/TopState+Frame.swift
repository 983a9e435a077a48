import TrafficModel

extension TopState {
    static let leastHeightForPane = 18

    /// Draws this state. The frame has exactly as many rows as the screen, and no row is wider than the screen.
    public func frame() -> Frame {
        if case .page(let page, let scroll) = self.mode { return self.pageFrame(page, scroll: scroll) }
        var rows = self.headerRows
        if self.shown != nil || self.minute != nil, self.connection == .live || !self.rows.isEmpty {
            rows.append(self.titleRow)
            rows += self.listRows
        } else {
            rows += self.waitingRows
        }
        let listEnd = self.size.height - self.footerHeight - self.paneHeight
        while rows.count < listEnd { rows.append(Frame.Row()) }
        rows.removeSubrange(min(listEnd, rows.count)...)
        if self.paneHeight > 0 { rows += self.paneRows }
        var cursor: Frame.Cursor?
        if case .filter(let editor) = self.mode {
            let (row, column) = self.promptRow(editor)
            cursor = Frame.Cursor(row: min(rows.count, self.size.height - 1), column: column)
            rows.append(row)
        } else if self.footerHeight > 0 {
            rows.append(self.keysRow)
        }
        return Frame(rows: Array(rows.prefix(self.size.height)), cursor: cursor)
    }

    /// Draws the whole list, however long the list is, without prompt and keys. `top --once` prints this.
    ///
    /// - Parameter limit: The most rows of the list to draw.
    public func wholeFrame(limit: Int? = nil) -> Frame {
        var state = self
        state.rows = Array(state.rows.prefix(limit ?? .max))
        state.mode = .list
        state.showsDetails = false
        state.size.height = max(24, self.rows.count + 12)
        state.scroll = 0
        var frame = state.frame()
        frame.rows.removeLast(state.footerHeight)
        while let last = frame.rows.last, last.text.allSatisfy({ $0 == " " }) { frame.rows.removeLast() }
        return frame
    }

    // MARK: How the height is shared out

    var headerHeight: Int { self.size.height >= 14 ? 3 : self.size.height >= 10 ? 2 : 1 }
    /// The line of notices. A screen of fewer than 7 lines shows the notices in place of the totals.
    var noticeHeight: Int { self.size.height >= Self.leastHeightWithNotices && !self.notices.isEmpty ? 1 : 0 }
    static let leastHeightWithNotices = 7
    var footerHeight: Int {
        if case .filter = self.mode { return 1 }
        return self.size.height >= 8 ? 1 : 0
    }
    var paneHeight: Int {
        self.showsDetails && self.size.height >= Self.leastHeightForPane ? min(13, self.size.height * 2 / 5) : 0
    }
    /// Lines of the screen for rows of the list. The column titles have a line of their own.
    var listHeight: Int {
        let others = self.headerHeight + self.sumsHeight + self.noticeHeight + 1 + self.footerHeight + self.paneHeight
        return max(1, self.size.height - others)
    }

    var columns: ColumnLayout {
        ColumnLayout(
            width: self.size.width,
            grouping: self.grouping,
            measure: self.measure,
            units: self.units,
            hasReports: self.shown?.processes?.contains { $0.explained > 0 } == true,
            isPast: self.pastMinute != nil
        )
    }

    var sortableColumns: [SortKey] {
        self.columns.cells.map { $0.column.sortKey(self.measure) }
    }

    func line() -> Line { Line(width: self.size.width, typeface: self.typeface) }

    // MARK: Column titles, prompt, keys

    private var titleRow: Frame.Row {
        var line = self.line()
        let sorted = self.order.key
        let descending = self.order.key.isDescending != self.order.isReversed
        let layout = self.columns
        let cursorIsOnSocket = if case .socket = self.selectedRow?.content { true } else { false }
        let showsBoth = layout.cells.contains { $0.column.sortKey(self.measure) == sorted }
        for (index, cell) in layout.cells.enumerated() {
            if index > 0 { line.add(" ", .columnTitle) }
            let key = cell.column.sortKey(self.measure)
            // The order is by both directions together, and no column shows that sum: both single columns get the mark.
            let isPart = !showsBoth && Self.parts(of: sorted).contains(key)
            let isSorted = key == sorted || isPart
            let mark = isSorted ? (descending ? self.typeface.down : self.typeface.up) : ""
            let plain = cursorIsOnSocket && cell.column == .sparkline ? "RTT RETX" : cell.column.title(self.grouping)
            let title = plain.utf8.count < cell.width ? plain + mark : plain
            let alignment: Typeface.Alignment = cell.column.isNumber ? .right : .left
            let text =
                cell.column == .name
                ? self.typeface.fitted("  " + title, to: cell.width)
                : self.typeface.fitted(title, to: cell.width, alignment)
            line.add(text, isSorted ? .sortedColumnTitle : .columnTitle)
        }
        line.pad(to: self.size.width, .columnTitle)
        return line.row()
    }

    private static func parts(of key: SortKey) -> [SortKey] {
        switch key {
        case .rate: [.sentRate, .receivedRate]
        case .total: [.sent, .received]
        default: []
        }
    }

    private func promptRow(_ editor: LineEditor) -> (Frame.Row, cursor: Int) {
        var line = self.line()
        let prompt = "Filter: "
        line.add(prompt, .key)
        // Text that is too long scrolls, so that the cursor stays on the screen.
        let room = max(1, self.size.width - prompt.utf8.count - 1)
        var start = editor.text.startIndex
        while self.typeface.columns(of: String(editor.beforeCursor[start...])) >= room {
            start = editor.text.index(after: start)
        }
        let column = prompt.utf8.count + self.typeface.columns(of: String(editor.beforeCursor[start...]))
        line.add(String(editor.text[start...]))
        if let error = self.filterError {
            line.add("  ")
            line.add(error, .error)
        } else if editor.text.isEmpty {
            line.add("  ")
            let examples =
                self.pastMinute == nil
                ? "name  port:443  user:www-data  unit:nginx  remote:10.0.0.0/8  proto:udp  rx>1M"
                : "name  process:nginx  user:www-data  unit:nginx  container:c0ffee  rx>1M"
            line.add(examples, .dim)
        } else {
            line.addWhole([
                ("   ", .plain), ("Enter", .key), (" keep  ", .keyLabel), ("Esc", .key), (" undo", .keyLabel),
            ])
        }
        return (line.row(), min(column, self.size.width - 1))
    }

    private var keysRow: Frame.Row {
        var line = self.line()
        let isPast = self.pastMinute != nil
        let keys = [
            ("?", "help"), ("q", "quit"), ("/", "filter"),
            isPast ? ("Left Right", "minute") : ("Enter", "open"), ("g", "group"), ("< >", "sort"), ("r", "reverse"),
            ("t", self.measure == .rates ? "totals" : "rates"), ("b", self.units == .bytes ? "bits" : "bytes"),
        ]
        let others = [
            ("Space", self.isPaused ? "go on" : "pause"), ("f", "freeze"), ("d", "details"), ("c", "capture"),
        ]
        for (key, label) in keys + (isPast ? [] : others) {
            guard line.addWhole([(" \(key) ", .key), (label + " ", .keyLabel)]) else { break }
        }
        line.pad(to: self.size.width, .keyLabel)
        return line.row()
    }
}
