public import TrafficModel

/// What a row is about. The cursor, the expansion and the pin find their row by this when the order changes.
public indirect enum RowID: Hashable, Sendable {
    case process(ProcessIdentity)
    case group(String)
    /// All processes that have exited and are no longer listed.
    case exited
    /// `of` is `nil` where the socket stands below a remote address and not below a process.
    case socket(serial: UInt64, of: ProcessIdentity?)
    /// An endpoint below the process `of`.
    case endpoint(EndpointRole, EndpointSubject, of: RowID)
    /// The line "… 9,900 more" below `of`.
    case rest(of: RowID)
    /// A line of text below `of`, such as "no sockets".
    case note(of: RowID)
}

/// The numbers of a row: of a process, a group of processes, a remote address, or all exited processes.
struct UsageRow: Sendable {
    var id: RowID
    /// `nil` for every row that is not a process.
    var pid: Int32?
    var started: UInt64 = 0
    var user: String?
    var name: String
    var unit: String?
    /// Indexes in the snapshot's list of processes.
    var members: [Int] = []
    /// Number of processes in the row, also of those that the snapshot does not list.
    var processes = 1
    var sockets = 0
    var bytes = ByteCounts()
    var rates = PayloadRates()
    /// See ``ProcessUsage/explained``.
    var explained: UInt64 = 0
    var isRunning = true

    /// From 0 to 1; `nil` where nothing was reported.
    var explainedShare: Double? {
        let payload = self.bytes.payload.total
        return self.explained == 0 || payload == 0 ? nil : min(1, Double(self.explained) / Double(payload))
    }

    /// Adds a process to a group.
    mutating func add(_ process: ProcessUsage, at index: Int) {
        self.members.append(index)
        self.processes += 1
        self.sockets += process.socketsOpen
        self.bytes += process.bytes
        self.explained &+= process.explained
        self.rates = PayloadRates(
            sent: self.rates.sent + process.rates.sent,
            received: self.rates.received + process.rates.received
        )
        self.isRunning = self.isRunning || process.state == .running
    }
}

extension UsageRow {
    init(_ process: ProcessUsage, at index: Int) {
        self.init(
            id: .process(process.identity),
            pid: process.identity.pid,
            started: process.identity.startBoottimeNanoseconds,
            user: process.details.userName,
            name: process.details.name,
            unit: process.details.unitName,
            members: [index],
            sockets: process.socketsOpen,
            bytes: process.bytes,
            rates: process.rates,
            explained: process.explained,
            isRunning: process.state == .running
        )
    }

    /// An empty group.
    init(group key: String, name: String) {
        self.init(id: .group(key), name: name, processes: 0, isRunning: false)
    }
}

/// One line of the list before layout.
struct ListRow: Sendable {
    enum Content: Sendable {
        case usage(UsageRow)
        /// An index in the snapshot's list of sockets, and the process whose share of the socket the row shows.
        case socket(Int, of: ProcessIdentity?)
        case endpoint(EndpointRow)
        /// The next rows are about all processes of the executable, because the numbers of this process are unknown.
        case ofExecutable(hasExited: Bool)
        case rest(hidden: Int, kind: RestKind)
        /// The snapshot does not have the list yet.
        case pending(RestKind)
        case none(RestKind)
    }

    /// The kind of rows below an open row.
    enum RestKind: String, Sendable, Hashable {
        case sockets, endpoints
    }

    var id: RowID
    /// 0 for the rows of the top level.
    var depth = 0
    /// Whether the row is the last below its parent.
    var isLast = false
    var content: Content
}

extension ProcessDetails {
    var userName: String { self.user ?? String(self.uid) }

    /// What runs the process: its container, named by the 12 digits that container tools print, or its unit.
    var unitName: String? { self.containerID.map { String($0.prefix(12)) } ?? self.systemdUnit }

    var executableName: String? {
        self.executable.flatMap { $0.split(separator: "/").last.map(String.init) }
    }
}

extension ExitedUsage {
    var userName: String { self.user ?? self.group.uid.map { String($0) } ?? "(several)" }
}

extension ProcessGroup {
    /// As that of its processes: ``ProcessDetails/unitName``.
    var unitName: String? { self.containerID.map { String($0.prefix(12)) } ?? self.systemdUnit }
}
