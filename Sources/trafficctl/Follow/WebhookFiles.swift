import Glibc
import NIOCore
import TrafficDocuments
import TrafficModel

/// A file that keeps which change the server has, so that the next process goes on after it.
struct PositionFile {
    let path: String

    /// - Returns: `nil` if there is no file yet.
    /// - Throws: ``Failure``.
    func load() throws(Failure) -> AlertPosition? {
        guard let text = try SmallFile.read(self.path)?.text else { return nil }
        guard let position = AlertPosition(text) else {
            throw .badFile(path: self.path, reason: "has no id of a change; remove it to begin with the next change")
        }
        return position
    }

    /// - Throws: ``Failure``.
    func save(_ position: AlertPosition) throws(Failure) {
        let file = try NewFile(path: self.path, replacesAnything: true)
        try file.write(ByteBuffer(string: "\(position)\n"))
        try file.commit()
    }
}

/// A file with a secret that the server wants to see.
enum TokenFile {
    /// - Throws: ``Failure``, also if others could read the file.
    static func load(_ path: String) throws(Failure) -> String {
        guard let file = try SmallFile.read(path) else { throw .notRead(path: path, error: ENOENT) }
        guard file.mode & 0o007 == 0 else {
            throw .badFile(path: path, reason: "is open to every user; use: chmod o= \(path)")
        }
        guard !file.text.isEmpty, file.text.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
            throw .badFile(path: path, reason: "must have one line of printable ASCII without blanks: the token")
        }
        return file.text
    }
}

private enum SmallFile {
    private static let most = 4_096

    /// - Returns: The text without the end of its line. `nil` if there is no file.
    static func read(_ path: String) throws(Failure) -> (text: String, mode: mode_t)? {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else {
            if errno == ENOENT { return nil }
            throw .notRead(path: path, error: errno)
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0 else { throw .notRead(path: path, error: errno) }
        var bytes = [UInt8](repeating: 0, count: Self.most + 1)
        let count = unsafe Glibc.read(descriptor, &bytes, bytes.count)
        guard count >= 0 else { throw .notRead(path: path, error: errno) }
        guard count <= Self.most else { throw .badFile(path: path, reason: "has more than \(Self.most) bytes") }
        var text = String(decoding: bytes[..<count], as: UTF8.self)
        if text.last?.isNewline == true { text.removeLast() }
        return (text, status.st_mode)
    }
}
