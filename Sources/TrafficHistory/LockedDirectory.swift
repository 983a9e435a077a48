import Glibc

/// Why a directory can't be used.
public enum HistoryError: Error, Sendable, Hashable, CustomStringConvertible {
    /// Another daemon has the directory.
    case inUse(path: String)
    /// Other users could read or change what is in it.
    case notSafe(path: String)
    /// The database is of another program, or of a later trafficd.
    case notOurs(path: String, reason: String)
    case system(call: String, path: String, errno: Int32)

    public var description: String {
        switch self {
        case .inUse(let path): "\(path) is in use by a running trafficd; give this one its own --state-directory"
        case .notSafe(let path):
            "\(path) belongs to another user, or others may enter it: chown it to the user of trafficd, and chmod it to 700"
        case .notOurs(let path, let reason): "can't keep history in \(path): \(reason); move it away"
        case .system(let call, let path, let errno): "\(call) \(path): \(unsafe String(cString: strerror(errno)))"
        }
    }
}

/// The directory with the history, which one daemon has at a time.
struct LockedDirectory: ~Copyable, Sendable {
    private let path: String
    private let descriptor: Int32

    var databasePath: String { self.path + "/history.sqlite" }

    /// Makes the directory with mode 0700 if it is missing.
    ///
    /// - Throws: ``HistoryError``.
    init(taking path: String) throws(HistoryError) {
        guard mkdir(path, 0o700) == 0 || errno == EEXIST else {
            throw .system(call: "mkdir", path: path, errno: errno)
        }
        // SQLite follows no symbolic link, wherever in the path it is.
        guard let resolved = unsafe realpath(path, nil) else {
            throw .system(call: "realpath", path: path, errno: errno)
        }
        defer { unsafe free(resolved) }
        let path = unsafe String(cString: resolved)
        var status = stat()
        guard stat(path, &status) == 0 else { throw .system(call: "stat", path: path, errno: errno) }
        guard status.st_uid == geteuid(), status.st_mode & 0o077 == 0 else { throw .notSafe(path: path) }
        let lock = path + "/lock"
        // The kernel drops this lock when its process ends, in whatever way.
        let descriptor = Glibc.open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .system(call: "open", path: lock, errno: errno) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            let error = errno
            close(descriptor)
            throw error == EWOULDBLOCK ? .inUse(path: path) : .system(call: "flock", path: lock, errno: error)
        }
        (self.path, self.descriptor) = (path, descriptor)
    }

    deinit { close(self.descriptor) }

    /// Gives the database another name, together with the files that SQLite keeps beside it.
    ///
    /// - Returns: Its path from now on.
    func setDatabaseAside() throws(HistoryError) -> String {
        let aside = "\(self.path)/history-\(time(nil)).set-aside"
        for suffix in ["", "-wal", "-shm"] {
            guard rename(self.databasePath + suffix, aside + suffix) == 0 || errno == ENOENT else {
                throw .system(call: "rename", path: self.databasePath + suffix, errno: errno)
            }
        }
        return aside
    }
}
