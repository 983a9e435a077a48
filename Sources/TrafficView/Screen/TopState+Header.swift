import TrafficModel

/// The lines at the top: host, method, totals, and notices of what is not as it should be.
extension TopState {
    var headerRows: [Frame.Row] {
        if let minute { return self.pastHeaderRows(minute) }
        guard let snapshot = self.timeline.snapshot else { return [self.titleOnlyRow] }
        var rows: [Frame.Row]
        switch self.headerHeight {
        case 1: rows = [self.noticeHeight == 0 && !self.notices.isEmpty ? self.noticeRow : self.shortRow(snapshot)]
        case 2: rows = [self.hostRow(snapshot), self.totalsRow(snapshot)]
        default: rows = [self.hostRow(snapshot)] + self.trafficRows(snapshot)
        }
        rows += self.sumsRows
        if self.noticeHeight > 0 { rows.append(self.noticeRow) }
        return rows
    }

    private var titleOnlyRow: Frame.Row {
        var line = self.line()
        line.add(" trafficctl top", .title)
        return line.row()
    }

    private func hostRow(_ snapshot: Snapshot) -> Frame.Row {
        var line = self.line()
        let separator = " \(self.typeface.separator) "
        let processes = snapshot.processes?.count { $0.state == .running } ?? 0
        // Not from the list of sockets: that list has only what the screen needs, so the number would change with the
        // screen.
        let sockets = snapshot.processes?.reduce(0) { $0 + $1.socketsOpen } ?? 0
        let counts =
            "\(counted(processes, "process", "processes"))\(separator)\(counted(sockets, "socket", "sockets")) "
        let seconds = seconds(from: snapshot.countingSince, to: snapshot.takenAt)
        line.add(" ")
        // First, because what follows may find no room.
        if snapshot.capture.isFallback {
            line.add("NOT EXACT: \(snapshot.capture.method.rawValue), see c", .error)
            line.addWhole([(separator, .dim)])
        }
        line.add(self.typeface.printable(snapshot.host.name, limit: 64), .title)
        line.addWhole([(separator, .dim), ("counting ", .label), (TimeText.duration(seconds: seconds), .plain)])
        if !snapshot.capture.isFallback {
            line.addWhole([(separator, .dim)])
            line.addWhole([(snapshot.capture.method.rawValue, snapshot.capture.isDegraded ? .warning : .plain)])
        }
        let blind = snapshot.capture.isFallback ? 0 : snapshot.capture.blindSpots.count
        if blind > 0 { line.addWhole([(", \(counted(blind, "blind spot", "blind spots")) (c)", .label)]) }
        if line.room > counts.unicodeScalars.count + 1 {
            line.pad(to: self.size.width - counts.unicodeScalars.count)
            line.add(counts, .label)
        }
        return line.row()
    }

    private func shortRow(_ snapshot: Snapshot) -> Frame.Row {
        var line = self.line()
        if snapshot.capture.isFallback { line.add("NOT EXACT ", .error) }
        if self.size.width < 28 {
            let rates = snapshot.totals.rates
            line.addWhole([(self.typeface.up + self.units.short(rates.sent), .sent)])
            line.addWhole([(" " + self.typeface.down + self.units.short(rates.received), .received)])
        } else {
            self.addTotals(snapshot.totals, to: &line, withTotals: false)
        }
        line.addWhole([
            ("  ", .plain), (snapshot.capture.method.rawValue, snapshot.capture.isDegraded ? .warning : .label),
        ])
        line.addWhole([("  ", .plain), (self.typeface.printable(snapshot.host.name, limit: 64), .title)])
        return line.row()
    }

    private func totalsRow(_ snapshot: Snapshot) -> Frame.Row {
        var line = self.line()
        line.add(" ")
        self.addTotals(snapshot.totals, to: &line, withTotals: true)
        for interface in Self.ordered(snapshot.interfaces ?? []) {
            guard line.addWhole([(" \(self.typeface.bar) ", .dim)] + self.pieces(of: interface)) else { break }
        }
        return line.row()
    }

