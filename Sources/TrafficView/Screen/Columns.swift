/// A column of the list.
enum Column: Sendable, Hashable {
    case pid, user, name, unit, sockets
    case sentRate, receivedRate, sparkline, sent, received
    /// Both directions added up, where there is no room for two columns.
    case rate, total
    /// How much of the payload reports explain, in percent.
    case explained

    /// What `<` and `>` sort by on this column. The sparkline draws traffic both ways.
    func sortKey(_ measure: Measure) -> SortKey {
        switch self {
        case .pid: .pid
        case .user: .user
        case .name: .name
        case .unit: .unit
        case .sockets: .sockets
        case .sentRate: .sentRate
        case .receivedRate: .receivedRate
        case .sparkline: measure == .rates ? .rate : .total
        case .sent: .sent
        case .received: .received
        case .rate: .rate
        case .total: .total
        case .explained: .explained
        }
    }

    var isNumber: Bool {
        switch self {
        case .pid, .sockets, .sentRate, .receivedRate, .sent, .received, .rate, .total, .explained: true
        case .user, .name, .unit, .sparkline: false
        }
    }

    /// Whether the column is left of the amounts. In a socket's row its addresses fill these columns.
    var isDescription: Bool {
        switch self {
        case .pid, .user, .name, .unit, .sockets: true
        case .sentRate, .receivedRate, .sparkline, .sent, .received, .rate, .total, .explained: false
        }
    }

    func title(_ grouping: Grouping) -> String {
        switch self {
        case .pid: grouping == .process ? "PID" : "PROCS"
        case .user: "USER"
        case .name:
            switch grouping {
            case .process: "PROCESS"
            case .executable: "EXECUTABLE"
            case .unit: "UNIT"
            case .user: "USER"
            case .remote: "REMOTE END OF OPEN SOCKETS"
            }
        case .unit: "UNIT"
        case .sockets: "SOCK"
        case .sentRate: "SENT/s"
        case .receivedRate: "RECV/s"
        case .sparkline: "TRAFFIC"
        case .sent: "SENT"
        case .received: "RECV"
        case .rate: "RATE"
        case .total: "TOTAL"
        case .explained: "EXPL%"
        }
    }
}

/// Which columns fit and how wide each is. A narrow screen leaves out the least important columns first.
struct ColumnLayout {
    struct Cell {
        var column: Column
        var width: Int
    }

    private(set) var cells: [Cell]

    private static let leastNameWidth = 8
    /// Room for the marker and for a process name of 15 bytes, the longest name in the kernel.
    private static let goodNameWidth = 17

    /// - Parameters:
    ///   - hasReports: Whether some program reports what its bytes are for.
    ///   - isPast: The rows are of history, which knows no pids and no sockets.
    init(
        width: Int,
        grouping: Grouping,
        measure: Measure,
        units: Units,
        hasReports: Bool = false,
        isPast: Bool = false
    ) {
        let number = units.width
        let leading: [Column] = measure == .rates ? [.sentRate, .receivedRate] : [.sent, .received]
        let trailing: [Column] = measure == .rates ? [.sent, .received] : [.sentRate, .receivedRate]
        var widths: [Column: Int] = [.name: Self.leastNameWidth]
        var spare = width - Self.leastNameWidth
        /// Takes all of `columns`, each `cell` wide with a space before it, or takes none of them.
        func take(_ columns: [Column], _ cell: Int) -> Bool {
            guard columns.count * (cell + 1) <= spare else { return false }
            for column in columns { widths[column] = cell }
            spare -= columns.count * (cell + 1)
            return true
        }
        func grow(_ column: Column, to most: Int) {
            guard let now = widths[column] else { return }
            let more = max(0, min(spare, most - now))
            widths[column] = now + more
            spare -= more
        }
        if !take(leading, number) { _ = take([measure == .rates ? .rate : .total], number) }
        grow(.name, to: Self.goodNameWidth)
        if !isPast && (grouping != .remote || width >= 60) { _ = take([.pid], grouping == .remote ? 5 : 7) }
        if hasReports && grouping != .remote { _ = take([.explained], 6) }
        if !isPast && grouping != .remote { _ = take([.sparkline], 8) }
        if !isPast { _ = take([.sockets], 4) }
        _ = take(trailing, number)
        if grouping == .process || !isPast && (grouping == .executable || grouping == .unit) { _ = take([.user], 8) }
        if grouping == .process || !isPast && (grouping == .executable || grouping == .user) { _ = take([.unit], 14) }

        // The columns that cut off most text get the width that is left.
        grow(.name, to: 24)
        grow(.sparkline, to: 12)
        grow(.unit, to: 24)
        grow(.sparkline, to: 20)
        grow(.user, to: 12)
        grow(.name, to: .max)
        let order: [Column] =
            [.pid, .user, .name, .unit, .sockets] + leading + [.sparkline] + trailing + [.rate, .total, .explained]
        self.cells = order.compactMap { column in widths[column].map { Cell(column: column, width: $0) } }
    }

    /// - Parameter x: The cell of the line. The space before a column belongs to that column.
    /// - Returns: `nil` right of the last column.
    func column(at x: Int) -> Column? {
        var end = -1
        return self.cells.first { cell in
            end += cell.width + 1
            return x < end
        }?.column
    }

    /// The width of the columns that describe a row, with the spaces between them.
    var descriptionWidth: Int {
        let cells = self.cells.prefix { $0.column.isDescription }
        return cells.reduce(0) { $0 + $1.width } + max(0, cells.count - 1)
    }
}
