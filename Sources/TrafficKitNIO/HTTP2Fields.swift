import NIOCore
import NIOHPACK

/// A field of a header block and the bytes that it takes there, as it is encoded (RFC 7541 section 6).
struct HTTP2Field: Hashable {
    var name: String
    var value: String
    var bytes: UInt64
}

/// Decodes the header blocks of one direction of a connection. Each has to be decoded, or the next can't be.
struct HTTP2FieldDecoder {
    /// Larger ones are refused by the libraries that we see: 16 kB, as a rule.
    private static let longestList = 1 << 20
    /// What a receiver may allow the sender's table to grow to, at most. Whoever counts has to follow, whatever the two agreed on.
    private static let largestTable = 1 << 20

    private var hpack: HPACKDecoder

    init() {
        self.hpack = HPACKDecoder(
            allocator: ByteBufferAllocator(),
            maxDynamicTableSize: HPACKDecoder.maxDynamicTableSize,
            maxHeaderListSize: Self.longestList
        )
        self.hpack.maxDynamicTableLength = Self.largestTable
    }

    /// - Returns: The fields in their order. `nil`: it is no header block, and none that follows can be decoded.
    mutating func decode(_ block: [UInt8]) -> [HTTP2Field]? {
        var buffer = ByteBuffer(bytes: block)
        guard let headers = try? self.hpack.decodeHeaders(from: &buffer) else { return nil }
        let lengths = HTTP2FieldLengths(of: block).fields
        guard lengths.count == headers.count else { return nil }
        return zip(headers, lengths).map { HTTP2Field(name: $0.name, value: $0.value, bytes: $1) }
    }
}

/// How long each field of a header block is, which RFC 7541 section 6 says without its tables.
struct HTTP2FieldLengths: Hashable {
    private(set) var fields: [UInt64] = []

    init(of block: [UInt8]) {
        var index = 0
        while index < block.count {
            let start = index
            let first = block[index]
            var isField = true
            switch first {
            case 0b1000_0000...:
                Self.skipNumber(block, &index, prefix: 7)
            case 0b0010_0000..<0b0100_0000:
                isField = false  // changes the table's size
                Self.skipNumber(block, &index, prefix: 5)
            default:
                let name = Self.skipNumber(block, &index, prefix: first & 0b0100_0000 != 0 ? 6 : 4)
                if name == 0 { Self.skipString(block, &index) }
                Self.skipString(block, &index)
            }
            if isField { self.fields.append(UInt64(index - start)) }
        }
    }

    /// RFC 7541 section 5.1.
    @discardableResult
    private static func skipNumber(_ block: [UInt8], _ index: inout Int, prefix: Int) -> Int {
        guard index < block.count else { return 0 }
        let mask = (1 << prefix) - 1
        var number = Int(block[index]) & mask
        index += 1
        guard number == mask else { return number }
        var shift = 0
        while index < block.count {
            let byte = block[index]
            index += 1
            if shift < 28 { number += Int(byte & 0x7f) << shift }
            shift += 7
            if byte & 0x80 == 0 { break }
        }
        return number
    }

    /// RFC 7541 section 5.2.
    private static func skipString(_ block: [UInt8], _ index: inout Int) {
        let length = self.skipNumber(block, &index, prefix: 7)
        index = min(block.count, index + length)
    }
}
