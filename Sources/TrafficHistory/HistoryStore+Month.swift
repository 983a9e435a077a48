import SQLiteDatabase
package import TrafficDocuments
import TrafficFeed
import TrafficModel
package import TrafficQuery

extension HistoryStore {
    /// - Parameter now: Seconds since 1970.
    /// - Throws: ``SQLiteError``; ``HistoryRefusal``.
    package func report(_ question: MonthQuestion, host: String, now: Int64) throws -> MonthReport {
        let present = CalendarMonth(of: now)
        guard let month = question.month ?? present, let present else {
            throw HistoryRefusal.unavailable("the clock is wrong")
        }
        guard month <= present else { throw HistoryRefusal.notKept("The month \(month) has not begun.") }
        try self.checkKept(question.part)
        let span = try self.span(of: month, isPresent: month == present)
        if month < present { try self.checkKept(month, before: span.end.time) }
        let until = min(now, span.end.time)
        var report = MonthReport(
            host: host,
            month: month,
            since: Timestamp(seconds: span.start.time),
            until: Timestamp(seconds: until)
        )
        report.localSince = span.start.local
        report.localUntil = until == span.end.time ? span.end.local : HostTime(of: until)
        report.timeZone = HostTime.zoneName
        switch question.part {
        case .total: break
        case .scope(let scope): report.scope = scope.rawValue
        case .class(let name): report.addressClass = name
        }
        try self.addSums(to: &report, question.part, span, now)
        try self.addRates(to: &report, question, span.start.time..<span.end.time, now)
        return report
    }

    /// When a month of the host began and ended, by the clock that the host had then.
    private struct Span {
        /// A time, and how far the host's clock was from UTC: both in seconds.
        struct Edge {
            var time: Int64
            var offset: Int64

            var local: HostTime { HostTime(Timestamp(seconds: self.time), offset: self.offset) }
        }

        var start: Edge
        var end: Edge
        /// The beginnings of the sums: several if the host got another time zone.
        var sums: [Int64]
    }

    private func span(of month: CalendarMonth, isPresent: Bool) throws(SQLiteError) -> Span {
        var sums: [(start: Span.Edge, end: Span.Edge)] = []
        try self.file.run(
            "SELECT time, offset, until, until_offset FROM counted WHERE level = ? ORDER BY time",
            [.text(HistoryLevel.month.rawValue)]
        ) { row in
            func edge(_ column: Int32) -> Span.Edge {
                Span.Edge(time: (row.number(column) ?? 0) * 60, offset: row.number(column + 1) ?? 0)
            }
            sums.append((edge(0), edge(2)))
        }
        func edge(_ time: Int64) -> Span.Edge { Span.Edge(time: time, offset: HostTime.offset(at: time)) }
        let own = sums.filter { $0.start.local.month == month.description }
        let (start, end) = (edge(month.start), edge(HistoryLevel.month.end(of: month.start)))
        guard let first = own.first, let last = own.last else { return Span(start: start, end: end, sums: []) }
        let isEarlier = isPresent && start.time < first.start.time
        var span = Span(
            start: isEarlier ? start : first.start,
            end: isPresent ? end : last.end,
            sums: own.map(\.start.time)
        )
        // Of a host that went east, the next month began before this one would have ended.
        let next = sums.first { $0.start.time > last.start.time && $0.start.local.month != month.description }
        if let next, next.start.time < span.end.time { span.end = next.start }
        return span
    }

    /// - Throws: ``HistoryRefusal`` for a class of which there are no sums.
    private func checkKept(_ part: MonthQuestion.Part) throws {
        guard case .class(let name) = part else { return }
        var names: [String] = []
        let kind = SQLiteFile.Value.number(HistorySeries.Kind.class.rawValue)
        try self.file.run("SELECT name FROM series WHERE kind = ? ORDER BY name", [kind]) { row in
            if let name = row.text(0) { names.append(name) }
        }
        guard !names.contains(name) else { return }
        let known = names.isEmpty ? "none: trafficd run --class makes classes" : names.joined(separator: ", ")
        throw HistoryRefusal.notKept("History has no class '\(name)'. It has \(known).")
    }

    /// - Throws: ``HistoryRefusal`` for a month before the first one.
    private func checkKept(_ month: CalendarMonth, before end: Int64) throws {
        guard let first = try self.first(.month) else {
            throw HistoryRefusal.notKept("History is empty: a minute is in it when it is over.")
        }
        guard first < end else {
            let begin = CalendarMonth(of: first).map { " It begins with \($0)." } ?? ""
            throw HistoryRefusal.notKept("History has nothing of \(month).\(begin)")
        }
    }

