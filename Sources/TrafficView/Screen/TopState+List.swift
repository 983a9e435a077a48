import TrafficModel

/// Draws the rows of the list that are on the screen. Rows outside the screen cost nothing.
extension TopState {
    var listRows: [Frame.Row] {
        if self.rows.isEmpty { return [self.emptyRow] }
        let layout = self.columns
        let end = min(self.rows.count, self.scroll + self.listHeight)
        return (min(self.scroll, end)..<end).map { index in
            var row = self.row(self.rows[index], self.shown, layout, isSelected: index == self.cursor)
            // Without a connection the numbers are old, and they must not look new.
            if self.connection != .live {
                row.spans = row.spans.map { Frame.Span($0.text, Style(.dim, isSelected: $0.style.isSelected)) }
            }
            return row
        }
    }

    private var emptyRow: Frame.Row {
        var line = self.line()
        if self.pastMinute != nil {
            line.add("  " + self.emptyPast, .dim)
        } else if self.grouping == .remote, self.shown?.sockets == nil {
            line.add("  reading the sockets\(self.typeface.ellipsis)", .dim)
        } else if self.filter != nil {
            line.add("  nothing matches the filter; \\ removes it", .dim)
        } else {
            line.add("  no process has moved a byte yet", .dim)
        }
        return line.row()
    }

    /// - Parameter snapshot: `nil` in the past, where all rows are usages.
    private func row(_ row: ListRow, _ snapshot: Snapshot?, _ layout: ColumnLayout, isSelected: Bool) -> Frame.Row {
        var line = self.line()
        switch row.content {
        case .usage(let usage):
            self.add(usage, row, snapshot, layout, to: &line)
        case .socket(let index, let owner):
            guard let snapshot, let sockets = snapshot.sockets, sockets.indices.contains(index) else { break }
            self.add(sockets[index], of: owner, row, snapshot, layout, to: &line)
        case .endpoint(let endpoint):
            guard let snapshot else { break }
            self.add(endpoint, row, snapshot, layout, to: &line)
        case .ofExecutable(let hasExited):
            let reason = hasExited ? " exited: " : " "
            line.add(self.branch(row) + reason + "endpoints of all processes of its executable", .dim)
        case .rest(let hidden, let kind):
            let count = TimeText.grouped(UInt64(hidden))
            line.add(self.branch(row) + " \(count) more \(kind.rawValue), Enter shows them", .dim)
        case .pending(.sockets) where !self.isLocal:
            line.add(self.branch(row) + " sockets are shown on control.sock, or with the administrators' token", .dim)
        case .pending(let kind):
            line.add(self.branch(row) + " reading the \(kind.rawValue)\(self.typeface.ellipsis)", .dim)
        case .none(.sockets):
            line.add(self.branch(row) + " no sockets", .dim)
        case .none(.endpoints):
            line.add(self.branch(row) + " no endpoints reported; e shows the sockets", .dim)
        }
        return line.row(selected: isSelected)
    }

    func branch(_ row: ListRow) -> String {
        String(repeating: "  ", count: row.depth) + (row.isLast ? self.typeface.lastBranch : self.typeface.branch)
    }

    // MARK: Processes and groups

    private func add(
        _ usage: UsageRow,
        _ row: ListRow,
        _ snapshot: Snapshot?,
        _ layout: ColumnLayout,
        to line: inout Line
    ) {
        let plain: Style.Role = usage.isRunning ? .plain : .dim
        for (index, cell) in layout.cells.enumerated() {
            if index > 0 { line.add(" ") }
            switch cell.column {
            case .pid:
                let count = usage.id == .exited ? "" : String(usage.processes)
                line.add(
                    usage.pid.map(String.init) ?? count,
                    usage.pid == nil ? .dim : plain,
                    width: cell.width,
                    .right
                )
            case .user:
                line.add(self.typeface.printable(usage.user ?? "", limit: cell.width + 1), plain, width: cell.width)
            case .name:
                self.addName(usage, row, snapshot, width: cell.width, to: &line)
            case .unit:
                line.add(self.typeface.printable(usage.unit ?? "", limit: cell.width + 1), .label, width: cell.width)
            case .sockets:
                line.add(usage.sockets == 0 ? "" : TimeText.count(usage.sockets), plain, width: cell.width, .right)
            case .sparkline:
                let members = usage.members.lazy.compactMap { snapshot?.processes?[$0].identity }
                let history = self.timeline.history(of: members)
                let text = history.sparkline(width: cell.width, typeface: self.typeface)
                line.add(text, history.isIdle ? .dim : .sparkline, width: cell.width)
            case .explained:
                let percent = Self.percent(usage.explained, of: usage.bytes.payload.total)
                line.add(percent, plain, width: cell.width, .right)
            default:
                let share = usage.bytes.payloadSoFar
                let all = snapshot?.totals.rates ?? self.minute.map { $0.rates($0.totals) } ?? PayloadRates()
                self.addNumber(cell, share, usage.rates, all, isDim: !usage.isRunning, to: &line)
            }
        }
    }

