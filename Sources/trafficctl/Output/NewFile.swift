import Glibc
import NIOCore

/// A file that gets its name only when it is complete: the data goes to a temporary file beside it, which is synced and
/// renamed.
///
/// If a path exists and is not a plain file, such as a pipe or `/dev/stdout`, the data is written into it directly, unless
/// the caller wants to replace anything.
struct NewFile: ~Copyable {
    private let path: String
    /// `nil` where the data is written directly into what exists.
    private let temporaryPath: String?
    private let descriptor: Int32

    /// - Parameter replacesAnything: Also a symbolic link or a pipe at `path` is replaced.
    /// - Throws: `Failure.notWritten` where the directory, or what exists at `path`, can't be written to.
    init(path: String, replacesAnything: Bool = false) throws(Failure) {
        var status = stat()
        let found = unsafe stat(path, &status)
        // For example a link that the kernel does not let us follow (fs.protected_symlinks, proc_sys_fs(5)).
        let isRefused = found != 0 && errno != ENOENT
        if !replacesAnything, isRefused || found == 0 && status.st_mode & S_IFMT != S_IFREG {
            self.descriptor = isRefused ? -1 : open(path, O_WRONLY | O_CLOEXEC)
            self.path = path
            self.temporaryPath = nil
        } else {
            // Otherwise, where the path is a symbolic link, the file behind the link is replaced and the link stays.
            let target = replacesAnything ? path : Self.resolved(path)
            var template = Array((target + ".XXXXXX").utf8CString)
            self.descriptor = unsafe mkstemp(&template)
            self.path = target
            self.temporaryPath = String(decoding: template.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
        guard self.descriptor >= 0 else { throw .notWritten(path: path, error: errno) }
        if self.temporaryPath != nil {
            // mkstemp makes the file with mode 0600. The umask decides what others may read, as for any other file.
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
    /// - Throws: `Failure.notWritten` where the disk is full or broken. The earlier file of that name is then still
    ///   there.
    consuming func commit() throws(Failure) {
        guard let temporaryPath = self.temporaryPath else { return }
        guard fsync(self.descriptor) == 0, unsafe rename(temporaryPath, self.path) == 0 else {
            throw .notWritten(path: self.path, error: errno)
        }
    }

    deinit {
        if self.descriptor >= 0 { close(self.descriptor) }
        // After a commit the temporary name is already gone.
        if let temporaryPath { unlink(temporaryPath) }
    }
}
