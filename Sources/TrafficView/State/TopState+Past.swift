import TrafficModel
import TrafficQuery

/// A past minute on the screen of `top`.
extension TopState {
    public var demand: Demand {
        if let replay { return .recording(replay.request) }
        return self.pastMinute.map { .minute($0) } ?? .live(self.socketDemand)
    }

    public mutating func receive(_ minute: PastMinute) {
        // The answer to a question that the person has moved on from.
        guard minute.start == self.pastMinute else { return }
        self.connection = .live
        if let first = minute.first, minute.start < first.start {
            self.pastMinute = first.start
            self.pastEnd = "history has minutes from \(first.time) on"
            return
        }
        self.minute = minute
        self.rebuild()
    }

    /// - Returns: Whether the action has another meaning in the past, or none.
    mutating func applyInPast(_ action: Action) -> Bool {
        switch action {
        case .expand: self.moveMinute(by: 1)
        case .collapse: self.moveMinute(by: -1)
        case .group(let step):
            var next = self.grouping.next(step)
            while !next.isInHistory { next = next.next(step) }
            self.group(by: next)
        case .sort(let key): return !key.isInHistory
        case .toggleExpansion, .toggleEndpoints, .toggleDetails, .togglePause, .show(.details), .show(.capture): break
        default: return false
        }
        return true
    }

    private mutating func moveMinute(by step: Int64) {
        guard let start = self.pastMinute else { return }
        let next = Timestamp(nanosecondsSinceEpoch: start.nanosecondsSinceEpoch +| step *| PastMinute.length)
        self.pastEnd = nil
        if step > 0, let now, next.nanosecondsSinceEpoch +| PastMinute.length > now.nanosecondsSinceEpoch {
            self.pastEnd = "no later minute is over; without --at, top shows the present"
        } else if step < 0, let first = self.minute?.first, next < first.start {
            self.pastEnd = "history has minutes from \(first.time) on"
        } else {
            self.pastMinute = next
        }
    }

    // MARK: Header

    func pastHeaderRows(_ minute: PastMinute) -> [Frame.Row] {
        var host = self.line()
        let separator = " \(self.typeface.separator) "
        host.add(" ")
        host.add(self.typeface.printable(minute.host, limit: 64), .title)
        host.addWhole([(separator, .dim), ("the minute from ", .label), (minute.time, .plain)])
        host.addWhole([(separator, .dim), ("counted ", .label), ("\(minute.countedSeconds)s", .plain)])
        let count = "\(self.rows.count) \(self.rows.count == 1 ? "row" : "rows") "
        if host.room > count.utf8.count + 1 {
            host.pad(to: self.size.width - count.utf8.count)
            host.add(count, .label)
        }
        let rates = minute.rates(minute.totals)
        let ways: [(arrow: String, rate: Double, total: UInt64, role: Style.Role)] = [
            (self.typeface.up, rates.sent, minute.totals.sent, .sent),
            (self.typeface.down, rates.received, minute.totals.received, .received),
        ]
        let traffic = ways.map { way in
            var line = self.line()
            line.add(" \(way.arrow) ", way.role)
            line.add(self.units.rate(way.rate), way.role, width: self.units.width + 2, .right)
            line.add(" ")
            line.add(self.units.text(way.total), .label, width: self.units.width, .right)
            return line.row()
        }
        switch self.headerHeight {
        case 1: return [self.noticeHeight == 0 && !self.notices.isEmpty ? self.noticeRow : host.row()]
        case 2: return [host.row(), traffic[0]] + (self.noticeHeight > 0 ? [self.noticeRow] : [])
        default: return [host.row()] + traffic + (self.noticeHeight > 0 ? [self.noticeRow] : [])
        }
    }

    /// Why the list is empty.
    var emptyPast: String {
        guard let minute else { return "reading history\(self.typeface.ellipsis)" }
        if minute.first == nil { return "history is empty: a minute is in it when it is over" }
        if minute.countedSeconds == 0 { return "history has nothing of this minute, or not yet" }
        return self.pastFilter.isEmpty
            ? "no process moved a byte in this minute" : "nothing matches the filter; \\ removes it"
    }
}
