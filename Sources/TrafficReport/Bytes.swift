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

    init(at offset: Int = 0) {
        self.offset = offset
    }

    @inline(__always)
    mutating func number<Number: FixedWidthInteger & UnsignedInteger>(_ bytes: Span<UInt8>) -> Number {
        let length = Number.bitWidth / 8
        defer { self.offset += length }
        guard self.offset + length <= bytes.count else { return 0 }
        let offset = self.offset
        return Number(littleEndian: bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: Number.self) })
    }

    mutating func skip(_ count: Int) { self.offset += count }
}
