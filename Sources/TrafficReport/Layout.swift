/// The numbers of the layout; see <doc:Format>.
enum Layout {
    static let magic: [UInt8] = [0x54, 0x52, 0x46, 0x43]  // "TRFC"
    static let headerLength = 24
    static let recordHeadLength = 8
    static let messageLength = 128
    static let outcomeLength = 72
    static let connectionLength = 80
    /// Bytes of one string, at most. A longer string is cut between two characters.
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
    static let first: UInt8 = 1

    /// Writes each text as its length in two bytes, then UTF-8. A text that is too long is cut between two characters
    /// (RFC 3629 section 3).
    static func encode(_ texts: [String]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(texts.reduce(0) { $0 + 2 + min($1.utf8.count, self.longestString) })
        for var text in texts {
            text.withUTF8 { text in
                let count = self.room(for: text)
                bytes.append(UInt8(truncatingIfNeeded: count))
                bytes.append(UInt8(truncatingIfNeeded: count >> 8))
                bytes.append(contentsOf: text[..<count])
            }
        }
        return bytes
    }

    /// - Parameter text: UTF-8.
    /// - Returns: The number of its bytes that fit into a string.
    private static func room(for text: UnsafeBufferPointer<UInt8>) -> Int {
        guard text.count > self.longestString else { return text.count }
        var count = self.longestString
        while text[count] & 0xc0 == 0x80 { count -= 1 }
        return count
    }

    /// Cuts a text as ``encode(_:)`` does, so that writing and reading it does not change it.
    static func cut(_ text: consuming String) -> String {
        guard text.utf8.count > self.longestString else { return text }
        return text.withUTF8 { String(decoding: $0[..<self.room(for: $0)], as: UTF8.self) }
    }
}

/// Writes little-endian bytes one after the other. The memory must have room for them: ``ReportWriter`` checks this.
struct ByteWriter {
    private let memory: UnsafeMutableRawBufferPointer
    private(set) var offset: Int

    init(_ memory: UnsafeMutableRawBufferPointer, at offset: Int) {
        self.memory = memory
        self.offset = offset
    }

    @inline(__always)
    mutating func write<Number: FixedWidthInteger & UnsignedInteger & BitwiseCopyable>(_ number: Number) {
        self.memory.storeBytes(of: number.littleEndian, toByteOffset: self.offset, as: Number.self)
        self.offset += MemoryLayout<Number>.size
    }

    mutating func write(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes {
            UnsafeMutableRawBufferPointer(rebasing: self.memory[self.offset..<self.offset + $0.count]).copyMemory(
                from: $0
            )
        }
        self.offset += bytes.count
    }

    mutating func fill(to end: Int) {
        while self.offset < end { self.write(UInt8(0)) }
    }
}

/// Reads the bytes that ``ByteWriter`` writes, within bounds. A number beyond the end is 0: an older sender did not
/// know that field.
struct ByteReader {
    private(set) var offset = 0

    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ bytes: Span<UInt8>) -> Number {
        let length = Number.bitWidth / 8
        defer { self.offset += length }
        guard self.offset + length <= bytes.count else { return 0 }
        let offset = self.offset
        return Number(littleEndian: bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) })
    }

    /// - Returns: `nil` if the string does not fit. Bytes that are not UTF-8 are replaced; a text that becomes too long
    ///   is cut.
    mutating func string(_ bytes: Span<UInt8>) -> String? {
        guard self.offset + 2 <= bytes.count else { return nil }
        let count = Int(self.number(bytes) as UInt16)
        guard count <= Layout.longestString, self.offset + count <= bytes.count else { return nil }
        var characters: [UInt8] = []
        characters.reserveCapacity(count)
        for index in self.offset..<self.offset + count { characters.append(bytes[index]) }
        self.offset += count
        return Layout.cut(String(decoding: characters, as: UTF8.self))
    }
}
