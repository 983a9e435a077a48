import Glibc

/// Why a file that a setting names can't be used.
public struct TrustedFileError: Error, Sendable, Hashable, CustomStringConvertible {
    public var path: String
    public var reason: String

    public init(path: String, reason: String) { (self.path, self.reason) = (path, reason) }

    public var description: String { "\(self.path): \(self.reason)" }
}

/// A file whose text the daemon obeys or keeps secret: its configuration, a token, a key, a certificate.
///
/// Only root and the daemon's own user can change what the file says: it belongs to one of them, nobody else may write it,
/// and nobody else can put another file in its place. That holds for each directory and each link that leads to the file,
/// much as sshd(8) asks it of `authorized_keys`. A directory like /tmp, which all may write, is good only with the sticky
/// bit: there nobody moves another user's files.
package enum TrustedFile {
    /// Reads a whole file, by the rights that the daemon has for files.
    ///
    /// - Parameters:
    ///   - largest: The longest file in bytes.
    ///   - isSecret: Whether the file must be readable only by its owner and its group.
    /// - Throws: ``TrustedFileError``, which says how to mend it.
    package static func read(
        _ path: String,
        largest: Int = 1 << 20,
        isSecret: Bool
    ) throws(TrustedFileError) -> [UInt8] {
        do throws(Reason) {
            let way = try Way.to(path)
            return try Self.bytes(at: way, largest: largest, isSecret: isSecret)
        } catch {
            throw TrustedFileError(path: path, reason: error.text)
        }
    }

    private static func bytes(at way: borrowing Way, largest: Int, isSecret: Bool) throws(Reason) -> [UInt8] {
        // A pipe must not make the daemon wait.
        let file = try way.open(O_RDONLY | O_NONBLOCK | O_NOCTTY)
        let status = try file.status()
        guard status.st_mode & S_IFMT == S_IFREG else { throw Reason(text: "not a regular file") }
        guard status.isOurs else {
            throw Reason(text: "belongs to user \(status.st_uid), who can change it: \(Self.remedy)")
        }
        guard status.st_mode & 0o022 == 0 else { throw Reason(text: "other users can write it: \(Self.remedy)") }
        guard !isSecret || status.st_mode & 0o007 == 0 else {
            throw Reason(
                text: "every user can read it: make a new secret, in a file without rights for others (chmod o=)"
            )
        }
        var (bytes, length) = ([UInt8](repeating: 0, count: largest + 1), 0)
        while length < bytes.count {
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe Glibc.read(file.number, buffer.baseAddress! + length, buffer.count - length)
            }
            guard count >= 0 else { throw .system(errno) }
            if count == 0 { break }
            length += count
        }
        guard length <= largest else { throw Reason(text: "longer than \(largest) bytes") }
        return Array(bytes[..<length])
    }

    /// A new file, because whoever has this one open can write it whatever its mode becomes.
    private static let remedy = "see what it says, and put a new file of root's in its place (install -m 600)"
}

private struct Reason: Error {
    var text: String

    static func system(_ error: Int32) -> Reason {
        Reason(text: "can't read it: \(unsafe String(cString: strerror(error)))")
    }
}

extension stat {
    fileprivate var isOurs: Bool { self.st_uid == 0 || self.st_uid == geteuid() }
}

/// Of open(2), which glibc has only with _GNU_SOURCE: for looks and steps, not for reading.
private let O_PATH: Int32 = 0o10_000_000

private struct Descriptor: ~Copyable {
    let number: Int32

    private init(owning number: Int32) { self.number = number }

    static func root() throws(Reason) -> Descriptor { try Self.open(Array("/".utf8), in: AT_FDCWD, O_PATH) }

