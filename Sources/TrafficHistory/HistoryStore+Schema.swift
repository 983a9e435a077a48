import SQLiteDatabase
import TrafficModel

extension HistoryStore {
    static let application: Int64 = 0x7472_6166  // "traf"
    /// 1: without sums of 5 minutes and without a mark. 2: without sums by endpoint and interface. 3: without contacts.
    static let version: Int64 = 4

    func create(_ machine: String?) throws(SQLiteError) {
        try self.file.transaction { () throws(SQLiteError) in
            try self.file.run(
                """
                PRAGMA application_id = \(Self.application);
                PRAGMA user_version = \(Self.version);
                CREATE TABLE machine (id TEXT, forgotten INTEGER);
                CREATE TABLE removed (level TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE series (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL,
                    executable TEXT, uid INTEGER, unit TEXT, container TEXT);
                CREATE TABLE counted (level TEXT, time INTEGER, seconds INTEGER NOT NULL, PRIMARY KEY (level, time))
                    WITHOUT ROWID;
                """
            )
            try self.file.run("INSERT INTO machine (id) VALUES (?)", [.text(machine)])
            for level in HistoryLevel.allCases { try self.createTable(level.table, .total) }
            try self.createMark()
            try self.createEndpointsAndInterfaces()
            try self.createContacts()
        }
    }

    private func createMark() throws(SQLiteError) {
        try self.file.run("CREATE TABLE mark (counting_since INTEGER NOT NULL, boottime INTEGER NOT NULL)")
    }

    private func createTable(_ name: String, _ kind: HistorySeries.Kind) throws(SQLiteError) {
        let columns = kind.columns.map(\.definition).joined(separator: ", ")
        try self.file.run(
            """
            CREATE TABLE \(name) (time INTEGER, series INTEGER, \(columns), PRIMARY KEY (time, series)) WITHOUT ROWID
            """
        )
    }

    /// What version 3 has beside version 2. Endpoints are looked up by the route, because a service may have thousands.
    private func createEndpointsAndInterfaces() throws(SQLiteError) {
        try self.file.run(
            """
            ALTER TABLE series ADD COLUMN role TEXT;
            ALTER TABLE series ADD COLUMN host TEXT;
            ALTER TABLE series ADD COLUMN route TEXT;
            DROP INDEX IF EXISTS series_of_name;
            CREATE INDEX series_of_name ON series (name, route, host);
            """
        )
        for level in HistoryLevel.allCases {
            for kind in [HistorySeries.Kind.endpoint, .interface] {
                if let table = kind.table(level) { try self.createTable(table, kind) }
            }
        }
    }

    /// Makes a file of an earlier version one of ``version``: all of it, or nothing.
    func upgrade(from version: Int64) throws(SQLiteError) {
        try self.file.transaction { () throws(SQLiteError) in
            if version < 2 { try self.addFiveMinutes() }
            if version < 3 { try self.addEndpointsAndInterfaces() }
            try self.createContacts()
            try self.file.run("PRAGMA user_version = \(Self.version)")
        }
    }

    private func addEndpointsAndInterfaces() throws(SQLiteError) {
        try self.createEndpointsAndInterfaces()
        let last = try self.file.number(
            "SELECT max(time) FROM counted WHERE level = ?",
            [.text(HistoryLevel.minute.rawValue)]
        )
        try self.file.run(
            "INSERT INTO removed VALUES (?, ?)",
            [.text(Self.endpointsAndInterfaces), .number(last > 0 ? last + 1 : 0)]
        )
    }

    /// What version 4 has beside version 3: whom process groups have reached, and when that was first noted of each group.
    private func createContacts() throws(SQLiteError) {
        try self.file.run(
            """
            CREATE TABLE contact (series INTEGER, destination TEXT, day INTEGER NOT NULL,
                PRIMARY KEY (series, destination)) WITHOUT ROWID;
            CREATE TABLE contact_group (series INTEGER PRIMARY KEY, since INTEGER NOT NULL);
            """
        )
    }

    /// In the table `removed`, beside the levels: before this time, sums by endpoint and interface are in no level.
    static let endpointsAndInterfaces = "endpoint"

    /// What version 2 has beside version 1. The sums of 5 minutes begin with the first of which no minute is removed.
    private func addFiveMinutes() throws(SQLiteError) {
        let (minute, level) = (HistoryLevel.minute, HistoryLevel.fiveMinutes)
        try self.createTable(level.table, .total)
        try self.createMark()
        let removed = try self.file.number("SELECT before FROM removed WHERE level = ?", [.text(minute.rawValue)])
        let first = (removed + 4) / 5 * 5
        try self.file.run(
            """
            INSERT INTO \(level.table) SELECT time / 5 * 5, series, sum(sent), sum(received), sum(wire_sent),
                sum(wire_received), sum(retransmitted) FROM \(minute.table) JOIN series ON series = id
                WHERE kind != ? AND time >= ? GROUP BY time / 5, series
            """,
            [.number(HistorySeries.Kind.group.rawValue), .number(first)]
        )
        try self.file.run(
            """
            INSERT INTO counted SELECT ?, time / 5 * 5, sum(seconds) FROM counted WHERE level = ? AND time >= ?
                GROUP BY time / 5
            """,
            [.text(level.rawValue), .text(minute.rawValue), .number(first)]
        )
        try self.file.run("INSERT INTO removed VALUES (?, ?)", [.text(level.rawValue), .number(first)])
    }
}

extension HistoryLevel {
    /// The table with the bytes of this level.
    var table: String { self == .fiveMinutes ? "five_minutes" : self.rawValue + "s" }

    /// All tables with sums of this level.
    var tables: [String] {
        [HistorySeries.Kind.total, .endpoint, .interface].compactMap { $0.table(self) }
    }
}
