import NIOCore
import NIOHPACK

/// The fields of a header block in their order, each with the number of bytes of its encoded form (RFC 7541 section 6).
package struct HTTP2Fields {
    private let headers: HPACKHeaders
    private let block: [UInt8]

    /// - Returns: `nil` if the block does not have as many fields as `headers`.
    fileprivate init?(_ headers: HPACKHeaders, of block: [UInt8]) {
        var (lengths, count) = (HTTP2FieldLengths(of: block), 0)
        while lengths.next() != nil { count += 1 }
        guard count == headers.count else { return nil }
        (self.headers, self.block) = (headers, block)
    }

    package func forEach(_ body: (_ name: String, _ value: String, _ bytes: UInt64) -> Void) {
        var lengths = HTTP2FieldLengths(of: self.block)
        for (name, value, _) in self.headers { body(name, value, lengths.next() ?? 0) }
    }
}

/// Decodes the header blocks of one direction of a connection. The decoder must decode every block. If it left out one
/// block, its table would differ from the sender's (RFC 7541 section 3), and it might take a secret for a path.
package struct HTTP2FieldDecoder {
    /// The largest header list in bytes. Known libraries refuse much smaller lists already: above 16 kB, as a rule.
    private static let longestList = 1 << 20
    /// The largest size in bytes to which a receiver may let the sender's table grow. This decoder must follow any size
    /// that the two sides agree on.
    private static let largestTable = 1 << 20

    private var hpack: HPACKDecoder
    private var hasFailed = false
    /// The current block. The memory is used again, and the bytes are overwritten with zeros.
    private var buffer = ByteBuffer()
    /// In bytes. The memory of a larger block is released.
    private static let largestKept = 16_384

    package init() {
        self.hpack = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
            maxHeaderListSize: Self.longestList
        )
        self.hpack.maxDynamicTableLength = Self.largestTable
    }

    /// - Returns: `nil` if this is no header block. Then no later block can be decoded.
    package mutating func decode(_ block: [UInt8]) -> HTTP2Fields? {
        guard !self.hasFailed else { return nil }
        self.buffer.clear()
        self.buffer.writeBytes(block)
        defer {
            if block.count > Self.largestKept {
                self.buffer = ByteBuffer()
            } else {
                self.buffer.setRepeatingByte(0, count: block.count, at: 0)
            }
        }
        let fields = (try? self.hpack.decodeHeaders(from: &self.buffer)).flatMap { HTTP2Fields($0, of: block) }
        self.hasFailed = fields == nil
        return fields
    }
}

/// The length of each field of a header block. RFC 7541 section 6 defines it without the tables.
struct HTTP2FieldLengths: Sequence, IteratorProtocol {
    private let block: [UInt8]
    private var index = 0

    init(of block: [UInt8]) {
        self.block = block
    }

    mutating func next() -> UInt64? {
        while self.index < self.block.count {
            let start = self.index
            let first = self.block[start]
            switch first {
            case 0b1000_0000...:
                self.skipNumber(prefix: 7)
            case 0b0010_0000..<0b0100_0000:
                // A change of the table's size, which is no field.
                self.skipNumber(prefix: 5)
                continue
            default:
                let name = self.skipNumber(prefix: first & 0b0100_0000 != 0 ? 6 : 4)
                if name == 0 { self.skipString() }
                self.skipString()
            }
            return UInt64(self.index - start)
        }
        return nil
    }

    /// RFC 7541 section 5.1.
    @discardableResult
    private mutating func skipNumber(prefix: Int) -> Int {
        guard self.index < self.block.count else { return 0 }
        let mask = (1 << prefix) - 1
        var number = Int(self.block[self.index]) & mask
        self.index += 1
        guard number == mask else { return number }
        var shift = 0
        while self.index < self.block.count {
            let byte = self.block[self.index]
            self.index += 1
            if shift < 28 { number += Int(byte & 0x7f) << shift }
            shift += 7
            if byte & 0x80 == 0 { break }
        }
        return number
    }

    /// RFC 7541 section 5.2.
    private mutating func skipString() {
        let length = self.skipNumber(prefix: 7)
        self.index = Swift.min(self.block.count, self.index + length)
    }
}