    /// - Parameter name: A name in the directory. A link is not followed.
    static func open(_ name: [UInt8], in directory: Int32, _ flags: Int32) throws(Reason) -> Descriptor {
        let path = name.map(CChar.init(bitPattern:)) + [0]
        let number = unsafe openat(directory, path, flags | O_NOFOLLOW | O_CLOEXEC)
        guard number >= 0 else { throw .system(errno) }
        return Descriptor(owning: number)
    }

    deinit { close(self.number) }

    func status() throws(Reason) -> stat {
        var status = stat()
        guard unsafe fstat(self.number, &status) == 0 else { throw .system(errno) }
        return status
    }

    /// What the link says that this descriptor (O_PATH) is of.
    func target() throws(Reason) -> [UInt8] {
        var target = [CChar](repeating: 0, count: Int(PATH_MAX))
        let length = unsafe readlinkat(self.number, "", &target, target.count)
        guard length > 0 else { throw .system(errno) }
        return target[..<length].map(UInt8.init(bitPattern:))
    }
}

/// The directory that a path leads to, and the name there. Follows the path as the kernel does (path_resolution(7)), with
/// each directory open, so that nobody can put another one in its place behind the look at it.
private struct Way: ~Copyable {
    private var directory: Descriptor
    private var name = Array(".".utf8)
    /// Of the directory; for errors.
    private var path = "/"
    /// As many as the kernel follows.
    private static let mostLinks = 40

    private init(from root: consuming Descriptor) { self.directory = root }

    static func to(_ path: String) throws(Reason) -> Way {
        var way = Way(from: try .root())
        try way.follow(path)
        return way
    }

    private mutating func follow(_ path: String) throws(Reason) {
        var left = Self.names(path.utf8)
        if path.utf8.first != UInt8(ascii: "/") {
            guard let current = unsafe getcwd(nil, 0) else { throw .system(errno) }
            defer { unsafe free(current) }
            left = Self.names(unsafe String(cString: current).utf8) + left
        }
        try self.check()
        var links = 0
        while !left.isEmpty {
            let name = left.removeFirst()
            let next = try Descriptor.open(name, in: self.directory.number, O_PATH)
            let status = try next.status()
            if status.st_mode & S_IFMT == S_IFLNK {
                links += 1
                guard links <= Self.mostLinks else { throw .system(ELOOP) }
                guard status.isOurs else {
                    throw Reason(
                        text: "\(self.joined(name)) is a link of user \(status.st_uid), who can change it: make it anew"
                    )
                }
                let target = try next.target()
                if target.first == UInt8(ascii: "/") {
                    self.directory = try Descriptor.root()
                    self.path = "/"
                }
                left = Self.names(target) + left
            } else if left.isEmpty {
                self.name = name
            } else {
                guard status.st_mode & S_IFMT == S_IFDIR else { throw .system(ENOTDIR) }
                self.path = self.joined(name)
                self.directory = next
                try self.check()
            }
        }
    }

    /// Opens the file at the end.
    func open(_ flags: Int32) throws(Reason) -> Descriptor {
        try Descriptor.open(self.name, in: self.directory.number, flags)
    }

    /// Other users must not be able to put another file in this directory.
    private func check() throws(Reason) {
        let status = try self.directory.status()
        guard status.isOurs else {
            throw Reason(
                text: "\(self.path) belongs to user \(status.st_uid), who can put another file there: "
                    + "chown it to root, or move the file"
            )
        }
        guard status.st_mode & 0o022 == 0 || status.st_mode & S_ISVTX != 0 else {
            throw Reason(
                text: "other users can write \(self.path) and put another file there: chmod go-w it, or move the file"
            )
        }
    }

    private func joined(_ name: [UInt8]) -> String {
        (self.path == "/" ? "/" : self.path + "/") + String(decoding: name, as: UTF8.self)
    }

    /// By bytes: one Character may have a slash and what follows it.
    private static func names(_ path: some Sequence<UInt8>) -> [[UInt8]] {
        path.split(separator: UInt8(ascii: "/")).map(Array.init)
    }
}
