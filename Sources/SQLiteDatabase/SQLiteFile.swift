import CSQLite
import Glibc

/// What SQLite refused.
package struct SQLiteError: Error, CustomStringConvertible {
    /// The primary result code (sqlite.org/rescode.html).
    package var code: Int32
    package var message: String

    /// The file is no database, or is damaged.
    package var isCorruption: Bool { self.code == SQLITE_CORRUPT || self.code == SQLITE_NOTADB }

    /// The database lacks a table or a column that the program made.
    package var isForeign: Bool { self.code == SQLITE_ERROR && self.message.hasPrefix("no such ") }

    /// A statement took longer than it may.
    package var isInterrupt: Bool { self.code == SQLITE_INTERRUPT }

    package var description: String { self.message }
}

/// The one connection to a database file.
///
/// SQLite's own interface in C, and no library on top: those that there are bring all of Foundation, which would double
/// the size of the daemon, and history needs a dozen statements.
package final class SQLiteFile {
    private let handle: OpaquePointer
    private var statements: [String: Statement] = [:]
    /// Clients ask in many ways, and each way is another statement of about 20 kB. Beyond so many, all are made anew.
    private static let mostStatements = 200

    /// - Throws: ``SQLiteError``.
    package init(path: String) throws(SQLiteError) {
        var handle: OpaquePointer?
        // No mutex: one thread has the connection. No symbolic link: the file is where it seems to be.
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW
        let result = sqlite3_open_v2(path, &handle, flags, nil)
        guard result == SQLITE_OK, let handle else {
            let message = unsafe String(cString: handle.map { sqlite3_errmsg($0) } ?? sqlite3_errstr(result))
            sqlite3_close_v2(handle)
            throw SQLiteError(code: result, message: message)
        }
        self.handle = handle
    }

    deinit {
        self.statements.removeAll()
        sqlite3_close_v2(self.handle)
    }

    /// Runs statements that return nothing of use.
    package func run(_ sql: String) throws(SQLiteError) {
        try self.check(sqlite3_exec(self.handle, sql, nil, nil, nil))
    }

    /// Runs one statement.
    ///
    /// - Parameter row: Called for each row of the result.
    package func run(_ sql: String, _ values: [Value], row: (Row) -> Void = { _ in }) throws(SQLiteError) {
        let statement = try self.statement(sql)
        defer { sqlite3_reset(statement.handle) }
        for (index, value) in values.enumerated() { try self.check(statement.bind(value, at: Int32(index + 1))) }
        while true {
            switch sqlite3_step(statement.handle) {
            case SQLITE_ROW: row(Row(handle: statement.handle))
            case SQLITE_DONE: return
            case let error: return try self.check(error)
            }
        }
    }

    /// Runs `body`, whose statements fail with SQLITE_INTERRUPT from a moment on.
    ///
    /// - Parameter seconds: From now.
    package func limited<Result>(seconds: Int, _ body: () throws -> Result) rethrows -> Result {
        let end = UnsafeMutablePointer<time_t>.allocate(capacity: 1)
        unsafe end.initialize(to: Self.now + seconds)
        sqlite3_progress_handler(
            self.handle,
            10_000,
            { end in
                guard let end else { return 0 }
                return unsafe SQLiteFile.now > end.assumingMemoryBound(to: time_t.self).pointee ? 1 : 0
            },
            end
        )
        defer {
            sqlite3_progress_handler(self.handle, 0, nil, nil)
            unsafe end.deallocate()
        }
        return try body()
    }

    private static var now: time_t {
        var now = timespec()
        clock_gettime(CLOCK_MONOTONIC, &now)
        return now.tv_sec
    }

    /// The first number of the first row; 0 if there is none.
    package func number(_ sql: String, _ values: [Value] = []) throws(SQLiteError) -> Int64 {
        var result: Int64?
        try self.run(sql, values) { row in if result == nil { result = row.number(0) } }
        return result ?? 0
    }

    package var lastRowID: Int64 { sqlite3_last_insert_rowid(self.handle) }

    /// Everything in `body` happens, or nothing.
    package func transaction(_ body: () throws(SQLiteError) -> Void) throws(SQLiteError) {
        try self.run("BEGIN IMMEDIATE", [])
        do throws(SQLiteError) {
            try body()
            try self.run("COMMIT", [])
        } catch {
            // SQLite may have rolled back already.
            if sqlite3_get_autocommit(self.handle) == 0 { try? self.run("ROLLBACK", []) }
            throw error
        }
    }

    package enum Value {
        case number(Int64?)
        case text(String?)
        case bytes([UInt8])
    }

    /// The current row of a result, until the next one.
    package struct Row {
        fileprivate let handle: OpaquePointer

        /// - Returns: `nil` for NULL.
        package func number(_ column: Int32) -> Int64? {
            sqlite3_column_type(self.handle, column) == SQLITE_NULL ? nil : sqlite3_column_int64(self.handle, column)
        }

        package func text(_ column: Int32) -> String? {
            unsafe sqlite3_column_text(self.handle, column).map { unsafe String(cString: $0) }
        }

        /// - Returns: Nothing for NULL.
        package func bytes(_ column: Int32) -> [UInt8] {
            guard let bytes = sqlite3_column_blob(self.handle, column) else { return [] }
            let count = Int(sqlite3_column_bytes(self.handle, column))
            return unsafe Array(UnsafeRawBufferPointer(start: bytes, count: count))
        }
    }

    private final class Statement {
        let handle: OpaquePointer

        init(handle: OpaquePointer) { self.handle = handle }

        deinit { sqlite3_finalize(self.handle) }

        func bind(_ value: Value, at index: Int32) -> Int32 {
            switch value {
            case .number(let number?): sqlite3_bind_int64(self.handle, index, number)
            case .text(let text?): sqlite_bind_copy(self.handle, index, text, Int32(text.utf8.count))
            case .bytes(let bytes):
                unsafe bytes.withUnsafeBytes { buffer in
                    unsafe sqlite_bind_bytes_copy(self.handle, index, buffer.baseAddress, Int32(buffer.count))
                }
            case .number(nil), .text(nil): sqlite3_bind_null(self.handle, index)
            }
        }
    }

    private func statement(_ sql: String) throws(SQLiteError) -> Statement {
        if let statement = self.statements[sql] { return statement }
        var handle: OpaquePointer?
        try self.check(sqlite3_prepare_v3(self.handle, sql, -1, UInt32(SQLITE_PREPARE_PERSISTENT), &handle, nil))
        guard let handle else { throw SQLiteError(code: SQLITE_MISUSE, message: "no statement: \(sql)") }
        let statement = Statement(handle: handle)
        if self.statements.count >= Self.mostStatements { self.statements.removeAll() }
        self.statements[sql] = statement
        return statement
    }

    private func check(_ result: Int32) throws(SQLiteError) {
        guard result != SQLITE_OK && result != SQLITE_DONE && result != SQLITE_ROW else { return }
        throw SQLiteError(code: result & 0xFF, message: unsafe String(cString: sqlite3_errmsg(self.handle)))
    }
}
