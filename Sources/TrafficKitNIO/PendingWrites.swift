import NIOCore
import TrafficKit

/// What was written and has not been counted yet, oldest first. With TLS this is the plaintext whose ciphertext the
/// kernel has not taken.
///
/// A channel tells how many bytes it has left (`bufferedWritableBytes`). The number is exact to the byte, also if the
/// kernel took part of a buffer before a reset. A promise for each write would tell of whole writes only. It would also
/// cost more than to read the messages, because NIO chains the promises.
struct PendingWrites {
    private var parts: [IOData] = []
    private(set) var bytes = 0
    /// The part of `bytes` that the channel was told to send.
    private(set) var flushedBytes = 0
    /// With TLS: the part of `flushedBytes` that the TLS handler has encrypted.
    private var encryptedBytes = 0
    /// With TLS: plaintext whose ciphertext the kernel has taken, but whose place is not known yet.
    private(set) var unplacedBytes = 0

    mutating func append(_ part: IOData) {
        self.bytes += part.readableBytes
        self.parts.append(part)
    }

    /// The channel was told to send something that has not been counted.
    var isOwed: Bool { self.flushedBytes > 0 }

    var isFlushed: Bool { self.flushedBytes == self.bytes }

    mutating func flush() {
        self.flushedBytes = self.bytes
    }

    /// The TLS handler has flushed ciphertext: all plaintext that was flushed is in it, or in what it wrote before.
    ///
    /// - Returns: Bytes of plaintext that no earlier ciphertext had.
    mutating func encrypt() -> Int {
        defer { self.encryptedBytes = self.flushedBytes }
        return self.flushedBytes - self.encryptedBytes
    }

    /// The kernel has taken the ciphertext of this plaintext.
    mutating func sent(encrypted count: Int) { self.unplacedBytes += count }

    /// Takes out the oldest bytes.
    ///
    /// - Parameters:
    ///   - count: Not more than were written.
    ///   - body: Gets one part after the other: a whole part, or the taken bytes of an unfinished part.
    mutating func take(_ count: Int, _ body: (borrowing IOData) -> Void) {
        var (left, whole) = (count, 0)
        while left > 0 {
            let length = self.parts[whole].readableBytes
            if length <= left {
                body(self.parts[whole])
                whole += 1
            } else {
                body(self.parts[whole].takeFirst(left))
            }
            left -= min(length, left)
        }
        if whole == self.parts.count { self.parts.removeFew() } else { self.parts.removeFirst(whole) }
        self.bytes -= count
        self.flushedBytes -= min(count, self.flushedBytes)
        self.encryptedBytes -= min(count, self.encryptedBytes)
        self.unplacedBytes -= min(count, self.unplacedBytes)
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
