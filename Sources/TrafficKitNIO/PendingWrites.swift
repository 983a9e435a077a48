import NIOCore

/// What was written on a channel and the kernel has not taken yet, oldest first.
///
/// How much that is the channel says (`bufferedWritableBytes`): to the byte, also of a buffer that was taken in part before a reset. A promise
/// for each write would say it of whole writes, and costs more than to read the messages: NIO chains them.
struct PendingWrites {
    enum Part {
        case bytes(ByteBuffer)
        /// Of a file, which nobody looks into.
        case unseen(Int)
    }

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

    /// - Parameter buffered: Bytes that the channel has left.
    /// - Returns: What the kernel has taken since the last time.
    mutating func take(leaving buffered: Int) -> [Part] {
        var taken: [Part] = []
        var left = self.bytes - buffered
        guard left > 0 else { return taken }
        self.bytes -= left
        self.flushedBytes -= min(left, self.flushedBytes)
        var whole = 0
        while left > 0 {
            let count = min(left, self.parts[whole].readableBytes)
            left -= count
            if count == self.parts[whole].readableBytes {
                taken.append(Part(self.parts[whole]))
                whole += 1
            } else {
                taken.append(Self.split(&self.parts[whole], count))
            }
        }
        if whole == self.parts.count {
            self.parts.removeAll(keepingCapacity: true)
        } else {
            self.parts.removeFirst(whole)
        }
        return taken
    }

    private static func split(_ data: inout IOData, _ count: Int) -> Part {
        switch data {
        case .byteBuffer(var buffer):
            let part = buffer.readSlice(length: count)!
            data = .byteBuffer(buffer)
            return .bytes(part)
        case .fileRegion(var region):
            region.moveReaderIndex(forwardBy: count)
            data = .fileRegion(region)
            return .unseen(count)
        }
    }
}

extension PendingWrites.Part {
    init(_ data: IOData) {
        switch data {
        case .byteBuffer(let buffer): self = .bytes(buffer)
        case .fileRegion(let region): self = .unseen(region.readableBytes)
        }
    }
}
