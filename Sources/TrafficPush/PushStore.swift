import SQLiteDatabase
import TrafficDocuments

/// Requests that wait in one database. Each destination takes them in their order, and its cursor says how far it came.
final class PushStore {
    struct Request {
        var id: Int64
        var body: [UInt8]
    }

    /// What became of requests that moved here.
    struct Moved {
        /// Their ids here, by those that they had.
        var ids: [Int64: Int64] = [:]
        /// How many older requests a destination is not sent any more, because it has taken newer ones.
        var passed: [PushDestination: UInt64] = [:]
    }

    private static let version: Int64 = 1

    private let file: SQLiteFile
    private let destinations: [PushDestination]
    /// Cursors that the database could not note yet: a full disk can be read.
    private var unnoted: [PushDestination: Int64] = [:]

    /// - Parameter path: `nil`: in memory.
    init(path: String?, _ destinations: [PushDestination]) throws(SQLiteError) {
        self.file = try SQLiteFile(path: path ?? ":memory:")
        self.destinations = destinations
        // Whoever looks into the file holds it for a moment. Deleted requests give their room back to the disk.
        try self.file.run("PRAGMA busy_timeout = 5000")
        try self.file.run("PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        let version = try self.file.number("PRAGMA user_version")
        try self.file.transaction { () throws(SQLiteError) in
            if version != Self.version { try self.create() }
            try self.keepCursors()
        }
    }

    private func create() throws(SQLiteError) {
        try self.file.run("DROP TABLE IF EXISTS request; DROP TABLE IF EXISTS cursor")
        try self.file.run(
            """
            CREATE TABLE request (id INTEGER PRIMARY KEY AUTOINCREMENT, form TEXT NOT NULL, body BLOB NOT NULL);
            CREATE TABLE cursor (
                destination TEXT PRIMARY KEY, form TEXT NOT NULL, request INTEGER NOT NULL
            ) WITHOUT ROWID;
            PRAGMA user_version = \(Self.version)
            """
        )
    }

    /// A new destination begins with what comes from now on. One that went needs nothing any more.
    private func keepCursors() throws(SQLiteError) {
        let marks = self.destinations.map { _ in "?" }.joined(separator: ", ")
        let keys = self.destinations.map { SQLiteFile.Value.text($0.key) }
        try self.file.run("DELETE FROM cursor WHERE destination NOT IN (\(marks))", keys)
        for destination in self.destinations {
            try self.file.run(
                """
                INSERT INTO cursor SELECT ?, ?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'request'), 0)
                WHERE true ON CONFLICT DO NOTHING
                """,
                [.text(destination.key), .text(destination.form.name)]
            )
        }
        try self.deleteTaken()
    }

    // MARK: Writing

    /// Everything in `body` happens, or nothing. It also notes what the database could not note before.
    func change(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try self.file.transaction { () throws(SQLiteError) in
            for (destination, id) in self.unnoted { try self.setCursor(of: destination, to: id) }
            if !self.unnoted.isEmpty { try self.deleteTaken() }
            try body()
        }
        self.unnoted = [:]
    }

    private func setCursor(of destination: PushDestination, to id: Int64) throws(SQLiteError) {
        try self.file.run(
            "UPDATE cursor SET request = max(request, ?) WHERE destination = ?",
            [.number(id), .text(destination.key)]
        )
    }

    private func deleteTaken() throws(SQLiteError) {
        try self.file.run(
            """
            DELETE FROM request
            WHERE id <= coalesce((SELECT min(request) FROM cursor WHERE cursor.form = request.form), id)
            """
        )
    }

    /// The destination needs this request and those before no more, whether the database can note that now or later.
    ///
    /// - Throws: ``SQLiteError`` if it can't.
    func take(_ id: Int64, by destination: PushDestination) throws(SQLiteError) {
        self.unnoted[destination] = max(id, self.unnoted[destination] ?? 0)
        try self.change { () throws(SQLiteError) in }
    }

    /// Call this in ``change(_:)``.
    ///
    /// - Returns: The id of the request.
    @discardableResult
    func insert(_ body: [UInt8], _ form: String) throws(SQLiteError) -> Int64 {
        try self.file.run("INSERT INTO request (form, body) VALUES (?, ?)", [.text(form), .bytes(body)])
        return self.file.lastRowID
    }

    /// Call this in ``change(_:)``. Moves all that waits in the other store here, after what waits here.
    ///
    func insertAll(of other: PushStore) throws(SQLiteError) -> Moved {
        var moved = Moved()
        var others: [(id: Int64, form: String)] = []
        try other.file.run("SELECT id, form FROM request ORDER BY id", []) { row in
            if let id = row.number(0), let form = row.text(1) { others.append((id, form)) }
        }
        let cursors = try self.destinations.map { destination throws(SQLiteError) in try other.cursor(of: destination) }
        // Who has taken something there needs nothing older.
        let last = try self.last()
        for (destination, cursor) in zip(self.destinations, cursors) where cursor > 0 {
            moved.passed[destination] = try self.waiting(for: destination)
            try self.setCursor(of: destination, to: last)
        }
        for (id, form) in others {
            var body: [UInt8] = []
            try other.file.run("SELECT body FROM request WHERE id = ?", [.number(id)]) { row in body = row.bytes(0) }
            let own = try self.insert(body, form)
            moved.ids[id] = own
            for (destination, cursor) in zip(self.destinations, cursors) where cursor >= id {
                if destination.form.name == form { try self.setCursor(of: destination, to: own) }
            }
        }
        return moved
    }

    /// Of the form that takes the most: receivers of one form do not pay for those of another.
    private static let oldest = """
        SELECT id, form, length(body) FROM request
        WHERE id <= ? AND form = (
            SELECT form FROM request WHERE id <= ? GROUP BY form ORDER BY sum(length(body)) DESC, form LIMIT 1
        )
        ORDER BY id LIMIT 1
        """

    /// Call this in ``change(_:)``. Deletes the oldest requests until all bodies have room.
    ///
    /// - Parameter last: Newer requests stay, whatever they take: their receivers could not ask for them yet.
    /// - Returns: The requests that were deleted before a destination took them.
    func makeRoom(_ room: Int, before last: Int64) throws(SQLiteError) -> [PushDestination: [Int64]] {
        var deleted: [PushDestination: [Int64]] = [:]
        var total = try self.file.number("SELECT coalesce(sum(length(body)), 0) FROM request")
        while total > room {
            var oldest: (id: Int64, form: String, length: Int64)?
            try self.file.run(Self.oldest, [.number(last), .number(last)]) { row in
                oldest = (row.number(0) ?? 0, row.text(1) ?? "", row.number(2) ?? 0)
            }
            guard let oldest else { break }
            for destination in self.destinations where destination.form.name == oldest.form {
                let cursor = try self.cursor(of: destination)
                if cursor < oldest.id { deleted[destination, default: []].append(oldest.id) }
            }
            try self.file.run("DELETE FROM request WHERE id = ?", [.number(oldest.id)])
            total -= oldest.length
        }
        return deleted
    }

    // MARK: Reading

    /// The id of the newest request.
    func last() throws(SQLiteError) -> Int64 { try self.file.number("SELECT coalesce(max(id), 0) FROM request") }

    /// The oldest request that a destination did not take yet.
    func next(for destination: PushDestination) throws(SQLiteError) -> Request? {
        var found: Request?
        try self.file.run(
            "SELECT id, body FROM request WHERE form = ? AND id > ? ORDER BY id LIMIT 1",
            [.text(destination.form.name), .number(try self.cursor(of: destination))]
        ) { row in
            found = Request(id: row.number(0) ?? 0, body: row.bytes(1))
        }
        return found
    }

    /// How many requests a destination did not take yet.
    func waiting(for destination: PushDestination) throws(SQLiteError) -> UInt64 {
        UInt64(
            try self.file.number(
                "SELECT count(*) FROM request WHERE form = ? AND id > ?",
                [.text(destination.form.name), .number(try self.cursor(of: destination))]
            )
        )
    }

    private func cursor(of destination: PushDestination) throws(SQLiteError) -> Int64 {
        let key = SQLiteFile.Value.text(destination.key)
        let noted = try self.file.number("SELECT request FROM cursor WHERE destination = ?", [key])
        return max(noted, self.unnoted[destination] ?? 0)
    }
}

extension PushDestination {
    /// What identifies it over restarts.
    fileprivate var key: String { "\(self.form.name) \(self.url)" }
}
