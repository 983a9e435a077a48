import TrafficModel

extension HistoryStore {
    static let application: Int64 = 0x7472_6166  // "traf"
    /// 1: without sums of 5 minutes and without a mark.
    static let version: Int64 = 2

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
                CREATE INDEX series_of_name ON series (name);
                CREATE TABLE counted (level TEXT, time INTEGER, seconds INTEGER NOT NULL, PRIMARY KEY (level, time))
                    WITHOUT ROWID;
                """
            )
            try self.file.run("INSERT INTO machine (id) VALUES (?)", [.text(machine)])
            for level in HistoryLevel.allCases { try self.createTable(of: level) }
            try self.createMark()
        }
    }

    private func createMark() throws(SQLiteError) {
        try self.file.run("CREATE TABLE mark (counting_since INTEGER NOT NULL, boottime INTEGER NOT NULL)")
    }

    private func createTable(of level: HistoryLevel) throws(SQLiteError) {
        try self.file.run(
            """
            CREATE TABLE \(level.table) (time INTEGER, series INTEGER, sent INTEGER NOT NULL,
                received INTEGER NOT NULL, wire_sent INTEGER, wire_received INTEGER, retransmitted INTEGER,
                PRIMARY KEY (time, series)) WITHOUT ROWID
            """
        )
    }

    /// Makes a file of version 1 one of ``version``: all of it, or nothing. The sums of 5 minutes begin with the first of
    /// which no minute is removed.
    func upgrade() throws(SQLiteError) {
        let (minute, level) = (HistoryLevel.minute, HistoryLevel.fiveMinutes)
        try self.file.transaction { () throws(SQLiteError) in
            try self.createTable(of: level)
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
            try self.file.run("PRAGMA user_version = \(Self.version)")
        }
    }
}

extension HistoryLevel {
    /// The table with the sums of this level.
    var table: String { self == .fiveMinutes ? "five_minutes" : self.rawValue + "s" }

    /// Whether this level has sums of such a series.
    func has(_ kind: HistorySeries.Kind) -> Bool { self != .fiveMinutes || kind != .group }
}
