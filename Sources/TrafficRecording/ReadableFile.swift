import Glibc

/// A plain file that is open for reading.
final class ReadableFile: Sendable {
    struct Failure: Error {
        /// errno.
        var error: Int32
    }

    private let descriptor: Int32

    /// - Throws: ``RecordingError/unreadable(path:error:)`` or ``RecordingError/notAFile(path:)``.
    init(path: String) throws(RecordingError) {
        // A pipe must not make the program wait.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
        guard descriptor >= 0 else { throw .unreadable(path: path, error: errno) }
        self.descriptor = descriptor
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw .unreadable(path: path, error: errno) }
        guard status.st_mode & S_IFMT == S_IFREG else { throw .notAFile(path: path) }
    }

    deinit { close(self.descriptor) }

    /// - Returns: Fewer bytes at the end of the file.
    func read(at offset: Int64, count: Int) -> Result<[UInt8], Failure> {
        var error: Int32 = 0
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, initialized in
            var done = 0
            repeat {
                done = pread(self.descriptor, buffer.baseAddress, buffer.count, off_t(offset))
            } while done < 0 && errno == EINTR
            if done < 0 { error = errno }
            initialized = max(0, done)
        }
        return error == 0 ? .success(bytes) : .failure(Failure(error: error))
    }
}
