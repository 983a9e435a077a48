import Glibc
import NIOCore

/// A file that appears under its name when it is complete, and not at all otherwise: written beside it, synced, renamed.
///
/// What exists and is no plain file, such as a pipe or `/dev/stdout`, can't be replaced so and is written to as it is.
struct NewFile: ~Copyable {
    private let path: String
    /// `nil` for what is written to in place.
    private let temporaryPath: String?
    private let descriptor: Int32

    /// - Throws: `Failure.notWritten` where the directory, or the thing in its place, can't be written to.
    init(path: String) throws(Failure) {
        var status = stat()
        if unsafe stat(path, &status) == 0, status.st_mode & S_IFMT != S_IFREG {
            self.descriptor = open(path, O_WRONLY | O_CLOEXEC)
            self.path = path
            self.temporaryPath = nil
        } else {
            // Behind a symbolic link, the file and not the link is replaced.
            let target = Self.resolved(path)
            var template = Array((target + ".XXXXXX").utf8CString)
            self.descriptor = unsafe mkstemp(&template)
            self.path = target
            self.temporaryPath = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
        guard self.descriptor >= 0 else { throw .notWritten(path: path, error: errno) }
        if self.temporaryPath != nil {
            // mkstemp makes it 0600; what others may read is up to the umask, as for any other file.
            let mask = umask(0)
            umask(mask)
            fchmod(self.descriptor, 0o666 & ~mask)
        }
    }

    private static func resolved(_ path: String) -> String {
        guard let resolved = unsafe realpath(path, nil) else { return path }
        defer { unsafe free(resolved) }
        return unsafe String(cString: resolved)
    }

    /// - Throws: `Failure.notWritten`.
    func write(_ buffer: ByteBuffer) throws(Failure) {
        let (descriptor, path) = (self.descriptor, self.path)
        let result = buffer.withUnsafeReadableBytes { bytes in
            Result { () throws(Failure) in try unsafe writeAll(bytes, to: descriptor, path: path) }
        }
        try result.get()
    }

    /// Gives the file its name.
    ///
    /// - Throws: `Failure.notWritten` where the disk is full or broken; the file that had the name before is still there then.
    consuming func commit() throws(Failure) {
        guard let temporaryPath = self.temporaryPath else { return }
        guard fsync(self.descriptor) == 0, unsafe rename(temporaryPath, self.path) == 0 else {
            throw .notWritten(path: self.path, error: errno)
        }
    }

    deinit {
        if self.descriptor >= 0 { close(self.descriptor) }
        // After a commit the name is gone already.
        if let temporaryPath { unlink(temporaryPath) }
    }
}
