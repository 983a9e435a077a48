import TrafficModel

/// Reads what ``CheckpointEncoder`` has written, also of a program with other types: a field without a property is passed
/// over, and a property without a field is `nil`, 0 or empty. An enumeration or a range has no such value, and without its
/// field nothing is read.
///
/// Any bytes give a value or an error: nothing is read beyond the end. No limit of depth is needed, because no type of the
/// ledger contains itself. Accesses are as unchecked as the encoder's.
final class CheckpointDecoder: Decoder {
    /// The value of a field: where its bytes are, without the tag and the length.
    struct Field {
        /// `nil`: there is no such field.
        var type: WireType?
        var bytes: Range<Int>

        static let missing = Field(type: nil, bytes: 0..<0)
    }

    /// Where the fields of a message are. A later message of the same depth takes its place.
    private struct Index {
        /// The message.
        var bytes: Range<Int>?
        /// The number of the message among all, from 1 on.
        var number = 0
        /// By the field's number: its value, and the number of the message that it is of.
        var fields: [(field: Field, message: Int)] = []
    }

    let codingPath: [any CodingKey] = []
    let userInfo: [CodingUserInfoKey: Any] = [:]
    private let bytes: [UInt8]
    @exclusivity(unchecked) private var names: [String] = []
    @exclusivity(unchecked) private var numbers: [String: Int] = [:]
    /// A name that no field has: ``unknown``.
    @exclusivity(unchecked) private var keys = KeyNumbers()
    private static let unknown = -1
    /// A ledger has some hundreds. For each, the decoder takes memory at each depth.
    static let mostNames = 10_000
    /// Of the value that decodes itself now.
    @exclusivity(unchecked) private var value = (field: Field.missing, depth: 0)
    /// By depth.
    @exclusivity(unchecked) private var indexes: [Index] = []
    @exclusivity(unchecked) private var messages = 0

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// The error for everything that no encoder writes.
    var damage: DecodingError {
        .dataCorrupted(.init(codingPath: [], debugDescription: "bytes that mean nothing"))
    }

    /// - Parameter names: Of fields; the first has the number 1.
    func setNames(_ names: [String]) throws {
        guard names.count <= Self.mostNames else { throw self.damage }
        self.names = names
        for (index, name) in names.enumerated() {
            guard self.numbers.updateValue(index + 1, forKey: name) == nil else { throw self.damage }
        }
    }

    /// Reads the value of a field.
    func read<Value: Decodable>(_ type: Value.Type, _ field: Field, depth: Int = 0) throws -> Value {
        // Each cast is to the same type.
        if type == UInt64.self { return unsafeBitCast(try self.number(field), to: type) }
        if type == PayloadBytes.self {
            let numbers = try self.packed(field) as InlineArray<2, UInt64>
            return unsafeBitCast(PayloadBytes(sent: numbers[0], received: numbers[1]), to: type)
        }
        if type == WireTotals.self {
            let numbers = try self.packed(field) as InlineArray<3, UInt64>
            let wire = WireTotals(sent: numbers[0], received: numbers[1], estimated: numbers[2])
            return unsafeBitCast(wire, to: type)
        }
        if type == WireBytes.self {
            let numbers = try self.packed(field) as InlineArray<4, UInt64>
            let (payload, headers, bare, control) = (numbers[0], numbers[1], numbers[2], numbers[3])
            let wire = WireBytes(payload: payload, headers: headers, bare: bare, control: control)
            return unsafeBitCast(wire, to: type)
        }
        if type == PayloadRates.self {
            let numbers = try self.packed(field) as InlineArray<2, UInt64>
            let (sent, received) = (Double(bitPattern: numbers[0]), Double(bitPattern: numbers[1]))
            return unsafeBitCast(PayloadRates(sent: sent, received: received), to: type)
        }
        if type == ProcessIdentity.self {
            let numbers = try self.packed(field) as InlineArray<2, UInt64>
            let pid = Int32(bitPattern: try self.exactly(numbers[0]))
            return unsafeBitCast(ProcessIdentity(pid: pid, startBoottimeNanoseconds: numbers[1]), to: type)
        }
        if type == SocketAddress.self { return unsafeBitCast(try self.socketAddress(field), to: type) }
        if type == Int.self { return unsafeBitCast(try self.signed(field) as Int, to: type) }
        if type == Bool.self { return unsafeBitCast(try self.bool(field), to: type) }
        if type == String.self { return unsafeBitCast(try self.text(field), to: type) }
        if type == UInt32.self { return unsafeBitCast(try self.unsigned(field) as UInt32, to: type) }
        if type == UInt16.self { return unsafeBitCast(try self.unsigned(field) as UInt16, to: type) }
        if type == UInt8.self { return unsafeBitCast(try self.unsigned(field) as UInt8, to: type) }
        if type == Int32.self { return unsafeBitCast(try self.signed(field) as Int32, to: type) }
        if type == Int64.self { return unsafeBitCast(try self.signed(field) as Int64, to: type) }
        if type == UInt.self { return unsafeBitCast(try self.unsigned(field) as UInt, to: type) }
        if type == Int16.self { return unsafeBitCast(try self.signed(field) as Int16, to: type) }
        if type == Int8.self { return unsafeBitCast(try self.signed(field) as Int8, to: type) }
        if type == Double.self { return unsafeBitCast(try self.double(field), to: type) }
        if type == Float.self { return unsafeBitCast(Float(try self.double(field)), to: type) }
        if type == Timestamp.self {
            return unsafeBitCast(Timestamp(nanosecondsSinceEpoch: try self.signed(field)), to: type)
        }
        if type == InternetAddress.self { return unsafeBitCast(try self.address(field), to: type) }
        let outer = self.value
        defer { self.value = outer }
        self.value = (field, depth)
        return try Value(from: self)
    }

