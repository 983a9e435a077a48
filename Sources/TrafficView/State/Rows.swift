public import TrafficModel

/// What a row is about, over time: the cursor, the expansion and the pin follow it wherever the order puts it.
public indirect enum RowID: Hashable, Sendable {
    case process(ProcessIdentity)
    case group(String)
    /// What is left of processes that are no longer listed.
    case exited
    /// `of` is `nil` where sockets stand under a remote address and not under a process.
    case socket(serial: UInt64, of: ProcessIdentity?)
    /// An API, under a process of its service.
    case endpoint(EndpointRole, EndpointSubject, of: RowID)
    /// "… 9,900 more" under `of`.
    case rest(of: RowID)
    /// What stands under `of` in place of sockets or APIs.
    case note(of: RowID)
}

/// The numbers of a row: a process, a group of them, a remote address, or what is left of exited processes.
struct UsageRow: Sendable {
    var id: RowID
    /// `nil` for everything but a process.
    var pid: Int32?
    var started: UInt64 = 0
    var user: String?
    var name: String
    var unit: String?
    /// Indexes in the snapshot's list of processes.
    var members: [Int] = []
    /// Processes in the row, also where they are not listed.
    var processes = 1
    var sockets = 0
    var bytes = ByteCounts()
    var rates = PayloadRates()
    /// See ``ProcessUsage/explained``.
    var explained: UInt64 = 0
    var isRunning = true

    /// From 0 to 1; `nil` where nothing was reported.
    var coverage: Double? {
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
        /// Index in the snapshot's list of sockets, and whose share of it the row is about.
        case socket(Int, of: ProcessIdentity?)
        case endpoint(EndpointRow)
        /// What follows is of all processes of the executable: what was this one's own is not known.
        case ofExecutable(hasExited: Bool)
        case rest(hidden: Int, kind: RestKind)
        /// The snapshot has no list of them yet.
        case pending(RestKind)
        case none(RestKind)
    }

    /// What stands below an open row.
    enum RestKind: String, Sendable, Hashable {
        case sockets, APIs
    }

    var id: RowID
    /// 0 for the rows that the order is about.
    var depth = 0
    /// The last one below its parent.
    var isLast = false
    var content: Content
}

extension ProcessDetails {
    var userName: String { self.user ?? String(self.uid) }

    /// What runs the process: its container, by the 12 digits that container tools print, or its unit.
    var unitName: String? {
        if let containerID = self.containerID { return String(containerID.prefix(12)) }
        return self.systemdUnit
    }

    var executableName: String? {
        self.executable.flatMap { $0.split(separator: "/").last.map(String.init) }
    }
}
