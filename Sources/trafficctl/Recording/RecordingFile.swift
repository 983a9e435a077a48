import Glibc
import NIOCore

/// The file that a recording is written to. It gets its name at once, so that a crash leaves what was written.
final class RecordingFile: Sendable {
    let path: String
    private let replaces: Bool
    var isStandardOutput: Bool { self.path == "-" }

    /// - Throws: `Failure` where the file exists, or can't be replaced.
    init(path: String, replaces: Bool) throws(Failure) {
        (self.path, self.replaces) = (path, replaces)
        guard !self.isStandardOutput else { return }
        var status = stat()
        if unsafe lstat(path, &status) == 0 {
            // A pipe or a link is not replaced: it may lead anywhere.
            guard status.st_mode & S_IFMT == S_IFREG else { throw .notAPlainFile(path: path) }
            guard replaces else { throw .exists(path: path) }
        } else if errno != ENOENT {
            throw .notWritten(path: path, error: errno)
        }
    }

    /// Makes the file, readable for its owner alone. Not before there is something to write, so that a daemon that does
    /// not answer costs no older recording.
    ///
    /// - Returns: Its descriptor, which the caller closes.
    /// - Throws: `Failure.notWritten`.
    func open() throws(Failure) -> Int32 {
        if self.isStandardOutput {
            let descriptor = dup(STDOUT_FILENO)
            guard descriptor >= 0 else { throw .notWritten(path: "standard output", error: errno) }
            return descriptor
        }
        if self.replaces { unlink(self.path) }
        let descriptor = Glibc.open(self.path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
        guard descriptor >= 0 else { throw .notWritten(path: self.path, error: errno) }
        return descriptor
    }
}