    private func addTotals(_ totals: Totals, to line: inout Line, withTotals: Bool) {
        let payload = totals.bytes.payloadSoFar
        let ways: [(String, Double, UInt64, Style.Role)] = [
            (self.typeface.up, totals.rates.sent, payload.sent, .sent),
            (self.typeface.down, totals.rates.received, payload.received, .received),
        ]
        for (index, (arrow, rate, total, role)) in ways.enumerated() {
            let both = withTotals || self.measure == .totals
            let amount = self.measure == .totals && !withTotals ? self.units.text(total) : self.units.rate(rate)
            line.add(index == 0 ? "" : " ")
            line.addWhole([(arrow + " ", role), (amount, role)])
            if both, withTotals { line.addWhole([(" " + self.units.text(total), .label)]) }
        }
    }

    /// Two lines: sent and received, each with its history. The interfaces stand beside them, one in each line.
    private func trafficRows(_ snapshot: Snapshot) -> [Frame.Row] {
        let totals = snapshot.totals
        let rateWidth = self.units.width + 2
        let interfaces = Self.ordered(snapshot.interfaces ?? [])
        let cell = 2 + 12 + 1 + 2 * (2 + rateWidth) + 1
        let base = 3 + rateWidth + 1 + self.units.width + 2
        let beside = max(0, min((interfaces.count + 1) / 2, (self.size.width - base - 10) / cell))
        let history = max(0, min(RateHistory.length, self.size.width - base - beside * cell - 2))
        let ways: [(String, Double, UInt64, RateHistory, Style.Role)] = [
            (self.typeface.up, totals.rates.sent, totals.bytes.payloadSoFar.sent, self.timeline.sent, .sent),
            (
                self.typeface.down, totals.rates.received, totals.bytes.payloadSoFar.received, self.timeline.received,
                .received
            ),
        ]
        return ways.enumerated().map { row, way in
            let (arrow, rate, total, samples, role) = way
            var line = self.line()
            line.add(" \(arrow) ", role)
            line.add(self.units.rate(rate), role, width: rateWidth, .right)
            line.add(" ")
            line.add(self.units.text(total), .label, width: self.units.width, .right)
            line.add("  ")
            line.add(samples.sparkline(width: history, typeface: self.typeface), role)
            line.add(" ")
            for position in 0..<beside {
                let index = position * 2 + row
                guard index < interfaces.count else { break }
                let hidden = interfaces.count - beside * 2
                line.add(" \(self.typeface.bar)", .dim)
                if hidden > 0, index == beside * 2 - 1 {
                    line.add(" \(hidden + 1) more interfaces (c)", .label)
                } else {
                    for (text, role) in self.pieces(of: interfaces[index], rateWidth: rateWidth) {
                        line.add(text, role)
                    }
                }
            }
            return line.row()
        }
    }

    /// Orders interfaces by all bytes that they ever moved. That order hardly changes.
    static func ordered(_ interfaces: [InterfaceUsage]) -> [InterfaceUsage] {
        interfaces.sorted {
            ($1.sentBytes &+ $1.receivedBytes, $0.name) < ($0.sentBytes &+ $0.receivedBytes, $1.name)
        }
    }

    private func pieces(of interface: InterfaceUsage, rateWidth: Int? = nil) -> [(String, Style.Role)] {
        let name = self.typeface.printable(interface.name, limit: 15)
        func amount(_ rate: Double?, _ total: UInt64) -> String {
            let text = if let rate, self.measure == .rates { self.units.rate(rate) } else { self.units.text(total) }
            return rateWidth.map { self.typeface.fitted(text, to: $0, .right) } ?? text
        }
        let sent = amount(interface.sentBytesPerSecond, interface.sentBytes)
        let received = amount(interface.receivedBytesPerSecond, interface.receivedBytes)
        return [
            (" " + (rateWidth == nil ? name : self.typeface.fitted(name, to: 12)), .label),
            (" \(self.typeface.up)", .sent), (sent, .plain), (" \(self.typeface.down)", .received), (received, .plain),
        ]
    }

    // MARK: Notices

