import CUnixSocket
import Glibc

/// Why a runtime directory can't be used.
public enum RuntimeDirectoryError: Error, Sendable, Hashable {
    /// A running daemon uses the directory.
    case inUse(path: String)
    /// The path is too long for a unix socket (`sun_path`, `unix(7)`).
    case pathTooLong(path: String, limit: Int)
    /// Other users could put their own socket into the directory.
    case notSafe(path: String, reason: String)
    /// Another file is at the socket's path. The daemon must not remove the file.
    case notASocket(path: String)
    case system(call: String, path: String, errno: Int32)
}

extension RuntimeDirectoryError: CustomStringConvertible {
    /// One line. It says what to do, if that is known.
    public var description: String {
        switch self {
        case .inUse(let path): "\(path) is in use by a running trafficd; give this one its own --runtime-directory"
        case .pathTooLong(let path, let limit):
            "\(path) is longer than the \(limit) bytes that a socket's path may have"
        case .notSafe(let path, let reason): "\(path) is not safe to use: \(reason)"
        case .notASocket(let path): "\(path) exists and is no socket; remove it"
        case .system(let call, let path, let errno): "\(call) \(path): \(unsafe String(cString: strerror(errno)))"
        }
    }
}

/// The directory with `control.sock`. This process holds the directory until this object is gone.
///
/// A lock on the file `lock` in the directory tells a running daemon from the remains of a dead daemon: the kernel
/// drops the lock (`flock(2)`) when its process ends, in whatever way.
public final class RuntimeDirectory: Sendable {
    public let path: String
    /// The group that the socket gets. `nil` if there is no group with the name. If this process may not set the group,
    /// the socket keeps its group.
    package let groupID: UInt32?
    private let lock: Descriptor

    public var controlSocketPath: String { self.path + "/control.sock" }
    /// Where cooperating programs send their reports. Every user may send.
    public var reportSocketPath: String { self.path + "/report.sock" }

    /// The socket is made in a directory that no other user can enter. It moves to its place when it has the right mode
    /// and group and listens. So its mode is never wider, and no client finds an unfinished socket. (A umask would set
    /// only the mode, and would also apply to every other thread.)
    private var privatePath: String { self.path + "/.private" }
    package var bindingPath: String { self.privatePath + "/control.sock" }
    package var reportBindingPath: String { self.privatePath + "/report.sock" }

    /// Takes the directory and removes what a dead daemon left. If the directory is missing, it is created with mode
    /// 0755. Its parent directory must exist.
    ///
    /// - Parameters:
    ///   - path: If its last part is a symbolic link, the link is not followed.
    ///   - group: The group whose members may use the control socket.
    /// - Throws: ``RuntimeDirectoryError``; `inUse` if another daemon uses the directory.
    public init(taking path: String, group: String = "trafficd") throws(RuntimeDirectoryError) {
        self.path = path
        self.groupID = Self.identifier(ofGroup: group)
        self.lock = try Self.takeLock(in: path)
        let longest = UNIX_SOCKET_PATH_MAX
        guard self.bindingPath.utf8.count <= longest else {
            throw .pathTooLong(path: self.bindingPath, limit: longest)
        }
        try Self.clear(self.controlSocketPath)
        try Self.clear(self.reportSocketPath)
        try Self.makePrivate(self.privatePath)
        try Self.clear(self.bindingPath)
        try Self.clear(self.reportBindingPath)
    }

    /// While another thread starts a program, the child has a copy of the descriptor. The lock stays as long as one copy
    /// is open, unless it is released.
    deinit { flock(self.lock.number, LOCK_UN) }

    /// Sets mode and group of the listening socket at ``bindingPath``, and moves the socket to ``controlSocketPath``.
    package func publishSocket() throws(RuntimeDirectoryError) {
        if let groupID, chown(self.bindingPath, uid_t.max, groupID) != 0, errno != EPERM {
            throw .last("chown", self.bindingPath)
        }
        guard chmod(self.bindingPath, 0o660) == 0 else { throw .last("chmod", self.bindingPath) }
        guard rename(self.bindingPath, self.controlSocketPath) == 0 else { throw .last("rename", self.bindingPath) }
        rmdir(self.privatePath)
    }