    private func addName(_ usage: UsageRow, _ row: ListRow, _ snapshot: Snapshot?, width: Int, to line: inout Line) {
        var cell = Line(width: width, typeface: self.typeface)
        if row.depth > 0 { cell.add(self.branch(row)) }
        let canOpen = usage.id != .exited && self.pastMinute == nil
        let mark = self.expanded.contains(usage.id) ? self.typeface.expanded : self.typeface.collapsed
        if usage.id == self.pinned {
            cell.add(self.typeface.pinned + " ", .pinned)
        } else {
            cell.add(canOpen ? mark + " " : "  ", .dim)
        }
        cell.add(self.typeface.printable(usage.name, limit: width), usage.isRunning ? .name : .dim)
        if cell.room > 4, let snapshot, let remark = self.remark(on: usage, snapshot, room: cell.room) {
            cell.add(" " + self.typeface.printable(remark, limit: cell.room), .dim)
        }
        cell.pad(to: width)
        for span in cell.row().spans { line.add(span.text, span.style.role) }
    }

    /// More text for the name column, at most about `room` cells: the path, the time of the exit, or the arguments.
    private func remark(on usage: UsageRow, _ snapshot: Snapshot, room: Int) -> String? {
        guard usage.pid != nil, let index = usage.members.first, let process = snapshot.processes?[index] else {
            guard self.grouping == .executable, case .group(let path) = usage.id, path != usage.name else { return nil }
            return path
        }
        if process.state == .exited {
            guard let exitedAt = process.exitedAt else { return "exited" }
            return "exited \(TimeText.duration(seconds: seconds(from: exitedAt, to: snapshot.takenAt))) ago"
        }
        var remark = ""
        for argument in process.details.commandLine?.dropFirst() ?? [] {
            if remark.utf8.count > room { break }
            remark += (remark.isEmpty ? "" : " ") + argument.prefix(room)
        }
        return remark.isEmpty ? nil : remark
    }

    /// - Parameter rates: `nil` where the rates are unknown.
    func addNumber(
        _ cell: ColumnLayout.Cell,
        _ bytes: PayloadBytes,
        _ rates: PayloadRates?,
        _ all: PayloadRates,
        isDim: Bool,
        to line: inout Line
    ) {
        let role: Style.Role = isDim ? .dim : .plain
        switch cell.column {
        case .sentRate: self.addRate(rates?.sent, of: all.sent, isDim ? .dim : .sent, cell.width, to: &line)
        case .receivedRate:
            self.addRate(rates?.received, of: all.received, isDim ? .dim : .received, cell.width, to: &line)
        case .rate: self.addRate(rates?.total, of: all.total, role, cell.width, to: &line)
        case .sent: line.add(self.units.amount(bytes.sent), bytes.sent == 0 ? .dim : role, width: cell.width, .right)
        case .received:
            line.add(self.units.amount(bytes.received), bytes.received == 0 ? .dim : role, width: cell.width, .right)
        default: line.add(self.units.amount(bytes.total), bytes.total == 0 ? .dim : role, width: cell.width, .right)
        }
    }

    private func addRate(_ rate: Double?, of all: Double, _ role: Style.Role, _ width: Int, to line: inout Line) {
        guard let rate else { return line.add("-  ", .dim, width: width, .right) }
        // A busy row has at least a quarter of all traffic, and at least 1 kB/s.
        let isBusy = rate >= all / 4 && rate >= 1000
        line.add(self.units.amount(rate), rate == 0 ? .dim : isBusy ? .busy : role, width: width, .right)
    }

    // MARK: Sockets

    /// As ``SocketUsage/mainOwner``.
    private func ownerName(of socket: SocketUsage, _ snapshot: Snapshot) -> String {
        guard let owner = socket.mainOwner?.identity else { return "?" }
        let name = snapshot.processes?.first { $0.identity == owner }?.details.name ?? ""
        return "\(self.typeface.printable(name, limit: 40))[\(owner.pid)]"
    }

    private func add(
        _ socket: SocketUsage,
        of owner: ProcessIdentity?,
        _ row: ListRow,
        _ snapshot: Snapshot,
        _ layout: ColumnLayout,
        to line: inout Line
    ) {
        let isOpen = socket.closedAt == nil
        // Of a socket over which several processes moved bytes, only the counted bytes are known for each.
        let isShared = socket.owners.count { $0.payload.total > 0 } > 1
        var share = owner.flatMap { owner in socket.owners.first { $0.identity == owner }?.payload }
        if !isShared { share?.sent +|= socket.bytes.pendingSent }
        let rates = owner == nil || !isShared ? socket.rates : nil
        let name = owner == nil ? self.ownerName(of: socket, snapshot) : nil
        let description = SocketText(socket, typeface: self.typeface, at: snapshot.takenAt, owner: name)
        line.add(self.branch(row) + " ", .dim)
        let hasTiming = layout.cells.contains { $0.column == .sparkline }
        description.add(to: &line, until: layout.descriptionWidth, withTiming: !hasTiming)
        for cell in layout.cells where !cell.column.isDescription {
            line.add(" ")
            if cell.column == .explained {
                let percent = Self.percent(socket.explained, of: socket.bytes.payload.total)
                line.add(percent, .dim, width: cell.width, .right)
            } else if cell.column == .sparkline {
                line.add(description.timing(width: cell.width), isOpen ? .label : .dim, width: cell.width)
            } else {
                let bytes = share ?? socket.bytes.payloadSoFar
                self.addNumber(cell, bytes, rates, snapshot.totals.rates, isDim: !isOpen, to: &line)
            }
        }
    }

    /// Rounded down, so that 100 % means everything. Empty where nothing was reported.
    private static func percent(_ explained: UInt64, of payload: UInt64) -> String {
        guard explained > 0, payload > 0 else { return "" }
        return Units.fixed((Double(min(explained, payload)) / Double(payload) * 100).rounded(.down), decimals: 0) + "%"
    }
}