    private func addSums(
        to report: inout MonthReport,
        _ part: MonthQuestion.Part,
        _ month: Span,
        _ now: Int64
    ) throws(SQLiteError) {
        let elapsed = UInt64(clamping: min(now, month.end.time) - month.start.time)
        let level = SQLiteFile.Value.text(HistoryLevel.month.rawValue)
        var (counted, totals): (UInt64, ByteCounts) = (0, ByteCounts())
        for start in month.sums {
            counted
                +|= UInt64(
                    clamping: try self.file.number(
                        "SELECT seconds FROM counted WHERE level = ? AND time = ?",
                        [level, .number(start / 60)]
                    )
                )
            for sum in try self.sums(.month, part, start..<start + 60) { totals += sum.bytes }
        }
        (report.countedSeconds, report.missingSeconds) = (counted, elapsed -| counted)
        report.totals = totals
        if counted >= MonthReport.leastSeconds {
            report.dailyAverage = totals.scaled(by: 86_400, outOf: counted)
            let rest = UInt64(clamping: month.end.time - now)
            if rest > 0 { report.projection = totals + totals.scaled(by: rest, outOf: counted) }
        }
        guard try self.removedBefore(.day) <= month.start.time else { return }
        // Of days with as much, the first.
        let days = try self.sums(.day, part, month.start.time..<month.end.time)
        let top = days.reduce(nil as (time: Int64, bytes: ByteCounts)?) { top, day in
            day.bytes.payload.total > top?.bytes.payload.total ?? 0 ? day : top
        }
        guard let top else { return }
        let offset = try self.file.number(
            "SELECT offset FROM counted WHERE level = ? AND time = ?",
            [.text(HistoryLevel.day.rawValue), .number(top.time / 60)]
        )
        let time = Timestamp(seconds: top.time)
        report.topDay = MonthReport.Day(time: time, localTime: HostTime(time, offset: offset), bytes: top.bytes)
    }

    private func addRates(
        to report: inout MonthReport,
        _ question: MonthQuestion,
        _ month: Range<Int64>,
        _ now: Int64
    ) throws(SQLiteError) {
        let (level, length) = (HistoryLevel.fiveMinutes, MonthReport.Intervals.length)
        // The last minute is not over, and the one before may be under way to the file.
        let end = max(month.lowerBound, min(month.upperBound, level.start(of: now - 120)))
        var bytes: [Int64: ByteCounts] = [:]
        for sum in try self.sums(level, question.part, month.lowerBound..<end) { bytes[sum.time] = sum.bytes }
        var rates = IntervalRates()
        var last = month.lowerBound - length
        try self.file.run(
            "SELECT time, seconds FROM counted WHERE level = ? AND time >= ? AND time < ? ORDER BY time",
            [.text(level.rawValue), .number(month.lowerBound / 60), .number(end / 60)]
        ) { row in
            guard let time = row.number(0), let seconds = row.number(1), seconds > 0 else { return }
            rates.add(
                bytes[time * 60] ?? ByteCounts(),
                countedSeconds: UInt64(clamping: seconds),
                most: UInt64(clamping: (time * 60 - last) / length)
            )
            last = time * 60
        }
        let hasWire = report.totals.wireSent != nil
        report.intervals = MonthReport.Intervals(
            total: UInt64(clamping: (end - month.lowerBound) / length),
            counted: rates.count
        )
        report.percentile95 = rates.percentile95(hasWire: hasWire)
        report.exceeding = question.exceeding.map { rates.exceeding($0, hasWire: hasWire) }
    }

    /// The sums of a series that begin in `range`, in the order of time.
    private func sums(
        _ level: HistoryLevel,
        _ part: MonthQuestion.Part,
        _ range: Range<Int64>
    ) throws(SQLiteError) -> [(time: Int64, bytes: ByteCounts)] {
        let series = HistorySeries(part)
        var sums: [(time: Int64, bytes: ByteCounts)] = []
        try self.file.run(
            """
            SELECT time, sent, received, wire_sent, wire_received, wire_estimated, retransmitted FROM \(level.table)
            JOIN series ON series = id WHERE kind = ? AND name = ? AND time >= ? AND time < ? ORDER BY time
            """,
            [.number(series.kind.rawValue), .text(series.name), .number(range.lowerBound / 60)]
                + [.number(range.upperBound / 60)]
        ) { row in
            guard let time = row.number(0), let bytes = row.bytes(from: 1) else { return }
            sums.append((time * 60, bytes))
        }
        return sums
    }
}

extension HistorySeries {
    fileprivate init(_ part: MonthQuestion.Part) {
        switch part {
        case .total: self = .total
        case .scope(let scope): self = .scope(scope.rawValue)
        case .class(let name): self = .class(name)
        }
    }
}

extension ByteCounts {
    /// - Parameter whole: More than 0.
    fileprivate func scaled(by part: UInt64, outOf whole: UInt64) -> ByteCounts {
        func scaled(_ bytes: UInt64) -> UInt64 { UInt64(clamping: UInt128(bytes) * UInt128(part) / UInt128(whole)) }
        return ByteCounts(
            payload: PayloadBytes(sent: scaled(self.payload.sent), received: scaled(self.payload.received)),
            wireSent: self.wireSent.map(scaled),
            wireReceived: self.wireReceived.map(scaled),
            wireEstimated: scaled(self.wireEstimated),
            retransmitted: self.retransmitted.map(scaled)
        )
    }
}
