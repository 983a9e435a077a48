/// Reads what ``CheckpointEncoder`` has written. Any bytes give a value or an error: nothing is read beyond the end, and
/// no length is believed that the rest of the bytes has no room for.
///
/// No limit of depth is needed, because no type of the ledger contains itself.
final class CheckpointDecoder: Decoder {
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private let bytes: [UInt8]
    private var offset: Int

    init(_ bytes: [UInt8], from start: Int) {
        (self.bytes, self.offset) = (bytes, start)
    }

    var isAtEnd: Bool { self.offset == self.bytes.count }

    private var remaining: Int { self.bytes.count - self.offset }

    /// The error for everything that no encoder writes.
    var damage: DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "impossible value before byte \(self.offset)"))
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedDecodingContainer<Key> {
        KeyedDecodingContainer(CheckpointFieldReader(decoder: self))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer { try CheckpointElementReader(decoder: self) }

    func singleValueContainer() -> any SingleValueDecodingContainer { CheckpointValueReader(decoder: self) }

    // MARK: Values

    private func readByte() throws -> UInt8 {
        guard self.offset < self.bytes.count else { throw self.damage }
        defer { self.offset += 1 }
        return self.bytes[self.offset]
    }

    func readBool() throws -> Bool {
        switch try self.readByte() {
        case 0: false
        case 1: true
        default: throw self.damage
        }
    }

    /// - Returns: Whether a byte says that there is no value. This can't throw: if the bytes end here, the value that
    ///   should be there does.
    func readNil() -> Bool {
        guard let byte = try? self.readByte() else { return false }
        return byte == 0
    }

    /// The same, but a byte that says something else stays.
    func skipNil() -> Bool {
        guard self.offset < self.bytes.count, self.bytes[self.offset] == 0 else { return false }
        self.offset += 1
        return true
    }

    func readNumber<Number: FixedWidthInteger & UnsignedInteger>() throws -> Number {
        let first = try self.readByte()
        guard Number.bitWidth > 8, first >= 0x80 else { return Number(truncatingIfNeeded: first) }
        var (number, shift) = (Number(truncatingIfNeeded: first & 0x7f), 7)
        while true {
            let byte = try self.readByte()
            let bits = Number(truncatingIfNeeded: byte & 0x7f)
            // The last byte may have bits that the type has no room for.
            guard shift < Number.bitWidth, (bits << shift) >> shift == bits else { throw self.damage }
            number |= bits << shift
            guard byte >= 0x80 else { return number }
            shift += 7
        }
    }

    func readNumber<Number: FixedWidthInteger & SignedInteger>() throws -> Number {
        let number: Number.Magnitude = try self.readUnsigned()
        return Number(truncatingIfNeeded: number >> 1) ^ (number & 1 == 0 ? 0 : -1)
    }

    private func readUnsigned<Number: FixedWidthInteger & UnsignedInteger>() throws -> Number {
        try self.readNumber()
    }

    func readDouble() throws -> Double { Double(bitPattern: try self.readNumber()) }

    func readFloat() throws -> Float { Float(bitPattern: try self.readNumber()) }

    func readText() throws -> String {
        let count: UInt = try self.readNumber()
        guard count <= self.remaining else { throw self.damage }
        let end = self.offset + Int(count)
        guard let text = String(validating: self.bytes[self.offset..<end], as: UTF8.self) else { throw self.damage }
        self.offset = end
        return text
    }

    /// The text that comes next. It stays.
    func peekText() -> String? {
        let start = self.offset
        defer { self.offset = start }
        return try? self.readText()
    }

    func readBytes() throws -> InlineArray<16, UInt8> {
        guard self.remaining >= 16 else { throw self.damage }
        let start = self.offset
        self.offset += 16
        return InlineArray { self.bytes[start + $0] }
    }

    func read<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try self.readKnown(type) ?? Value(from: self)
    }

    // MARK: Collections

    func readCount() throws -> Int {
        var count = 0
        for shift in [0, 8, 16, 24] { count |= Int(try self.readByte()) << shift }
        guard count <= self.remaining else { throw self.damage }
        return count
    }
}
