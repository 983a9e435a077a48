import TrafficModel

/// Writes values in the wire format of Protocol Buffers (https://protobuf.dev/programming-guides/encoding/). A reader can
/// skip what it does not know, because each field says where it ends.
///
/// A field's number is the place of its name in ``names``, which belong to the bytes. So a field is known by its name, and
/// types may get, lose and move properties.
///
/// - Unsigned integers and `Bool` are `uint64`, signed integers `sint64`, floating-point numbers `double`, texts `string`.
///   A ``Timestamp`` is `sint64`, in nanoseconds. An address is `bytes`, with the port, if it has one, in two more.
/// - The small structures of which there are many for each socket are a packed `repeated uint64`. They may get further
///   numbers at their ends.
/// - A structure is a message. A case with associated values is a message with one field, which has the name of the case,
///   and is a message with these values.
/// - A collection is a message with each element as a field 1: of a dictionary, a key and then its value. An element that
///   is `nil` is an empty message.
///
/// Nothing else uses an encoder meanwhile. To check that at each access would take twice the time.
final class CheckpointEncoder: Encoder {
    /// The number of the field of an element.
    static let element = 1

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    @exclusivity(unchecked) private var bytes: [UInt8]
    /// The first has the number 1.
    @exclusivity(unchecked) private(set) var names: [String] = []
    @exclusivity(unchecked) private var numbers: [String: Int] = [:]
    @exclusivity(unchecked) private var keys = KeyNumbers()
    /// Of the value that codes itself now: the number of its field, and how many messages were open before it.
    @exclusivity(unchecked) private var value = (number: 0, base: 0)
    /// Where the open messages begin.
    @exclusivity(unchecked) private var open: [Int] = []

    /// - Parameter header: How many bytes to leave free at the beginning.
    init(after header: Int = 0) {
        self.bytes = [UInt8](repeating: 0, count: header)
    }

    /// The encoder is of no use any more.
    func takeBytes() -> [UInt8] {
        defer { self.bytes = [] }
        return self.bytes
    }

    /// Writes a field.
    func write<Value: Encodable>(_ value: Value, as number: Int) throws {
        if self.writeScalar(value, as: number) { return }
        let outer = self.value
        self.value = (number, self.open.count)
        try value.encode(to: self)
        while self.open.count > self.value.base { self.endMessage() }
        self.value = outer
    }

    // MARK: Encoder

    /// A value may ask several times, to code a part of it beside its own fields.
    func container<Key: CodingKey>(keyedBy type: Key.Type) -> KeyedEncodingContainer<Key> {
        if self.open.count == self.value.base { self.beginMessage(self.value.number) }
        return KeyedEncodingContainer(CheckpointFields(encoder: self, table: self.keys.table(of: type)))
    }

    func unkeyedContainer() -> any UnkeyedEncodingContainer {
        self.beginMessage(self.value.number)
        return CheckpointElements(encoder: self, number: Self.element)
    }

    func singleValueContainer() -> any SingleValueEncodingContainer {
        CheckpointElements(encoder: self, number: self.value.number)
    }

    // MARK: Names

    fileprivate func number(of key: some CodingKey, in table: Int) -> Int {
        self.keys.number(of: key, in: table) { self.number(of: $0) }
    }

    private func number(of name: String) -> Int {
        if let number = self.numbers[name] { return number }
        self.names.append(name)
        self.numbers[name] = self.names.count
        return self.names.count
    }

    // MARK: Bytes

    fileprivate func beginMessage(_ number: Int) {
        self.writeTag(number, .length)
        self.bytes.append(0)
        self.open.append(self.bytes.count)
    }

    private func endMessage() {
        let start = self.open.removeLast()
        let length = self.bytes.count - start
        guard length >= 0x80 else {
            self.bytes[start - 1] = UInt8(length)
            return
        }
        // Most messages are short. A longer one moves, to make room for the other bytes of its length.
        var rest = UInt64(length) >> 7
        var others: InlineArray<9, UInt8> = .init(repeating: 0)
        var count = 0
        while rest > 0 {
            others[count] = UInt8(truncatingIfNeeded: rest) | 0x80
            (rest, count) = (rest >> 7, count + 1)
        }
        others[count - 1] &= 0x7f
        self.bytes[start - 1] = UInt8(truncatingIfNeeded: length) | 0x80
        self.bytes.insert(contentsOf: (0..<count).lazy.map { others[$0] }, at: start)
    }

    private func writeTag(_ number: Int, _ type: WireType) { self.write(UInt64(number << 3) | UInt64(type.rawValue)) }

