public import TrafficDocuments
import TrafficModel

extension Table {
    /// What was moved in a month, a line for each number.
    public static func month(_ report: MonthReport, units: Units) -> Table {
        let hasWire = report.totals.wireSent != nil
        func row(_ name: String, _ payload: [Cell], _ wire: [Cell]) -> [Cell] {
            [.text(name)] + payload + (hasWire ? wire : [])
        }
        func bytes(_ name: String, _ bytes: ByteCounts) -> [Cell] {
            let payload = bytes.payload
            return row(
                name,
                [.bytes(payload.sent), .bytes(payload.received), .bytes(payload.total)],
                [bytes.wireSent, bytes.wireReceived].map { $0.map(Cell.bytes) ?? .none }
            )
        }
        var rows = [bytes("total", report.totals)]
        if let average = report.dailyAverage { rows.append(bytes("daily average", average)) }
        if let top = report.topDay { rows.append(bytes("most, on \(top.localTime.day)", top.bytes)) }
        if let projection = report.projection { rows.append(bytes("projection", projection)) }
        if let rates = report.percentile95 {
            let text = { (rate: UInt64?) in rate.map { Cell.text(Units.bitRate($0)) } ?? .none }
            rows.append(
                row(
                    "95th percentile",
                    [text(rates.payloadSent), text(rates.payloadReceived), .none],
                    [text(rates.wireSent), text(rates.wireReceived)]
                )
            )
        }
        if let excess = report.exceeding {
            let count = { (number: UInt64?) in number.map { Cell.count(Int(clamping: $0)) } ?? .none }
            rows.append(
                row(
                    "above \(Units.bitRate(excess.bitsPerSecond))",
                    [count(excess.payloadSent), count(excess.payloadReceived), .none],
                    [count(excess.wireSent), count(excess.wireReceived)]
                )
            )
        }
        let wire = [Column("WIRE SENT", rank: 0), Column("WIRE RECV", rank: 1)]
        return Table(
            columns: [Column(""), Column("SENT"), Column("RECV"), Column("BOTH")] + (hasWire ? wire : []),
            rows: rows
        )
    }
}

extension MonthReport {
    /// How the numbers are made, for people.
    ///
    /// - Parameter width: Of a line; `nil` for one line for each.
    public func notes(width: Int?, typeface: Typeface) -> [String] {
        var notes: [String] = []
        let numbers = self.intervals
        if numbers.counted == 0 {
            notes.append("No interval of 5 minutes is over in which something was counted, so there is no percentile.")
        } else {
            let missing = numbers.total -| numbers.counted
            notes.append(
                "95th percentile: of \(numbers.counted) intervals of 5 minutes, a twentieth, rounded down, has a higher rate."
                    + (missing == 0 ? "" : " \(missing) intervals that were not counted, or are removed, are left out.")
            )
            if self.exceeding != nil { notes.append("above: how many of these intervals had a higher rate.") }
        }
        if self.projection != nil {
            notes.append("projection: the total, and for the rest of the month the average of the counted time.")
        }
        if self.totals.payload.total > 0, self.topDay == nil {
            notes.append("The day with the most is not known: days of this month are removed.")
        }
        return notes.flatMap { note in width.map { typeface.wrapped(note, to: $0) } ?? [note] }
    }
}

extension Units {
    /// `1.23 Mbit/s`, whatever the units are: links and bills are in bits.
    static func bitRate(_ bitsPerSecond: UInt64) -> String { Units.bits.rate(Double(bitsPerSecond) / 8) }
}
