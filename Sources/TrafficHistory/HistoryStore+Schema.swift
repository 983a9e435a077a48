import SQLiteDatabase
import TrafficDocuments
import TrafficModel

extension HistoryStore {
    /// Until release 0.1.0 other tables take another number here, as in early builds. From then on, raise ``version``.
    static let application: Int64 = 0x7472_6666  // "trff"
    /// The daemon refuses a file of a higher version.
    static let version: Int64 = 1

    func create(_ machine: String?) throws(SQLiteError) {
        try self.file.transaction { () throws(SQLiteError) in
            try self.file.run(
                """
                PRAGMA application_id = \(Self.application);
                PRAGMA user_version = \(Self.version);
                CREATE TABLE machine (id TEXT, forgotten INTEGER);
                CREATE TABLE mark (counting_since INTEGER NOT NULL, boottime INTEGER NOT NULL);
                CREATE TABLE removed (level TEXT PRIMARY KEY, before INTEGER NOT NULL) WITHOUT ROWID;
                CREATE TABLE series (id INTEGER PRIMARY KEY, kind INTEGER NOT NULL, name TEXT NOT NULL,
                    executable TEXT, uid INTEGER, unit TEXT, container TEXT, role TEXT, host TEXT, route TEXT);
                CREATE TABLE counted (level TEXT, time INTEGER, seconds INTEGER NOT NULL, offset INTEGER NOT NULL,
                    until INTEGER NOT NULL, until_offset INTEGER NOT NULL, PRIMARY KEY (level, time)) WITHOUT ROWID;
                """
            )
            try self.file.run("INSERT INTO machine (id) VALUES (?)", [.text(machine)])
            // Endpoints are looked up by the route, because a service may have thousands.
            try self.file.run("CREATE INDEX series_of_name ON series (name, route, host)")
            for level in HistoryLevel.allCases {
                for kind in [HistorySeries.Kind.total, .endpoint, .interface] {
                    if let table = kind.table(level) { try self.createTable(table, kind) }
                }
            }
            // Whom process groups have reached, and when that was first noted of each group.
            try self.file.run(
                """
                CREATE TABLE contact (series INTEGER, destination TEXT, day INTEGER NOT NULL,
                    PRIMARY KEY (series, destination)) WITHOUT ROWID;
                CREATE TABLE contact_group (series INTEGER PRIMARY KEY, since INTEGER NOT NULL);
                """
            )
        }
    }

    private func createTable(_ name: String, _ kind: HistorySeries.Kind) throws(SQLiteError) {
        let columns = kind.columns.map(\.definition).joined(separator: ", ")
        try self.file.run(
            """
            CREATE TABLE \(name) (time INTEGER, series INTEGER, \(columns), PRIMARY KEY (time, series)) WITHOUT ROWID
            """
        )
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
