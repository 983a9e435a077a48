import TrafficModel
import TrafficQuery

extension TopState {
    /// Does what a person asked for.
    public mutating func apply(_ action: Action) {
        if self.pastMinute != nil, self.applyInPast(action) { return }
        if self.replay != nil, self.applyInReplay(action) { return }
        switch action {
        case .quit: self.wantsQuit = true
        case .move(let lines): self.move(by: lines)
        case .page(let screens): self.move(by: screens * max(1, self.pageHeight - 1))
        case .moveToTop: self.moveToTop()
        case .moveToBottom: self.move(by: .max)
        case .toggleExpansion: self.setExpanded(nil)
        case .expand: self.setExpanded(true)
        case .collapse: self.setExpanded(false)
        case .sort(let key): self.sort(by: key.asked(of: self.measure))
        case .sortByNeighbour(let step): self.sortByNeighbour(step)
        case .reverse:
            self.order.isReversed.toggle()
            self.rebuild()
        case .group(let step):
            let next = self.grouping.next(step)
            self.group(by: next == .remote && !self.isLocal ? next.next(step) : next)
        case .toggleMeasure:
            self.measure = self.measure == .rates ? .totals : .rates
            self.order.key = self.order.key.asked(of: self.measure)
            self.rebuild()
        case .toggleEndpoints:
            self.showsEndpoints.toggle()
            self.unlimited = []
            self.rebuild()
        case .toggleUnits: self.units = self.units == .bytes ? .bits : .bytes
        case .togglePause: self.togglePause()
        case .togglePin: self.togglePin()
        case .toggleDetails:
            // On a low screen the details open as a page, because a pane would have too few lines.
            if self.size.height < Self.leastHeightForPane {
                self.mode = .page(.details, scroll: 0)
            } else {
                self.showsDetails.toggle()
                self.keepCursorVisible()
            }
        case .show(let page): self.mode = .page(page, scroll: 0)
        case .close: self.close()
        case .startFilter(let term): self.startFilter(term)
        case .clearFilter: self.tryFilter("")
        case .edit(let edit): self.editFilter(edit)
        case .acceptFilter: if self.filterError == nil { self.mode = .list }
        case .click(let row, let column): self.click(row: row, column: column)
        case .redraw: self.wantsRedraw = true
        // Only in a recording.
        case .replay: break
        }
    }

    private var pageHeight: Int {
        if case .page = self.mode { self.size.height - 2 } else { self.listHeight }
    }

    private mutating func move(by lines: Int) {
        if case .page(let page, let scroll) = self.mode {
            let most = max(0, self.pageRows(page).count - self.pageHeight)
            self.mode = .page(page, scroll: max(0, min(most, sum(scroll, lines))))
            return
        }
        guard !self.rows.isEmpty else { return }
        self.cursor = max(0, min(self.rows.count - 1, sum(self.cursor, lines)))
        self.selected = self.rows[self.cursor].id
        self.keepCursorVisible()
    }

    private mutating func moveToTop() {
        if case .page(let page, _) = self.mode {
            self.mode = .page(page, scroll: 0)
            return
        }
        self.selected = nil
        self.cursor = 0
        self.scroll = 0
    }

    /// - Parameter open: `nil` opens a closed row and closes an open row.
    private mutating func setExpanded(_ open: Bool?) {
        guard let row = self.selectedRow else { return }
        self.selected = row.id
        switch row.id {
        case .rest(let parent):
            guard open != false else { return self.collapseParent(of: row) }
            self.unlimited.insert(parent)
            // The line "… more" is gone. The first row that was hidden takes its place.
            self.selected = nil
            let position = self.cursor
            self.rebuild()
            self.cursor = min(position, max(0, self.rows.count - 1))
            self.selected = self.selectedRow?.id
            self.keepCursorVisible()
        case .process, .group:
            let isOpen = self.expanded.contains(row.id)
            if open == false, !isOpen { return self.collapseParent(of: row) }
            if open ?? !isOpen {
                self.expanded.insert(row.id)
            } else {
                self.expanded.remove(row.id)
                self.unlimited.remove(row.id)
            }
            self.rebuild()
        case .exited: break
        case .socket, .endpoint, .note:
            if open == nil { self.mode = .page(.details, scroll: 0) }
            if open == false { self.collapseParent(of: row) }
        }
    }

