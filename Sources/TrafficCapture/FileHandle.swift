import Glibc

/// An open file descriptor with one owner; closed when that goes away.
package struct FileHandle: ~Copyable {
    package let descriptor: Int32

    /// - Parameter descriptor: Ownership passes to the new value.
    package init(owning descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// - Throws: ``CaptureError/system(call:object:errno:)`` from `open(2)`.
    package init(path: String, flags: Int32 = O_RDONLY) throws(CaptureError) {
        self.descriptor = try check("open", path) { open(path, flags | O_CLOEXEC) }
    }

    deinit {
        close(self.descriptor)
    }

    /// Reads to the end, `chunk` bytes at a time, and hands each piece to `body`. Waits where the descriptor is one that waits.
    ///
    /// `EAGAIN` is no end: an iterator of BPF breaks off after a million objects of which nothing was written, and goes on from there at the
    /// next read (`MAX_ITER_OBJECTS` in bpf_seq_read()).
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

/// A whole small file (under /proc or /sys), or `nil` where it can't be read.
package func contents(ofFile path: String) -> [UInt8]? {
    guard let file = try? FileHandle(path: path) else { return nil }
    var bytes: [UInt8] = []
    let complete: Void? = try? file.readAll(chunk: 16384, name: path) { piece in
        piece.withUnsafeBytes { bytes.append(contentsOf: $0) }
    }
    return complete == nil ? nil : bytes
}

package func text(ofFile path: String) -> String? {
    contents(ofFile: path).map { String(decoding: $0, as: UTF8.self) }
}
