import Glibc
import NIOCore

/// A file that appears under its name when it is complete, and not at all otherwise: written beside it, synced, renamed.
struct NewFile: ~Copyable {
    private let path: String
    private let temporaryPath: String
    private let descriptor: Int32

    /// - Throws: `Failure.notWritten` where the directory can't be written to.
    init(path: String) throws(Failure) {
        var template = Array((path + ".XXXXXX").utf8CString)
        let descriptor = unsafe mkstemp(&template)
        guard descriptor >= 0 else { throw .notWritten(path: path, error: errno) }
        // mkstemp makes it 0600; what others may read is up to the umask, as for any other file.
        let mask = umask(0)
        umask(mask)
        fchmod(descriptor, 0o666 & ~mask)
        self.path = path
        self.temporaryPath = template.withUnsafeBufferPointer { buffer in
            unsafe String(decoding: buffer.dropLast().map(UInt8.init(bitPattern:)), as: UTF8.self)
        }
        self.descriptor = descriptor
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
        guard fsync(self.descriptor) == 0 else { throw .notWritten(path: self.path, error: errno) }
        guard unsafe rename(self.temporaryPath, self.path) == 0 else {
            throw .notWritten(path: self.path, error: errno)
        }
    }

    deinit {
        close(self.descriptor)
        // After a commit the name is gone already.
        unlink(self.temporaryPath)
    }
}
