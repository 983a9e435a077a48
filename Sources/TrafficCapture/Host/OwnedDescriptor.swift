import Glibc

/// An open file descriptor with one owner. The descriptor is closed when the value goes away.
package struct OwnedDescriptor: ~Copyable {
    package let descriptor: Int32

    /// - Parameter descriptor: Ownership passes to the new value.
    package init(owning descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` from `open(2)`.
    package init(path: String, flags: Int32 = O_RDONLY) throws(CaptureError) {
        // A file that this makes is for its owner alone.
        self.descriptor = try check("open", path) { open(path, flags | O_CLOEXEC, 0o600) }
    }

    deinit {
        close(self.descriptor)
    }

    /// - Returns: The descriptor. The caller closes it.
    consuming func release() -> Int32 {
        let descriptor = self.descriptor
        discard self
        return descriptor
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` if the disk is full. Bytes written before stay.
    package borrowing func writeAll(_ bytes: some Sequence<UInt8>, name: String) throws(CaptureError) {
        let bytes = Array(bytes)
        var written = 0
        while written < bytes.count {
            written += try check("write", name) {
                bytes.withUnsafeBytes { write(self.descriptor, $0.baseAddress! + written, bytes.count - written) }
            }
        }
    }

    /// Reads to the end, `chunk` bytes at a time, and hands each piece to `body`. Waits for data if the descriptor is
    /// blocking.
    ///
    /// `EAGAIN` is not the end: a BPF iterator stops after a million objects without output, and the next read
    /// continues there (`MAX_ITER_OBJECTS` in bpf_seq_read()).
    package borrowing func readAll(
        chunk: Int,
        name: String,
        _ body: (RawSpan) throws(CaptureError) -> Void
    ) throws(CaptureError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: chunk, alignment: 8)
        defer { buffer.deallocate() }
        while true {
            let count = try check("read", name, goingOnAfter: EAGAIN) {
                read(self.descriptor, buffer.baseAddress, chunk)
            }
            if count == 0 { return }
            try body(RawSpan(_unsafeBytes: UnsafeRawBufferPointer(rebasing: buffer[0..<count])))
        }
    }
}

/// The contents of a small file (under /proc or /sys), or `nil` if the file can't be read.
///
/// - Parameter limit: Bytes after which the file is cut. A process decides how long its `/proc/PID/cmdline` is: with
///   `prctl(PR_SET_MM_MAP)` it can name a mapping of terabytes.
package func contents(ofFile path: String, atMost limit: Int = 1 << 24) -> [UInt8]? {
    guard let file = try? OwnedDescriptor(path: path) else { return nil }
    var bytes: [UInt8] = []
    while bytes.count < limit {
        let wanted = min(16_384, limit - bytes.count)
        let piece = try? [UInt8](unsafeUninitializedCapacity: wanted) { buffer, count throws(CaptureError) in
            count = try check("read", path) { read(file.descriptor, buffer.baseAddress, wanted) }
        }
        guard let piece else { return nil }
        if piece.isEmpty { break }
        bytes += piece
    }
    return bytes
}

package func text(ofFile path: String) -> String? {
    contents(ofFile: path).map { String(decoding: $0, as: UTF8.self) }
}