    private func write(_ number: UInt64) {
        var rest = number
        while rest >= 0x80 {
            self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        self.bytes.append(UInt8(truncatingIfNeeded: rest))
    }

    /// - Returns: `false` for a value that codes itself.
    private func writeScalar<Value>(_ value: Value, as number: Int) -> Bool {
        if let value = same(value, as: UInt64.self) {
            self.writeNumber(value, as: number)
        } else if let value = same(value, as: PayloadBytes.self) {
            self.writePacked([value.sent, value.received], as: number)
        } else if let value = same(value, as: WireTotals.self) {
            self.writePacked([value.sent, value.received, value.estimated], as: number)
        } else if let value = same(value, as: WireBytes.self) {
            self.writePacked([value.payload, value.headers, value.bare, value.control], as: number)
        } else if let value = same(value, as: PayloadRates.self) {
            self.writePacked([value.sent.bitPattern, value.received.bitPattern], as: number)
        } else if let value = same(value, as: ProcessIdentity.self) {
            let pid = UInt64(UInt32(bitPattern: value.pid))
            self.writePacked([pid, value.startBoottimeNanoseconds], as: number)
        } else if let value = same(value, as: SocketAddress.self) {
            self.writeAddress(value.address, port: value.port, as: number)
        } else if let value = same(value, as: Int.self) {
            self.writeSigned(Int64(value), as: number)
        } else if let value = same(value, as: Bool.self) {
            self.writeNumber(value ? 1 : 0, as: number)
        } else if let value = same(value, as: String.self) {
            self.writeText(value, as: number)
        } else if let value = same(value, as: UInt32.self) {
            self.writeNumber(UInt64(value), as: number)
        } else if let value = same(value, as: UInt16.self) {
            self.writeNumber(UInt64(value), as: number)
        } else if let value = same(value, as: UInt8.self) {
            self.writeNumber(UInt64(value), as: number)
        } else if let value = same(value, as: Int32.self) {
            self.writeSigned(Int64(value), as: number)
        } else if let value = same(value, as: Int64.self) {
            self.writeSigned(value, as: number)
        } else if let value = same(value, as: UInt.self) {
            self.writeNumber(UInt64(value), as: number)
        } else if let value = same(value, as: Int16.self) {
            self.writeSigned(Int64(value), as: number)
        } else if let value = same(value, as: Int8.self) {
            self.writeSigned(Int64(value), as: number)
        } else if let value = same(value, as: Double.self) {
            self.writeDouble(value, as: number)
        } else if let value = same(value, as: Float.self) {
            self.writeDouble(Double(value), as: number)
        } else if let value = same(value, as: Timestamp.self) {
            self.writeSigned(value.nanosecondsSinceEpoch, as: number)
        } else if let value = same(value, as: InternetAddress.self) {
            self.writeAddress(value, port: nil, as: number)
        } else {
            return false
        }
        return true
    }

    fileprivate func writeNumber(_ value: UInt64, as number: Int) {
        self.writeTag(number, .varint)
        self.write(value)
    }

    private func writeSigned(_ value: Int64, as number: Int) {
        self.writeNumber(UInt64(bitPattern: value << 1 ^ value >> 63), as: number)
    }

    private func writePacked<let count: Int>(_ numbers: InlineArray<count, UInt64>, as number: Int) {
        self.beginMessage(number)
        for index in numbers.indices { self.write(numbers[index]) }
        self.endMessage()
    }

    private func writeAddress(_ address: InternetAddress, port: UInt16?, as number: Int) {
        self.beginMessage(number)
        for index in address.bytes.indices { self.bytes.append(address.bytes[index]) }
        if let port { self.bytes += [UInt8(port >> 8), UInt8(port & 0xff)] }
        self.endMessage()
    }

    private func writeDouble(_ value: Double, as number: Int) {
        self.writeTag(number, .fixed64)
        withUnsafeBytes(of: value.bitPattern.littleEndian) { self.bytes.append(contentsOf: $0) }
    }

    private func writeText(_ text: String, as number: Int) {
        var text = text
        text.withUTF8 { utf8 in
            self.writeTag(number, .length)
            self.write(UInt64(utf8.count))
            self.bytes.append(contentsOf: utf8)
        }
    }
}

/// The fields of a value. Of the primitive types, the protocol's own methods for values that may be missing call
/// `encode(_:forKey:)` if there is a value.
private struct CheckpointFields<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: CheckpointEncoder
    /// `nil`: these are the entries of a dictionary whose keys are texts or `Int`.
    let table: Int?

    var codingPath: [any CodingKey] { [] }

    private func number(of key: Key) throws -> Int {
        if let table { return self.encoder.number(of: key, in: table) }
        try self.encoder.write(key.stringValue, as: CheckpointEncoder.element)
        return CheckpointEncoder.element
    }

    func encode<Value: Encodable>(_ value: Value, forKey key: Key) throws {
        try self.encoder.write(value, as: self.number(of: key))
    }

    /// Most fields are such numbers, and without this, each needs the generic way.
    func encode(_ value: UInt64, forKey key: Key) throws {
        self.encoder.writeNumber(value, as: try self.number(of: key))
    }

    func encodeNil(forKey key: Key) {}

    /// Enumerations code a case with associated values like this.
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        self.encoder.beginMessage(self.table.map { self.encoder.number(of: key, in: $0) } ?? CheckpointEncoder.element)
        return self.encoder.container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { unsupported() }

    func superEncoder() -> any Encoder { unsupported() }

    func superEncoder(forKey key: Key) -> any Encoder { unsupported() }
}

/// The elements of a collection, or the one value that a value consists of.
private struct CheckpointElements: UnkeyedEncodingContainer, SingleValueEncodingContainer {
    let encoder: CheckpointEncoder
    let number: Int

    var codingPath: [any CodingKey] { [] }
    /// Nobody asks.
    var count: Int { unsupported() }

    func encode<Value: Encodable>(_ value: Value) throws { try self.encoder.write(value, as: self.number) }

    /// In a list with elements that may be `nil`, none may be an empty text or an empty list: it would be read as `nil`.
    func encodeNil() { self.encoder.writeEmptyMessage(self.number) }

    func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        unsupported()
    }

    func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { unsupported() }

    func superEncoder() -> any Encoder { unsupported() }
}

extension CheckpointEncoder {
    fileprivate func writeEmptyMessage(_ number: Int) {
        self.beginMessage(number)
        self.endMessage()
    }
}
