import Glibc
import NIOCore

/// Standard output has no reader any more (EPIPE). The command has nothing left to do, and this is no error.
struct OutputClosed: Error {}

/// A standard stream of the process, written to without a buffer.
struct StandardStream {
    static let output = StandardStream(descriptor: STDOUT_FILENO, name: "standard output")
    static let error = StandardStream(descriptor: STDERR_FILENO, name: "standard error")

    let descriptor: Int32
    let name: String

    var isTerminal: Bool { isatty(self.descriptor) == 1 }

    /// Width of the terminal in cells; `nil` where the stream is no terminal, or the terminal does not say its width.
    var columns: Int? {
        var size = winsize()
        guard unsafe ioctl(self.descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return nil }
        return Int(size.ws_col)
    }

    /// - Throws: `OutputClosed` or `Failure.notWritten`.
    func write(_ text: String) throws {
        var text = text
        try text.withUTF8 { try self.write(UnsafeRawBufferPointer($0)) }
    }

    /// - Throws: `OutputClosed` or `Failure.notWritten`.
    func write(_ buffer: ByteBuffer) throws {
        try buffer.withUnsafeReadableBytes { try unsafe self.write($0) }
    }

    /// - Throws: `OutputClosed` or `Failure.notWritten`.
    private func write(_ bytes: UnsafeRawBufferPointer) throws {
        do throws(Failure) {
            try unsafe writeAll(bytes, to: self.descriptor, path: self.name)
        } catch .notWritten(_, EPIPE) {
            throw OutputClosed()
        }
    }
}

/// Writes all of `bytes`, with as many calls of `write(2)` as that takes.
///
/// - Throws: `Failure.notWritten` with errno and `path`.
func writeAll(_ bytes: UnsafeRawBufferPointer, to descriptor: Int32, path: String) throws(Failure) {
    var rest = unsafe bytes[...]
    while unsafe !rest.isEmpty {
        let written = unsafe Glibc.write(descriptor, UnsafeRawBufferPointer(rebasing: rest).baseAddress, rest.count)
        if written < 0 {
            if errno == EINTR { continue }
            throw .notWritten(path: path, error: errno)
        }
        unsafe rest = rest.dropFirst(written)
    }
}
