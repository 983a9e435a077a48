/// Writes values one after the other, without names: each type codes its fields in one order, and the decoder reads
/// them in that order.
///
/// - Integers: 7 bits a byte, the lowest first, the highest bit set if more follow (LEB128). Signed ones as 0, -1, 1,
///   -2, 2 and so on. One byte for those of 8 bits.
/// - Optional values: a byte 0, or a byte 1 and the value.
/// - Texts: their length, and UTF-8.
/// - Collections: the number of their elements in 4 bytes, and the elements.
/// - Cases with associated values: their name, and the values.
///
/// Dictionaries whose keys are `String` or `Int` are not supported: they code their keys as names.
final class CheckpointEncoder: Encoder {
    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private var bytes: [UInt8]

    /// - Parameter header: How many bytes to leave free at the beginning.
    init(after header: Int) {
        self.bytes = [UInt8](repeating: 0, count: header)
    }

    /// The encoder is of no use any more.
    func takeBytes() -> [UInt8] {
        defer { self.bytes = [] }
        return self.bytes
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        // The keys of an enumeration have no numbers, and those of a dictionary have.
        assert(Key(intValue: 0) == nil, "a dictionary with names as its keys")
        return KeyedEncodingContainer(CheckpointFields(encoder: self))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer { CheckpointElements(encoder: self) }

    func singleValueContainer() -> any SingleValueEncodingContainer { CheckpointValue(encoder: self) }

    // MARK: Values

    func write(_ isPresent: Bool) { self.bytes.append(isPresent ? 1 : 0) }

    func write<Number: FixedWidthInteger & UnsignedInteger>(_ number: Number) {
        guard Number.bitWidth > 8 else {
            self.bytes.append(UInt8(truncatingIfNeeded: number))
            return
        }
        var rest = number
        while rest >= 0x80 {
            self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        self.bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    func write<Number: FixedWidthInteger & SignedInteger>(_ number: Number) {
        self.write(Number.Magnitude(truncatingIfNeeded: number << 1 ^ number >> (Number.bitWidth - 1)))
    }

    func write(_ number: Double) { self.write(number.bitPattern) }

    func write(_ number: Float) { self.write(number.bitPattern) }

    func write(_ text: String) {
        var text = text
        text.withUTF8 { utf8 in
            self.write(UInt(utf8.count))
            self.bytes.append(contentsOf: utf8)
        }
    }

    func write(_ bytes: InlineArray<16, UInt8>) {
        for index in bytes.indices { self.bytes.append(bytes[index]) }
    }

    func write<Value: Encodable>(_ value: Value) throws {
        if try !self.writeKnown(value) { try value.encode(to: self) }
    }

    /// - Parameter write: Writes the value, if there is one.
    @inline(__always)
    func write<Value>(ifPresent value: Value?, _ write: (Value) throws -> Void) rethrows {
        self.write(value != nil)
        if let value { try write(value) }
    }

    // MARK: Collections

    /// - Returns: The place of a number that is 0 and will grow.
    func beginCount() -> Int {
        self.bytes.append(contentsOf: repeatElement(0, count: 4))
        return self.bytes.count - 4
    }

    func count(at place: Int) {
        for index in place..<place + 4 {
            self.bytes[index] &+= 1
            if self.bytes[index] != 0 { return }
        }
        preconditionFailure("2^32 elements")
    }
}
