import NIOCore

/// What was written on a channel and the kernel has not taken yet, oldest first.
///
/// How much that is the channel says (`bufferedWritableBytes`): to the byte, also of a buffer that was taken in part before a reset. A promise
/// for each write would say it of whole writes, and costs more than to read the messages: NIO chains them.
struct PendingWrites {
    private var parts: [IOData] = []
    private var bytes = 0
    /// Of these, what the channel was told to send.
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
    ///   - body: Gets what the kernel has taken since the last time: whole parts, and what it took of one that is not over.
    mutating func take(leaving buffered: Int, _ body: (IOData) -> Void) {
        var left = self.bytes - buffered
        guard left > 0 else { return }
        self.bytes -= left
        self.flushedBytes -= min(left, self.flushedBytes)
        var whole = 0
        while left > 0 {
            let count = min(left, self.parts[whole].readableBytes)
            left -= count
            if count == self.parts[whole].readableBytes {
                body(self.parts[whole])
                whole += 1
            } else {
                body(self.parts[whole].takeFirst(count))
            }
        }
        if whole == self.parts.count {
            self.parts.removeAll(keepingCapacity: true)
        } else {
            self.parts.removeFirst(whole)
        }
    }
}

extension IOData {
    /// - Parameter count: Bytes, of those that there are.
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