    /// The fields of the outermost message, by their numbers.
    func topFields(from start: Int) throws -> [Int: Field] {
        var fields: [Int: Field] = [:]
        var offset = start
        while offset < self.bytes.count {
            let (number, field) = try self.nextField(&offset, before: self.bytes.count)
            fields[number] = field
        }
        return fields
    }

    /// The next field of a message.
    ///
    /// - Parameter offset: Where it begins; then where the next one does.
    func nextField(_ offset: inout Int, before end: Int) throws -> (number: Int, field: Field) {
        let tag = try self.varint(&offset, before: end)
        guard let type = WireType(rawValue: UInt8(tag & 7)), tag >> 3 <= UInt64(Int32.max) else { throw self.damage }
        let start: Int
        switch type {
        case .varint:
            start = offset
            _ = try self.varint(&offset, before: end)
        case .fixed64:
            start = offset
            guard end - start >= 8 else { throw self.damage }
            offset += 8
        case .fixed32:
            start = offset
            guard end - start >= 4 else { throw self.damage }
            offset += 4
        case .length:
            let length = try self.varint(&offset, before: end)
            start = offset
            guard length <= UInt64(end - start) else { throw self.damage }
            offset += Int(length)
        }
        return (Int(tag >> 3), Field(type: type, bytes: start..<offset))
    }

    // MARK: Decoder

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        try self.fields(of: self.value.field, depth: self.value.depth)
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        CheckpointElementReader(decoder: self, bytes: try self.contents(of: self.value.field), depth: self.value.depth)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer {
        CheckpointValueReader(decoder: self, field: self.value.field, depth: self.value.depth)
    }

    // MARK: Messages

    /// What a message, a text or packed numbers consist of.
    private func contents(of field: Field) throws -> Range<Int> {
        guard field.type == .length || field.type == nil else { throw self.damage }
        return field.bytes
    }

    func fields<Key: CodingKey>(of field: Field, depth: Int) throws -> KeyedDecodingContainer<Key> {
        let bytes = try self.contents(of: field)
        guard let table = self.keys.table(of: Key.self) else {
            let entries = try self.entries(bytes)
            return KeyedDecodingContainer(CheckpointEntryReader(decoder: self, entries: entries, depth: depth))
        }
        let message = try self.note(fieldsIn: bytes, depth)
        let reader = CheckpointFieldReader<Key>(
            decoder: self,
            bytes: bytes,
            depth: depth,
            message: message,
            table: table
        )
        return KeyedDecodingContainer(reader)
    }

    /// - Returns: The number of the message.
    private func note(fieldsIn bytes: Range<Int>, _ depth: Int) throws -> Int {
        while self.indexes.count <= depth { self.indexes.append(Index()) }
        // A value may ask several times.
        if self.indexes[depth].bytes == bytes { return self.indexes[depth].number }
        self.messages += 1
        (self.indexes[depth].bytes, self.indexes[depth].number) = (bytes, self.messages)
        if self.indexes[depth].fields.isEmpty {
            self.indexes[depth].fields = Array(repeating: (.missing, 0), count: self.names.count + 1)
        }
        var offset = bytes.lowerBound
        while offset < bytes.upperBound {
            let (number, field) = try self.nextField(&offset, before: bytes.upperBound)
            guard number < self.indexes[depth].fields.count else { throw self.damage }
            self.indexes[depth].fields[number] = (field, self.messages)
        }
        return self.messages
    }