    /// Sets the mode of the bound socket at ``reportBindingPath``, and moves the socket to ``reportSocketPath``. Call
    /// this before ``publishSocket()``, so that a program that finds the control socket also finds the report socket.
    package func publishReportSocket() throws(RuntimeDirectoryError) {
        guard chmod(self.reportBindingPath, 0o666) == 0 else { throw .last("chmod", self.reportBindingPath) }
        guard rename(self.reportBindingPath, self.reportSocketPath) == 0 else {
            throw .last("rename", self.reportBindingPath)
        }
    }

    /// Call this when the server no longer listens.
    package func removeSocket() {
        unlink(self.bindingPath)
        unlink(self.reportBindingPath)
        unlink(self.reportSocketPath)
        rmdir(self.privatePath)
        unlink(self.controlSocketPath)
    }

    /// - Returns: A descriptor that holds the lock.
    private static func takeLock(in path: String) throws(RuntimeDirectoryError) -> Descriptor {
        if mkdir(path, 0o755) == 0 {
            // The umask may have removed more bits than it should. Group members must be able to reach the socket.
            guard chmod(path, 0o755) == 0 else { throw .last("chmod", path) }
        } else if errno != EEXIST {
            throw .last("mkdir", path)
        }
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        guard let directory = Descriptor(open(path, flags)) else { throw .last("open", path) }
        var status = stat()
        guard unsafe fstat(directory.number, &status) == 0 else { throw .last("stat", path) }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw .notSafe(
                path: path,
                reason:
                    "it belongs to user \(status.st_uid), perhaps that of the service; take another --runtime-directory"
            )
        }
        guard status.st_mode & S_IWOTH == 0 else { throw .notSafe(path: path, reason: "everyone may write to it") }

        let file = path + "/lock"
        let lock = Descriptor(openat(directory.number, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0o600))
        guard let lock else { throw .last("open", file) }
        guard flock(lock.number, LOCK_EX | LOCK_NB) == 0 else {
            throw errno == EWOULDBLOCK ? .inUse(path: path) : .last("flock", file)
        }
        return lock
    }

    /// Makes a directory that only this user can enter. If a dead daemon left the directory, it must be such a
    /// directory too.
    private static func makePrivate(_ path: String) throws(RuntimeDirectoryError) {
        if mkdir(path, 0o700) == 0 { return }
        guard errno == EEXIST else { throw .last("mkdir", path) }
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { throw .last("stat", path) }
        // A link is refused too: it could lead to a directory that other users can enter.
        guard status.st_mode & S_IFMT == S_IFDIR else { throw .notSafe(path: path, reason: "it is no directory") }
        guard status.st_uid == geteuid() else {
            throw .notSafe(path: path, reason: "it belongs to user \(status.st_uid)")
        }
        guard status.st_mode & (S_IRWXG | S_IRWXO) == 0 else {
            throw .notSafe(path: path, reason: "others than its owner may enter it")
        }
    }

    /// Removes a dead daemon's socket.
    private static func clear(_ path: String) throws(RuntimeDirectoryError) {
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else {
            if errno == ENOENT { return }
            throw .last("stat", path)
        }
        guard status.st_mode & S_IFMT == S_IFSOCK else { throw .notASocket(path: path) }
        // A user may have removed the lock file of a running daemon.
        guard !Self.answers(path) else { throw .inUse(path: path) }
        guard unlink(path) == 0 || errno == ENOENT else { throw .last("unlink", path) }
    }

    /// Whether a process listens on the socket. A full queue also means that a process listens.
    private static func answers(_ path: String) -> Bool {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard let client = Descriptor(socket(AF_UNIX, type, 0)) else { return false }
        return unsafe unix_socket_connect(client.number, path) == 0 || errno == EAGAIN
    }

    private static func identifier(ofGroup name: String) -> UInt32? {
        var entry = group()
        var found: UnsafeMutablePointer<group>?
        let size = 65_536
        return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: size) { buffer in
            guard unsafe getgrnam_r(name, &entry, buffer.baseAddress, size, &found) == 0, unsafe found != nil else {
                return nil
            }
            return unsafe entry.gr_gid
        }
    }
}

/// Owns a file descriptor, and closes it.
private struct Descriptor: ~Copyable, Sendable {
    let number: CInt

    /// - Returns: `nil` for the negative number of a failed call. `errno` has the reason.
    init?(_ number: CInt) {
        guard number >= 0 else { return nil }
        self.number = number
    }

    deinit {
        close(self.number)
    }
}

extension RuntimeDirectoryError {
    /// The failure of the call before, from `errno`.
    fileprivate static func last(_ call: String, _ path: String) -> Self {
        .system(call: call, path: path, errno: errno)
    }
}