    /// Moves the cursor to the row that `row` stands below, then closes that row.
    private mutating func collapseParent(of row: ListRow) {
        guard let parent = self.rows[..<self.cursor].last(where: { $0.depth < row.depth }) else { return }
        self.expanded.remove(parent.id)
        self.unlimited.remove(parent.id)
        self.selected = parent.id
        self.rebuild()
        self.keepCursorVisible()
    }

    private mutating func sort(by key: SortKey) {
        // The same key twice reverses, as a second click on a column's title does in other programs.
        self.order = RowOrder(key, isReversed: self.order.key == key ? !self.order.isReversed : false)
        self.rebuild()
    }

    private mutating func sortByNeighbour(_ step: Int) {
        let keys = self.sortableColumns
        guard !keys.isEmpty else { return }
        let next =
            keys.firstIndex(of: self.order.key).map { ($0 + step + keys.count) % keys.count }
            ?? (step > 0 ? 0 : keys.count - 1)
        self.order = RowOrder(keys[next])
        self.rebuild()
    }

    mutating func group(by grouping: Grouping) {
        self.grouping = grouping
        // Another grouping has other rows.
        self.expanded = []
        self.unlimited = []
        self.pinned = nil
        self.rows = []
        self.moveToTop()
        self.rebuild()
    }

    private mutating func togglePause() {
        self.paused = self.isPaused ? nil : self.live
        self.rebuild()
    }

    private mutating func togglePin() {
        guard let row = self.selectedRow else { return }
        let id: RowID? =
            row.depth == 0 ? row.id : self.rows[..<self.cursor].last { $0.depth == 0 }?.id
        if row.depth == 0 { self.selected = row.id }
        self.pinned = self.pinned == id ? nil : id
        self.rebuild()
        self.keepCursorVisible()
    }

    private mutating func close() {
        switch self.mode {
        case .page: self.mode = .list
        case .filter:
            self.mode = .list
            self.tryFilter(self.filterTextBeforeEditing)
        case .list:
            if self.showsDetails {
                self.showsDetails = false
            } else {
                self.pinned = nil
            }
            self.rebuild()
        }
    }

    // MARK: Mouse

    private mutating func click(row: Int, column: Int) {
        let titleRow = self.headerRows.count
        if row == titleRow {
            if let key = self.columns.column(at: column)?.sortKey(self.measure) { self.sort(by: key) }
            return
        }
        let index = self.scroll + row - titleRow - 1
        guard row > titleRow, row <= titleRow + self.listHeight, self.rows.indices.contains(index) else { return }
        if index == self.cursor { return self.setExpanded(nil) }
        self.cursor = index
        self.selected = self.rows[index].id
    }

    // MARK: Filter

    private mutating func startFilter(_ term: String) {
        self.filterTextBeforeEditing = self.filterText
        let space = self.filterText.isEmpty || term.isEmpty ? "" : " "
        self.mode = .filter(LineEditor(self.filterText + space + term))
        self.keepCursorVisible()
    }

    private mutating func editFilter(_ edit: LineEditor.Edit) {
        guard case .filter(var editor) = self.mode else { return }
        if case .insert(let character) = edit {
            let text = String(character)
            guard self.typeface.printable(text) == text, editor.characters.count < Self.longestFilter else { return }
        }
        editor.apply(edit)
        self.mode = .filter(editor)
        self.tryFilter(editor.text)
    }

    private static let longestFilter = 500

    private mutating func tryFilter(_ text: String) {
        do throws(FilterError) {
            try self.setFilter(text)
        } catch {
            self.filterError = self.typeface.printable("\(error)")
        }
    }
}

/// "To the end" is a move by `Int.max` lines, so the sum must not overflow.
private func sum(_ line: Int, _ lines: Int) -> Int {
    let (sum, overflows) = line.addingReportingOverflow(lines)
    return overflows ? (lines > 0 ? .max : .min) : sum
}