    func field(_ key: some CodingKey, of message: Int, _ depth: Int, _ table: Int) -> Field {
        assert(self.indexes[depth].number == message, "another message of this depth is read")
        let number = self.keys.number(of: key, in: table) { self.numbers[$0] ?? Self.unknown }
        guard number != Self.unknown, self.indexes[depth].fields[number].message == message else { return .missing }
        return self.indexes[depth].fields[number].field
    }

    /// The names of a message's fields.
    func names(in bytes: Range<Int>) -> [String] {
        var names: [String] = []
        var offset = bytes.lowerBound
        while offset < bytes.upperBound, let (number, _) = try? self.nextField(&offset, before: bytes.upperBound) {
            if number > 0 && number <= self.names.count { names.append(self.names[number - 1]) }
        }
        return names
    }

    /// Of a dictionary whose keys are texts.
    private func entries(_ bytes: Range<Int>) throws -> [String: Field] {
        var entries: [String: Field] = [:]
        var offset = bytes.lowerBound
        while offset < bytes.upperBound {
            let key = try self.text(try self.nextField(&offset, before: bytes.upperBound).field)
            entries[key] = try self.nextField(&offset, before: bytes.upperBound).field
        }
        return entries
    }

    // MARK: Values

    private func varint(_ offset: inout Int, before end: Int) throws -> UInt64 {
        var number: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            guard offset < end else { throw self.damage }
            let byte = self.bytes[offset]
            offset += 1
            let bits = UInt64(byte & 0x7f)
            // The last byte may have bits for which there is no room.
            guard (bits << shift) >> shift == bits else { throw self.damage }
            number |= bits << shift
            if byte < 0x80 { return number }
        }
        throw self.damage
    }

    func number(_ field: Field) throws -> UInt64 {
        guard let type = field.type else { return 0 }
        guard type == .varint else { throw self.damage }
        var offset = field.bytes.lowerBound
        return try self.varint(&offset, before: field.bytes.upperBound)
    }

    private func exactly<Number: FixedWidthInteger>(_ number: some FixedWidthInteger) throws -> Number {
        guard let number = Number(exactly: number) else { throw self.damage }
        return number
    }

    private func unsigned<Number: FixedWidthInteger>(_ field: Field) throws -> Number {
        try self.exactly(try self.number(field))
    }

    /// What is missing is 0, and what is too much is passed over.
    private func packed<let count: Int>(_ field: Field) throws -> InlineArray<count, UInt64> {
        let bytes = try self.contents(of: field)
        var (numbers, index, offset) = (InlineArray<count, UInt64>(repeating: 0), 0, bytes.lowerBound)
        while offset < bytes.upperBound {
            let number = try self.varint(&offset, before: bytes.upperBound)
            if index < count { numbers[index] = number }
            index += 1
        }
        return numbers
    }

    private func signed<Number: FixedWidthInteger>(_ field: Field) throws -> Number {
        let number = try self.number(field)
        return try self.exactly(Int64(bitPattern: number >> 1) ^ (number & 1 == 0 ? 0 : -1))
    }

    private func bool(_ field: Field) throws -> Bool {
        let number = try self.number(field)
        guard number <= 1 else { throw self.damage }
        return number == 1
    }

    private func double(_ field: Field) throws -> Double {
        guard let type = field.type else { return 0 }
        guard type == .fixed64 else { throw self.damage }
        return Double(bitPattern: self.bytes[field.bytes].reversed().reduce(0) { $0 << 8 | UInt64($1) })
    }

    private func text(_ field: Field) throws -> String {
        guard let text = String(validating: self.bytes[try self.contents(of: field)], as: UTF8.self) else {
            throw self.damage
        }
        return text
    }

    private func address(_ field: Field, more: Int = 0) throws -> InternetAddress {
        let bytes = try self.contents(of: field)
        guard bytes.count == 16 + more || field.type == nil else { throw self.damage }
        return InternetAddress(bytes: InlineArray { bytes.isEmpty ? 0 : self.bytes[bytes.lowerBound + $0] })
    }

    private func socketAddress(_ field: Field) throws -> SocketAddress {
        let address = try self.address(field, more: 2)
        let port = self.bytes[field.bytes].suffix(2).reduce(0) { $0 << 8 | UInt16($1) }
        return SocketAddress(address: address, port: port)
    }
}
