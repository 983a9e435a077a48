import Glibc

/// Why a runtime directory can't be used.
public enum RuntimeDirectoryError: Error, Sendable, Hashable {
    /// A living daemon has it.
    case inUse(path: String)
    /// A path that a unix socket can't have (`sun_path`, `unix(7)`).
    case pathTooLong(path: String, limit: Int)
    /// Others could put their own socket into it.
    case notSafe(path: String, reason: String)
    /// Something else lies where the socket belongs; it is not ours to remove.
    case notASocket(path: String)
    case system(call: String, path: String, errno: Int32)
}

extension RuntimeDirectoryError: CustomStringConvertible {
    /// One line, with what to do where that is known.
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

/// The directory with `control.sock`, taken by this process until this object is gone.
///
/// A lock on the file `lock` inside tells a living daemon from a dead one's leftovers: the kernel drops it (`flock(2)`) when its process
/// ends, in whatever way.
public final class RuntimeDirectory: Sendable {
    public let path: String
    /// The group that the socket is given. `nil` where there is none of the name, or this process may not give it.
    package let groupID: UInt32?
    private let lock: Descriptor

    public var controlSocketPath: String { self.path + "/control.sock" }
    /// Where cooperating programs send their reports; anyone may.
    public var reportSocketPath: String { self.path + "/report.sock" }

    /// The socket begins in a directory that no one else can enter and moves to its place when it has the right mode and group and
    /// listens: it never is open wider, and no one meets it half made. (A umask would do for the mode alone, and for every other
    /// thread too.)
    private var privatePath: String { self.path + "/.private" }
    package var bindingPath: String { self.privatePath + "/control.sock" }
    package var reportBindingPath: String { self.privatePath + "/report.sock" }

    /// Bytes of `sockaddr_un.sun_path` without the closing zero.
    private static let longestSocketPath = 107

    /// Takes the directory and clears away what a dead daemon left. Creates it, mode 0755, in an existing parent directory.
    ///
    /// - Parameters:
    ///   - path: Its last part is not followed where it is a symbolic link.
    ///   - group: The group whose members may use the control socket.
    /// - Throws: ``RuntimeDirectoryError``; `inUse` where another daemon runs there.
    public init(taking path: String, group: String = "trafficd") throws(RuntimeDirectoryError) {
        self.path = path
        self.groupID = Self.identifier(ofGroup: group)
        self.lock = try Self.takeLock(in: path)
        guard self.bindingPath.utf8.count <= Self.longestSocketPath else {
            throw .pathTooLong(path: self.bindingPath, limit: Self.longestSocketPath)
        }
        try Self.clear(self.controlSocketPath)
        try Self.clear(self.reportSocketPath)
        try Self.makePrivate(self.privatePath)
        try Self.clear(self.bindingPath)
        try Self.clear(self.reportBindingPath)
    }

    /// Gives the listening socket at ``bindingPath`` mode and group, and moves it to ``controlSocketPath``.
    package func publishSocket() throws(RuntimeDirectoryError) {
        if let groupID, chown(self.bindingPath, uid_t.max, groupID) != 0, errno != EPERM {
            throw .last("chown", self.bindingPath)
        }
        guard chmod(self.bindingPath, 0o660) == 0 else { throw .last("chmod", self.bindingPath) }
        guard rename(self.bindingPath, self.controlSocketPath) == 0 else { throw .last("rename", self.bindingPath) }
        rmdir(self.privatePath)
    }

    /// The same for the bound socket at ``reportBindingPath``. Before ``publishSocket()``: who finds the one finds the other.
    package func publishReportSocket() throws(RuntimeDirectoryError) {
        guard chmod(self.reportBindingPath, 0o666) == 0 else { throw .last("chmod", self.reportBindingPath) }
        guard rename(self.reportBindingPath, self.reportSocketPath) == 0 else {
            throw .last("rename", self.reportBindingPath)
        }
    }

    /// To be called by the one who listens, when it no longer does.
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
            // The umask may have taken more than it should: group members have to reach the socket.
            guard chmod(path, 0o755) == 0 else { throw .last("chmod", path) }
        } else if errno != EEXIST {
            throw .last("mkdir", path)
        }
        let flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
        guard let directory = Descriptor(open(path, flags)) else { throw .last("open", path) }
        var status = stat()
        guard unsafe fstat(directory.number, &status) == 0 else { throw .last("stat", path) }
        guard status.st_uid == geteuid() || status.st_uid == 0 else {
            throw .notSafe(path: path, reason: "it belongs to user \(status.st_uid)")
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

    /// Makes a directory that this user alone can enter. One that is there already, a dead daemon's, has to be such a one.
    private static func makePrivate(_ path: String) throws(RuntimeDirectoryError) {
        if mkdir(path, 0o700) == 0 { return }
        guard errno == EEXIST else { throw .last("mkdir", path) }
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { throw .last("stat", path) }
        // No link either: it could lead to where others are at home.
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
        // Someone may have removed the lock file under a living daemon.
        guard !Self.answers(path) else { throw .inUse(path: path) }
        guard unlink(path) == 0 || errno == ENOENT else { throw .last("unlink", path) }
    }

    /// Whether a socket is listened on. A full queue is a sign of life too.
    private static func answers(_ path: String) -> Bool {
        let type = CInt(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        guard let client = Descriptor(socket(AF_UNIX, type, 0)) else { return false }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: path.utf8) }
        let result = unsafe withUnsafeBytes(of: &address) { bytes in
            unsafe connect(
                client.number,
                bytes.baseAddress?.assumingMemoryBound(to: sockaddr.self),
                socklen_t(MemoryLayout<sockaddr_un>.size)
            )
        }
        return result == 0 || errno == EAGAIN
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

/// The one owner of a file descriptor.
private struct Descriptor: ~Copyable, Sendable {
    let number: CInt

    /// - Returns: `nil` for the negative number of a call that failed; `errno` says why.
    init?(_ number: CInt) {
        guard number >= 0 else { return nil }
        self.number = number
    }

    deinit {
        close(self.number)
    }
}

extension RuntimeDirectoryError {
    /// The failure of the call just made.
    fileprivate static func last(_ call: String, _ path: String) -> Self {
        .system(call: call, path: path, errno: errno)
    }
}
