import NIOCore

/// Cuts a stream of bytes into lines. The parts of the stream need not end where lines end.
struct LineSplitter {
    private var pending = ByteBuffer()
    /// Bytes of ``pending`` that are known to have no newline.
    private var scanned = 0

    mutating func append(_ part: ByteBuffer) {
        if self.pending.readableBytes == 0 {
            self.pending = part
            self.scanned = 0
        } else {
            self.pending.writeImmutableBuffer(part)
        }
    }

    /// - Returns: The next complete line with its newline; `nil` where no line is complete.
    mutating func next() -> ByteBuffer? {
        let view = self.pending.readableBytesView
        guard let newline = view[(view.startIndex + self.scanned)...].firstIndex(of: UInt8(ascii: "\n")) else {
            self.scanned = view.count
            return nil
        }
        self.scanned = 0
        return self.pending.readSlice(length: newline - view.startIndex + 1)
    }
}
