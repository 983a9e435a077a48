/// Numbers of the layout; see <doc:Format>.
enum Layout {
    static let magic: [UInt8] = [0x54, 0x52, 0x46, 0x43]  // "TRFC"
    static let headerLength = 24
    static let recordHeadLength = 8
    static let messageLength = 128
    static let outcomeLength = 64
    static let connectionLength = 80
    /// Bytes of one string. Longer ones are cut between characters.
    static let longestString = 1_024

    static let none64 = UInt64.max
    static let none32 = UInt32.max

    enum RecordType: UInt16 {
        case request = 1
        case response = 2
        case outcome = 3
        case connection = 4
    }

    static let incomplete: UInt8 = 1
    static let own: UInt8 = 1
}

/// Little-endian bytes, one after the other.
struct ByteWriter {
    private(set) var bytes: [UInt8] = []

    var count: Int { self.bytes.count }

    init(capacity: Int) {
        self.bytes.reserveCapacity(capacity)
    }

    /// The memory stays.
    mutating func removeAll() {
        self.bytes.removeAll(keepingCapacity: true)
    }

    mutating func cut(to count: Int) {
        self.bytes.removeLast(self.bytes.count - count)
    }

    mutating func write<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) {
        // One by one they would be most of what a record costs.
        withUnsafeBytes(of: number.littleEndian) { self.bytes.append(contentsOf: $0) }
    }

    mutating func write(contentsOf bytes: some Sequence<UInt8>) {
        self.bytes.append(contentsOf: bytes)
    }

    /// Its length in two bytes, then UTF-8.
    mutating func write(_ string: String) {
        let bytes = string.utf8
        guard bytes.count > Layout.longestString else {
            self.write(UInt16(bytes.count))
            self.write(contentsOf: bytes)
            return
        }
        // Not in the middle of a character (RFC 3629 section 3).
        var end = bytes.index(bytes.startIndex, offsetBy: Layout.longestString)
        while bytes[end] & 0xc0 == 0x80 { end = bytes.index(before: end) }
        let kept = bytes[..<end]
        self.write(UInt16(kept.count))
        self.write(contentsOf: kept)
    }

    mutating func pad(toMultipleOf multiple: Int) {
        while self.bytes.count % multiple != 0 { self.bytes.append(0) }
    }

    mutating func overwrite<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number, at offset: Int) {
        for index in 0..<Number.bitWidth / 8 {
            self.bytes[offset + index] = UInt8(truncatingIfNeeded: number >> (8 * index))
        }
    }
}

/// Reads what ``ByteWriter`` writes, within bounds. What lies behind the end is 0: fields that an older sender did not know.
struct ByteReader {
    private(set) var offset = 0

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ bytes: Span<UInt8>) -> Number {
        let length = Number.bitWidth / 8
        defer { self.offset += length }
        guard self.offset + length <= bytes.count else { return 0 }
        let offset = self.offset
        return Number(littleEndian: bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) })
    }

    /// - Returns: `nil` where it does not fit. What is no UTF-8 is replaced.
    mutating func string(_ bytes: Span<UInt8>) -> String? {
        guard self.offset + 2 <= bytes.count else { return nil }
        let count = Int(self.number(bytes) as UInt16)
        guard count <= Layout.longestString, self.offset + count <= bytes.count else { return nil }
        var characters: [UInt8] = []
        characters.reserveCapacity(count)
        for index in self.offset..<self.offset + count { characters.append(bytes[index]) }
        self.offset += count
        return String(decoding: characters, as: UTF8.self)
    }
}
