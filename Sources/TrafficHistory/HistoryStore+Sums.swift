import SQLiteDatabase
import TrafficDocuments
import TrafficModel

// Amounts of each kind have their own columns, and so their own table at each level. The time and the series come first.

/// A column with a number of a sum.
struct HistoryColumn {
    enum Origin {
        case counted
        /// What was not counted is NULL.
        case countedPerhaps
        /// A cooperating program says so, and nobody has checked it.
        case reported
    }

    let name: String
    let origin: Origin

    /// Of a number that programs choose. So no sum over rows is too large, which would be an error of the statement.
    fileprivate static let mostReported: Int64 = 1 << 53 - 1

    var definition: String { "\(self.name) INTEGER\(self.origin == .countedPerhaps ? "" : " NOT NULL")" }

    fileprivate var sum: String {
        let (old, new) = (self.name, "excluded.\(self.name)")
        return switch self.origin {
        case .counted: "\(old) = \(old) + \(new)"
        case .countedPerhaps: "\(old) = CASE WHEN \(new) IS NULL THEN \(old) ELSE ifnull(\(old), 0) + \(new) END"
        case .reported: "\(old) = min(\(old) + \(new), \(Self.mostReported))"
        }
    }

    /// The sum over rows; NULL if none has a number. Unlike `sum`, `total` never overflows; it is exact up to
    /// ``mostReported``.
    var total: String {
        self.origin == .reported
            ? "CASE WHEN count(*) > 0 THEN CAST(total(\(self.name)) AS INTEGER) END" : "sum(\(self.name))"
    }

    fileprivate func value(_ number: UInt64?) -> SQLiteFile.Value {
        .number(number.map { min(Int64(clamping: $0), self.origin == .reported ? Self.mostReported : .max) })
    }
}

extension HistorySeries.Kind {
    /// `nil` at a level that has no sums of this kind.
    func table(_ level: HistoryLevel) -> String? {
        switch self {
        case .total, .scope, .class: level.table
        case .group: level == .fiveMinutes ? nil : level.table
        case .endpoint: level == .fiveMinutes ? nil : "endpoint_\(level.table)"
        case .interface: "interface_\(level.table)"
        }
    }

    /// Adds to the sum of a time and a series, whose numbers come first; then come those of the amounts.
    ///
    /// - Returns: A statement; `nil` at a level that has no sums of this kind.
    func addition(_ level: HistoryLevel) -> String? {
        guard let table = self.table(level) else { return nil }
        let sums = self.columns.map(\.sum).joined(separator: ", ")
        let places = Array(repeating: "?", count: self.columns.count + 2).joined(separator: ", ")
        return "INSERT INTO \(table) VALUES (\(places)) ON CONFLICT DO UPDATE SET \(sums)"
    }

    var columns: [HistoryColumn] {
        switch self {
        case .total, .scope, .class, .group: HistoryAmounts.bytes(ByteCounts()).columns
        case .endpoint: HistoryAmounts.messages(EndpointCounts()).columns
        case .interface: HistoryAmounts.packets(InterfaceCounts()).columns
        }
    }

    /// - Parameter column: The first of ``columns``.
    /// - Returns: `nil` if there is no number.
    func amounts(_ row: SQLiteFile.Row, from column: Int32) -> HistoryAmounts? {
        func number(_ index: Int32) -> UInt64? { row.number(column + index).map { UInt64(clamping: $0) } }
        switch self {
        case .total, .scope, .class, .group: return row.bytes(from: column).map(HistoryAmounts.bytes)
        case .endpoint:
            guard let requests = number(0) else { return nil }
            func parts(_ first: Int32) -> MessageParts {
                MessageParts(header: number(first) ?? 0, body: number(first + 1) ?? 0, rest: number(first + 2) ?? 0)
            }
            return .messages(
                EndpointCounts(
                    requests: requests,
                    ended: number(1) ?? 0,
                    failures: number(2) ?? 0,
                    sent: parts(3),
                    received: parts(6)
                )
            )
        case .interface:
            guard let sent = number(0) else { return nil }
            return .packets(
                InterfaceCounts(
                    sentBytes: sent,
                    receivedBytes: number(1) ?? 0,
                    sentPackets: number(2) ?? 0,
                    receivedPackets: number(3) ?? 0
                )
            )
        }
    }

    /// No amount.
    var zero: HistoryAmounts {
        switch self {
        case .total, .scope, .class, .group: .bytes(ByteCounts())
        case .endpoint: .messages(EndpointCounts())
        case .interface: .packets(InterfaceCounts())
        }
    }
}

extension HistoryAmounts {
    fileprivate static let bytesColumns = [
        HistoryColumn(name: "sent", origin: .counted), HistoryColumn(name: "received", origin: .counted),
        HistoryColumn(name: "wire_sent", origin: .countedPerhaps),
        HistoryColumn(name: "wire_received", origin: .countedPerhaps),
        HistoryColumn(name: "wire_estimated", origin: .countedPerhaps),
        HistoryColumn(name: "retransmitted", origin: .countedPerhaps),
    ]
    /// A column takes a byte of a row even where it is 0. So cookies, which are a part of the header, have none, and lines
    /// and framing have one together.
    fileprivate static let messageColumns = [
        "requests", "ended", "failures", "sent_header", "sent_body", "sent_rest", "received_header", "received_body",
        "received_rest",
    ].map { HistoryColumn(name: $0, origin: .reported) }
    fileprivate static let packetColumns = ["sent", "received", "sent_packets", "received_packets"].map {
        HistoryColumn(name: $0, origin: .counted)
    }

    fileprivate var columns: [HistoryColumn] {
        switch self {
        case .bytes: Self.bytesColumns
        case .messages: Self.messageColumns
        case .packets: Self.packetColumns
        }
    }

    /// For ``columns``.
    var values: [SQLiteFile.Value] {
        let numbers: [UInt64?] =
            switch self {
            case .bytes(let bytes):
                [
                    bytes.payload.sent, bytes.payload.received, bytes.wireSent, bytes.wireReceived,
                    // No byte of a file for the usual case.
                    bytes.wireEstimated > 0 ? bytes.wireEstimated : nil, bytes.retransmitted,
                ]
            case .messages(let counts):
                [
                    counts.requests, counts.ended, counts.failures, counts.sent.header, counts.sent.body,
                    counts.sent.rest, counts.received.header, counts.received.body, counts.received.rest,
                ]
            case .packets(let counts):
                [counts.sentBytes, counts.receivedBytes, counts.sentPackets, counts.receivedPackets]
            }
        return zip(self.columns, numbers).map { $0.value($1) }
    }
}
