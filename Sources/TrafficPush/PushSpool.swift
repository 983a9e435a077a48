import NIOCore
import NIOPosix
import SQLiteDatabase
import TrafficDocuments
import TrafficModel

/// Requests that wait for their receivers, in a database: they outlast the daemon. Each destination takes them in their
/// order, and its cursor says how far it came. Beyond ``room`` the oldest go, but never those of the newest reading. All
/// sums are cumulative, so a receiver that missed some still gets every byte with the next.
actor PushSpool {
    struct Waiting: Sendable {
        var id: Int64
        var body: [UInt8]
        /// Of the database that it is in. Another one has other requests under the same numbers.
        fileprivate var database: Int
    }

    struct Counts: Sendable, Equatable {
        var waiting: UInt64
        var dropped: UInt64
    }

    /// In bytes: eight hours of 1,000 programs, sent once a minute.
    static let room = 64 << 20
    /// Without a directory.
    static let roomInMemory = 8 << 20
    private static let version: Int64 = 1

    private let thread: MultiThreadedEventLoopGroup
    private let eventLoop: any EventLoop
    /// SQLite blocks, and here it blocks only a thread of its own.
    nonisolated var unownedExecutor: UnownedSerialExecutor { self.eventLoop.executor.asUnownedSerialExecutor() }

    private let destinations: [PushDestination]
    private let path: String?
    private var room: Int
    private var file: SQLiteFile?
    /// The number of ``file``.
    private var database = 0
    private let report: @Sendable (String) -> Void
    private var progress: [PushDestination: Progress] = [:]

    /// How far a destination is, beside its cursor in the database.
    private struct Progress {
        /// Requests that were deleted before the destination took them: they made room, or the file failed.
        var dropped: UInt64 = 0
        /// How many waited at the last count.
        var waiting: UInt64 = 0
        /// What the destination is being sent.
        var underWay: UnderWay?
    }

    private struct UnderWay {
        var id: Int64
        var database: Int
        /// Whether it was deleted meanwhile. The destination may still take it; it is dropped only if it does not.
        var isDeleted = false
    }

    /// - Parameters:
    ///   - path: Of the database; `nil`: in memory.
    ///   - room: Of all bodies. `nil`: the usual one.
    ///   - report: Gets what a log should have.
    init(
        _ destinations: [PushDestination],
        path: String?,
        room: Int? = nil,
        report: @escaping @Sendable (String) -> Void
    ) {
        (self.destinations, self.path, self.report) = (destinations, path, report)
        self.room = room ?? (path == nil ? Self.roomInMemory : Self.room)
        self.thread = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        self.eventLoop = self.thread.next()
    }

    /// Nothing may be asked of it any more.
    nonisolated func close() async {
        try? await self.thread.shutdownGracefully()
    }

    /// All forms that the destinations take.
    nonisolated var forms: Set<PushDestination.Form> { Set(self.destinations.map(\.form)) }

    func add(_ bodies: [PushDestination.Form: [[UInt8]]]) {
        // What the file could not take goes to the memory that replaces it.
        if self.insert(bodies) || self.insert(bodies) { return }
        for destination in self.destinations {
            self.progress[destination, default: Progress()].dropped += UInt64(bodies[destination.form]?.count ?? 0)
        }
    }

    private func insert(_ bodies: [PushDestination.Form: [[UInt8]]]) -> Bool {
        var deleted: [PushDestination: [Int64]] = [:]
        let isDone = self.change { file throws(SQLiteError) in
            let last = try file.number("SELECT coalesce(max(id), 0) FROM request")
            for (form, bodies) in bodies {
                for body in bodies {
                    try file.run("INSERT INTO request (form, body) VALUES (?, ?)", [.text(form.name), .bytes(body)])
                }
            }
            deleted = try self.makeRoom(in: file, before: last)
        }
        guard isDone else { return false }
        for (destination, ids) in deleted {
            var progress = self.progress[destination] ?? Progress()
            for id in ids {
                if progress.underWay?.id == id, progress.underWay?.database == self.database {
                    progress.underWay?.isDeleted = true
                } else {
                    progress.dropped += 1
                }
            }
            self.progress[destination] = progress
        }
        return true
    }

    /// Of the form that takes the most: receivers of one form do not pay for those of another.
    private static let oldest = """
        SELECT id, form, length(body) FROM request
        WHERE id <= ? AND form = (
            SELECT form FROM request WHERE id <= ? GROUP BY form ORDER BY sum(length(body)) DESC, form LIMIT 1
        )
        ORDER BY id LIMIT 1
        """

    /// - Parameter last: Newer requests stay, whatever they take: their receivers could not ask for them yet.
    /// - Returns: The requests that were deleted before a destination took them.
    private func makeRoom(
        in file: SQLiteFile,
        before last: Int64
    ) throws(SQLiteError) -> [PushDestination: [Int64]] {
        var deleted: [PushDestination: [Int64]] = [:]
        var total = try file.number("SELECT coalesce(sum(length(body)), 0) FROM request")
        while total > self.room {
            var oldest: (id: Int64, form: String, length: Int64)?
            try file.run(Self.oldest, [.number(last), .number(last)]) { row in
                oldest = (row.number(0) ?? 0, row.text(1) ?? "", row.number(2) ?? 0)
            }
            guard let oldest else { break }
            for destination in self.destinations where destination.form.name == oldest.form {
                let cursor = try self.cursor(of: destination, in: file)
                if cursor < oldest.id { deleted[destination, default: []].append(oldest.id) }
            }
            try file.run("DELETE FROM request WHERE id = ?", [.number(oldest.id)])
            total -= oldest.length
        }
        return deleted
    }

    /// The oldest request that a destination did not take yet. It did not take the one that ``next(for:)`` gave before,
    /// unless ``take(_:by:)`` said so.
    func next(for destination: PushDestination) -> Waiting? {
        if self.progress[destination]?.underWay?.isDeleted == true { self.progress[destination]?.dropped += 1 }
        self.progress[destination]?.underWay = nil
        var found: Waiting?
        let isDone = self.change { file throws(SQLiteError) in
            let cursor = try self.cursor(of: destination, in: file)
            try file.run(
                "SELECT id, body FROM request WHERE form = ? AND id > ? ORDER BY id LIMIT 1",
                [.text(destination.form.name), .number(cursor)]
            ) { row in
                found = Waiting(id: row.number(0) ?? 0, body: row.bytes(1), database: self.database)
            }
        }
        guard isDone, let found else { return nil }
        self.progress[destination, default: Progress()].underWay = UnderWay(id: found.id, database: found.database)
        return found
    }

    /// The destination needs this request and those before no more.
    func take(_ request: Waiting, by destination: PushDestination) {
        defer { self.progress[destination]?.underWay = nil }
        guard request.database == self.database else { return }
        self.change { file throws(SQLiteError) in
            try file.run(
                "UPDATE cursor SET request = ? WHERE destination = ?",
                [.number(request.id), .text(destination.key)]
            )
            try file.run(
                "DELETE FROM request WHERE form = ? AND id <= (SELECT min(request) FROM cursor WHERE form = ?)",
                [.text(destination.form.name), .text(destination.form.name)]
            )
        }
    }

    /// - Returns: How many requests wait for a destination, and how many were deleted before it took them.
    func counts(of destination: PushDestination) -> Counts {
        var waiting: UInt64 = 0
        self.change { file throws(SQLiteError) in waiting = try self.waiting(for: destination, in: file) }
        self.progress[destination, default: Progress()].waiting = waiting
        return Counts(waiting: waiting, dropped: self.progress[destination]?.dropped ?? 0)
    }

    private func waiting(for destination: PushDestination, in file: SQLiteFile) throws(SQLiteError) -> UInt64 {
        UInt64(
            try file.number(
                "SELECT count(*) FROM request WHERE form = ? AND id > ?",
                [.text(destination.form.name), .number(try self.cursor(of: destination, in: file))]
            )
        )
    }

    private func cursor(of destination: PushDestination, in file: SQLiteFile) throws(SQLiteError) -> Int64 {
        try file.number("SELECT request FROM cursor WHERE destination = ?", [.text(destination.key)])
    }

    // MARK: The database

    /// Everything in `body` happens, or nothing. If the database fails, such as on a full disk, another one in memory takes
    /// its place until the daemon ends: what waited is lost to the receivers, and no byte of the sums.
    ///
    /// - Returns: Whether it happened.
    @discardableResult
    private func change(_ body: (SQLiteFile) throws(SQLiteError) -> Void) -> Bool {
        do {
            let file = try self.file ?? self.opened()
            try file.transaction { () throws(SQLiteError) in try body(file) }
            return true
        } catch {
            for destination in self.destinations { self.dropAll(of: destination) }
            self.report("what waits for receivers is in memory from now on, and does not outlast the daemon: \(error)")
            self.room = min(self.room, Self.roomInMemory)
            self.database += 1
            // Sent after what comes now, the old requests would be steps back.
            self.file = nil
            self.remove()
            self.file = try? self.prepared(SQLiteFile(path: ":memory:"))
            return false
        }
    }

    /// Counts what waits for a destination in the file that failed. Most files can still be read, such as on a full disk;
    /// of others the last count holds. What a file has that could not be opened, nobody knows.
    private func dropAll(of destination: PushDestination) {
        guard let file else { return }
        var progress = self.progress[destination] ?? Progress()
        var count = (try? self.waiting(for: destination, in: file)) ?? progress.waiting
        if progress.underWay?.isDeleted == false, count > 0 {
            progress.underWay?.isDeleted = true
            count -= 1
        }
        progress.dropped += count
        progress.waiting = 0
        self.progress[destination] = progress
    }

    private func opened() throws(SQLiteError) -> SQLiteFile {
        let file = try self.open()
        self.file = file
        for destination in self.destinations {
            self.progress[destination, default: Progress()].waiting = try self.waiting(for: destination, in: file)
        }
        return file
    }

    private func open() throws(SQLiteError) -> SQLiteFile {
        guard let path else { return try self.prepared(SQLiteFile(path: ":memory:")) }
        do throws(SQLiteError) {
            return try self.prepared(SQLiteFile(path: path))
        } catch {
            // Nothing in it is worth keeping: the next request has all sums again.
            guard error.isCorruption else { throw error }
            self.report("\(path) was damaged, and begins anew: \(error)")
            self.remove()
            return try self.prepared(SQLiteFile(path: path))
        }
    }

    private func remove() {
        guard let path else { return }
        for suffix in ["", "-wal", "-shm"] { unlink(path + suffix) }
    }

    private func prepared(_ file: SQLiteFile) throws(SQLiteError) -> SQLiteFile {
        // Whoever looks into the file holds it for a moment. Deleted requests give their room back to the disk.
        try file.run("PRAGMA busy_timeout = 5000")
        try file.run("PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")
        let version = try file.number("PRAGMA user_version")
        try file.transaction { () throws(SQLiteError) in
            if version != Self.version {
                try file.run("DROP TABLE IF EXISTS request; DROP TABLE IF EXISTS cursor")
                try file.run(
                    """
                    CREATE TABLE request (id INTEGER PRIMARY KEY AUTOINCREMENT, form TEXT NOT NULL, body BLOB NOT NULL);
                    CREATE TABLE cursor (
                        destination TEXT PRIMARY KEY, form TEXT NOT NULL, request INTEGER NOT NULL
                    ) WITHOUT ROWID;
                    PRAGMA user_version = \(Self.version)
                    """
                )
            }
            try self.keepCursors(in: file)
        }
        return file
    }

    /// A new destination begins with what comes from now on. One that went needs nothing any more.
    private func keepCursors(in file: SQLiteFile) throws(SQLiteError) {
        let marks = self.destinations.map { _ in "?" }.joined(separator: ", ")
        let keys = self.destinations.map { SQLiteFile.Value.text($0.key) }
        try file.run("DELETE FROM cursor WHERE destination NOT IN (\(marks))", keys)
        for destination in self.destinations {
            try file.run(
                """
                INSERT INTO cursor SELECT ?, ?, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'request'), 0)
                WHERE true ON CONFLICT DO NOTHING
                """,
                [.text(destination.key), .text(destination.form.name)]
            )
        }
        try file.run(
            """
            DELETE FROM request
            WHERE id <= coalesce((SELECT min(request) FROM cursor WHERE cursor.form = request.form), id)
            """
        )
    }
}

extension PushDestination {
    /// What identifies it over restarts.
    fileprivate var key: String { "\(self.form.name) \(self.url)" }
}
