import NIOCore

/// Written ciphertext that the kernel has not taken, oldest first.
///
/// One value, because Swift enforces exclusive access to each property of a handler at run time. A part keeps its
/// number, so what was meant for earlier parts never concerns later ones, whatever is dropped or removed meanwhile.
struct PendingCiphertext {
    /// With the bytes of plaintext in each part.
    private var parts: [(buffer: ByteBuffer, plaintext: Int)] = []
    /// The number of the first part.
    private var first = 0
    private var bytes = 0
    /// How many of the parts the channel was told to send.
    private var flushed = 0

    var isEmpty: Bool { self.parts.isEmpty }

    /// - Returns: The number of the part.
    mutating func append(_ buffer: ByteBuffer) -> Int {
        self.parts.append((buffer, 0))
        self.bytes += buffer.readableBytes
        return self.first + self.parts.count - 1
    }

    /// - Parameter plaintext: Returns the bytes of plaintext that are in no earlier part. Called if a part is new.
    mutating func flush(_ plaintext: () -> Int) {
        guard self.flushed < self.parts.count else { return }
        self.parts[self.parts.count - 1].plaintext += plaintext()
        self.flushed = self.parts.count
    }

    /// - Parameter buffered: Bytes that the channel has left.
    /// - Returns: The number of the first part of which the kernel has not taken every byte.
    func taken(_ buffered: Int) -> Int {
        var (taken, count) = (self.bytes - buffered, 0)
        while count < self.parts.count, self.parts[count].buffer.readableBytes <= taken {
            taken -= self.parts[count].buffer.readableBytes
            count += 1
        }
        return self.first + count
    }

    /// - Parameter end: A part with this number or a higher one stays.
    mutating func removeFirst(before end: Int) -> (buffer: ByteBuffer, plaintext: Int)? {
        guard self.first < end, !self.parts.isEmpty else { return nil }
        // Nearly always there is one part.
        let part = self.parts.count == 1 ? self.parts.removeLast() : self.parts.removeFirst()
        self.first += 1
        self.bytes -= part.buffer.readableBytes
        self.flushed -= min(1, self.flushed)
        return part
    }

    mutating func drop() {
        (self.first, self.parts, self.bytes, self.flushed) = (self.first + self.parts.count, [], 0, 0)
    }
}
