/// A column of the list.
enum Column: Sendable, Hashable {
    case pid, user, name, unit, sockets
    case sentRate, receivedRate, sparkline, sent, received
    /// Both ways in one, where there is no room for two.
    case rate, total
    /// How much of the payload reports explain, in percent.
    case coverage

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
        case .coverage: .coverage
        }
    }

    var isNumber: Bool {
        switch self {
        case .pid, .sockets, .sentRate, .receivedRate, .sent, .received, .rate, .total, .coverage: true
        case .user, .name, .unit, .sparkline: false
        }
    }

    /// Left of the amounts: what a socket's row fills with its addresses.
    var isDescription: Bool {
        switch self {
        case .pid, .user, .name, .unit, .sockets: true
        case .sentRate, .receivedRate, .sparkline, .sent, .received, .rate, .total, .coverage: false
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
            case .remote: "REMOTE"
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
        case .coverage: "API%"
        }
    }
}

/// Which columns fit and how wide each is. Columns go in the order of what a person misses last.
struct ColumnLayout {
    struct Cell {
        var column: Column
        var width: Int
    }

    private(set) var cells: [Cell]

    private static let leastNameWidth = 8
    /// Room for a process name of the kernel's 15 bytes beside its marker.
    private static let goodNameWidth = 17

    /// - Parameter hasReports: Some program says what its bytes are for.
    init(width: Int, grouping: Grouping, measure: Measure, units: Units, hasReports: Bool = false) {
        let number = units.width
        let leading: [Column] = measure == .rates ? [.sentRate, .receivedRate] : [.sent, .received]
        let trailing: [Column] = measure == .rates ? [.sent, .received] : [.sentRate, .receivedRate]
        var widths: [Column: Int] = [.name: Self.leastNameWidth]
        var spare = width - Self.leastNameWidth
        /// All of `columns`, each `cell` wide with a space before it, or none.
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
        if grouping != .remote || width >= 60 { _ = take([.pid], grouping == .remote ? 5 : 7) }
        if hasReports && grouping != .remote { _ = take([.coverage], 5) }
        if grouping != .remote { _ = take([.sparkline], 8) }
        _ = take([.sockets], 4)
        _ = take(trailing, number)
        if grouping == .process || grouping == .executable || grouping == .unit { _ = take([.user], 8) }
        if grouping == .process || grouping == .executable || grouping == .user { _ = take([.unit], 14) }

        // What is left over goes where text is cut off most.
        grow(.name, to: 24)
        grow(.sparkline, to: 12)
        grow(.unit, to: 24)
        grow(.sparkline, to: 20)
        grow(.user, to: 12)
        grow(.name, to: .max)
        let order: [Column] =
            [.pid, .user, .name, .unit, .sockets] + leading + [.sparkline] + trailing + [.rate, .total, .coverage]
        self.cells = order.compactMap { column in widths[column].map { Cell(column: column, width: $0) } }
    }

    /// The width of the columns that describe a row, with the spaces between them.
    var descriptionWidth: Int {
        let cells = self.cells.prefix { $0.column.isDescription }
        return cells.reduce(0) { $0 + $1.width } + max(0, cells.count - 1)
    }
}
