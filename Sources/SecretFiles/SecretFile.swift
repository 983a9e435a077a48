import Glibc

/// Why a file that a setting names can't be used.
public struct SecretFileError: Error, Sendable, Hashable, CustomStringConvertible {
    public var path: String
    public var reason: String

    public init(path: String, reason: String) { (self.path, self.reason) = (path, reason) }

    public var description: String { "\(self.path): \(self.reason)" }
}

/// A file that a setting names: a token, a key, a certificate.
package enum SecretFile {
    private static let longest = 1 << 20

    /// Reads a whole file, by the rights that the daemon has for files.
    ///
    /// - Parameter isSecret: Then no other user may be able to read or change it.
    /// - Throws: ``SecretFileError``.
    package static func read(_ path: String, isSecret: Bool) throws(SecretFileError) -> [UInt8] {
        // A pipe must not make the daemon wait.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else {
            throw SecretFileError(path: path, reason: unsafe String(cString: strerror(errno)))
        }
        defer { close(descriptor) }
        var status = stat()
        guard unsafe fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            throw SecretFileError(path: path, reason: "it is not a plain file")
        }
        guard !isSecret || status.st_mode & 0o007 == 0 else {
            throw SecretFileError(path: path, reason: "every user can read or change it: chmod o= \(path)")
        }
        var (bytes, length) = ([UInt8](repeating: 0, count: Self.longest + 1), 0)
        while length < bytes.count {
            let count = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe Glibc.read(descriptor, buffer.baseAddress! + length, buffer.count - length)
            }
            guard count >= 0 else { throw SecretFileError(path: path, reason: unsafe String(cString: strerror(errno))) }
            if count == 0 { break }
            length += count
        }
        guard length <= Self.longest else { throw SecretFileError(path: path, reason: "it is too large") }
        return Array(bytes[..<length])
    }
}
