import NIOCore

/// What was written and has not been counted yet, oldest first.
///
/// A channel tells how many bytes it has left (`bufferedWritableBytes`). The number is exact to the byte, also if the
/// kernel took part of a buffer before a reset. A promise for each write would tell of whole writes only. It would also
/// cost more than to read the messages, because NIO chains the promises.
struct PendingWrites {
    private var parts: [IOData] = []
    private var bytes = 0
    /// The part of `bytes` that the channel was told to send.
    private(set) var flushedBytes = 0

    mutating func append(_ part: IOData) {
        self.bytes += part.readableBytes
        self.parts.append(part)
    }

    var isFlushed: Bool { self.flushedBytes == self.bytes }

    mutating func flush() {
        self.flushedBytes = self.bytes
    }

    /// - Parameters:
    ///   - buffered: Bytes that the channel has left.
    ///   - body: Gets what the kernel has taken since the last call: whole parts, and the taken bytes of an unfinished
    ///     part.
    @inline(__always)
    mutating func take(leaving buffered: Int, _ body: (borrowing IOData) -> Void) {
        self.take(self.bytes - buffered, body)
    }

    /// - Parameters:
    ///   - count: Not more bytes than were written.
    ///   - body: As in `take(leaving:_:)`.
    @inline(__always)
    mutating func take(_ count: Int, _ body: (borrowing IOData) -> Void) {
        var left = count
        guard left > 0 else { return }
        self.bytes -= left
        self.flushedBytes -= min(left, self.flushedBytes)
        var whole = 0
        while left > 0 {
            let size = self.parts[whole].readableBytes
            if size <= left {
                body(self.parts[whole])
                whole += 1
            } else {
                body(self.parts[whole].takeFirst(left))
            }
            left -= min(left, size)
        }
        if whole == self.parts.count {
            self.parts.removeAll(keepingCapacity: true)
        } else {
            self.parts.removeFirst(whole)
        }
    }
}

extension IOData {
    /// - Parameter count: Not more than the readable bytes.
    fileprivate mutating func takeFirst(_ count: Int) -> IOData {
        switch self {
        case .byteBuffer(var buffer):
            let part = buffer.readSlice(length: count)!
            self = .byteBuffer(buffer)
            return .byteBuffer(part)
        case .fileRegion(var region):
            let end = region.readerIndex + count
            let part = FileRegion(fileHandle: region.fileHandle, readerIndex: region.readerIndex, endIndex: end)
            region.moveReaderIndex(forwardBy: count)
            self = .fileRegion(region)
            return .fileRegion(part)
        }
    }
}