    /// Notices of what is not as usual. The most serious notice comes first.
    var notices: [(text: String, role: Style.Role)] {
        var notices: [(String, Style.Role)] = self.replayNotices
        if self.replay == nil, case .lost = self.connection, let snapshot = self.live.snapshot {
            let age = self.now.map { TimeText.duration(seconds: seconds(from: snapshot.takenAt, to: $0)) }
            notices.append(
                (
                    "waiting for trafficd at \(self.typeface.printable(self.address))"
                        + (age.map { ", last seen \($0) ago" } ?? ""), .error
                )
            )
        }
        if self.replay == nil, self.isLocal, case .lost = self.connection {
            notices.append(("start it: sudo trafficd run", .key))
        }
        if case .live = self.connection, let age = self.silence {
            notices.append(("no data from trafficd for \(age)", .error))
        }
        if let loss = self.timeline.snapshot?.capture.lossSummary { notices.append(("! " + loss.text, loss.role)) }
        if let count = self.timeline.snapshot?.alertsActive, count > 0 {
            notices.append((counted(count, "alert", "alerts"), .warning))
        }
        if let snapshot = self.timeline.snapshot, snapshot.sockets != nil, let unlisted = snapshot.socketsUnlisted {
            notices.append(("too many sockets: \(unlisted) not listed", .pinned))
        }
        if let minute, minute.start != self.pastMinute { notices.append(("reading history", .pinned)) }
        if let pastEnd { notices.append((pastEnd, .pinned)) }
        if self.isPaused { notices.append(("paused", .pinned)) }
        if !self.filterText.isEmpty {
            notices.append(("filter: \(self.typeface.printable(self.filterText, limit: 200))", .pinned))
        }
        if self.grouping != .process {
            // Of sockets that are gone nobody keeps the remote end.
            let part = self.grouping == .remote ? ": only what open sockets moved" : ""
            notices.append(("by \(self.grouping.rawValue)\(part)", .pinned))
        }
        if self.pinned != nil { notices.append(("frozen row first", .pinned)) }
        // Last, because it is long. A screen without a line for notices has its rates there.
        let capture = self.timeline.snapshot?.capture
        if self.size.height >= Self.leastHeightWithNotices, let reason = capture?.reason, capture?.isFallback == true {
            notices.append(("why not exact: \(self.typeface.printable(reason, limit: 200))", .warning))
        }
        return notices
    }

    /// How long the daemon has sent no snapshot on a standing connection. `nil` where that is not too long.
    private var silence: String? {
        guard self.replay == nil, let now = self.now, let snapshot = self.live.snapshot else { return nil }
        let seconds = seconds(from: snapshot.takenAt, to: now)
        return seconds >= self.silenceAfterSeconds ? TimeText.duration(seconds: seconds) : nil
    }

    var noticeRow: Frame.Row {
        var line = self.line()
        // Then this line stands in place of the one that says so.
        if self.noticeHeight == 0, self.timeline.snapshot?.capture.isFallback == true { line.add("NOT EXACT ", .error) }
        for (index, notice) in self.notices.enumerated() {
            if index > 0, !line.addWhole([("  ", .plain)]) { break }
            line.add(" \(notice.text) ", notice.role)
        }
        return line.row()
    }
}

extension CaptureStatus {
    /// Whether a better capture method would see bytes that this method misses.
    var isDegraded: Bool { self.method == .poll || self.reason != nil }
}

extension CaptureStatus {
    /// Whether only polling was left, although the user did not ask for it.
    var isFallback: Bool { self.method == .poll && self.reason != nil }

    /// One line for the header. `nil` where nothing was missed, lost or late.
    var lossSummary: (text: String, role: Style.Role)? {
        let loss = self.loss
        // Reports are joined with counts of every call. Polling has none, so it joins few reports, and loses nothing by
        // that.
        let unjoined = self.method == .poll ? 0 : loss.reportsRejected
        let lost = loss.mapFull +| loss.recordsMalformed +| loss.reportsDropped +| unjoined
        var parts: [String] = []
        if loss.missedRuns > 0 { parts.append("missed \(loss.missedRuns) calls") }
        if lost > 0 { parts.append("lost \(TimeText.grouped(lost)) records") }
        if loss.ringFull > 0 { parts.append("late \(TimeText.grouped(loss.ringFull))") }
        guard !parts.isEmpty else { return nil }
        return (parts.joined(separator: ", "), loss.isLossy || lost > 0 ? .error : .warning)
    }
}

/// The result is 0 where the time is negative, because a clock was set back.
func seconds(from start: Timestamp, to end: Timestamp) -> Double {
    max(0, Double(end.nanosecondsSinceEpoch -| start.nanosecondsSinceEpoch) / 1e9)
}

private func counted(_ count: Int, _ one: String, _ many: String) -> String { "\(count) \(count == 1 ? one : many)" }
