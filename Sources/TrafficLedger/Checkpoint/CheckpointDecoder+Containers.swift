/// The fields of a value.
struct CheckpointFieldReader<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: CheckpointDecoder

    var codingPath: [any CodingKey] { [] }

    /// An enumeration asks for the name of its case. Nobody else asks.
    var allKeys: [Key] { self.decoder.peekText().flatMap { Key(stringValue: $0) }.map { [$0] } ?? [] }

    func contains(_ key: Key) -> Bool { true }

    func decodeNil(forKey key: Key) throws -> Bool { try !self.decoder.readBool() }

    func superDecoder() -> any Decoder { self.decoder }

    func superDecoder(forKey key: Key) -> any Decoder { self.decoder }

    /// A case with associated values.
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        guard try self.decoder.readText() == key.stringValue else { throw self.decoder.damage }
        return self.decoder.container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
        try self.decoder.unkeyedContainer()
    }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try self.decoder.read(type)
    }

    func decodeIfPresent<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value? {
        try self.decoder.readBool() ? try self.decoder.read(type) : nil
    }

    func decode(_ type: Bool.Type, forKey key: Key) throws -> Bool { try self.decoder.readBool() }
    func decode(_ type: String.Type, forKey key: Key) throws -> String { try self.decoder.readText() }
    func decode(_ type: Double.Type, forKey key: Key) throws -> Double { try self.decoder.readDouble() }
    func decode(_ type: Float.Type, forKey key: Key) throws -> Float { try self.decoder.readFloat() }
    func decode(_ type: Int.Type, forKey key: Key) throws -> Int { try self.decoder.readNumber() }
    func decode(_ type: Int8.Type, forKey key: Key) throws -> Int8 { try self.decoder.readNumber() }
    func decode(_ type: Int16.Type, forKey key: Key) throws -> Int16 { try self.decoder.readNumber() }
    func decode(_ type: Int32.Type, forKey key: Key) throws -> Int32 { try self.decoder.readNumber() }
    func decode(_ type: Int64.Type, forKey key: Key) throws -> Int64 { try self.decoder.readNumber() }
    func decode(_ type: UInt.Type, forKey key: Key) throws -> UInt { try self.decoder.readNumber() }
    func decode(_ type: UInt8.Type, forKey key: Key) throws -> UInt8 { try self.decoder.readNumber() }
    func decode(_ type: UInt16.Type, forKey key: Key) throws -> UInt16 { try self.decoder.readNumber() }
    func decode(_ type: UInt32.Type, forKey key: Key) throws -> UInt32 { try self.decoder.readNumber() }
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try self.decoder.readNumber() }

    func decodeIfPresent(_ type: Bool.Type, forKey key: Key) throws -> Bool? {
        try self.decoder.readBool() ? try self.decoder.readBool() : nil
    }

    func decodeIfPresent(_ type: String.Type, forKey key: Key) throws -> String? {
        try self.decoder.readBool() ? try self.decoder.readText() : nil
    }

    func decodeIfPresent(_ type: Double.Type, forKey key: Key) throws -> Double? {
        try self.decoder.readBool() ? try self.decoder.readDouble() : nil
    }

    func decodeIfPresent(_ type: Float.Type, forKey key: Key) throws -> Float? {
        try self.decoder.readBool() ? try self.decoder.readFloat() : nil
    }

    func decodeIfPresent(_ type: Int.Type, forKey key: Key) throws -> Int? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: Int8.Type, forKey key: Key) throws -> Int8? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: Int16.Type, forKey key: Key) throws -> Int16? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: Int32.Type, forKey key: Key) throws -> Int32? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: Int64.Type, forKey key: Key) throws -> Int64? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: UInt.Type, forKey key: Key) throws -> UInt? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: UInt8.Type, forKey key: Key) throws -> UInt8? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: UInt16.Type, forKey key: Key) throws -> UInt16? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: UInt32.Type, forKey key: Key) throws -> UInt32? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }

    func decodeIfPresent(_ type: UInt64.Type, forKey key: Key) throws -> UInt64? {
        try self.decoder.readBool() ? try self.decoder.readNumber() : nil
    }
}

/// The elements of a collection.
struct CheckpointElementReader: UnkeyedDecodingContainer {
    private let decoder: CheckpointDecoder
    private let number: Int
    private(set) var currentIndex = 0

    /// - Throws: `DecodingError` if there can't be so many elements, because each takes a byte at least.
    init(decoder: CheckpointDecoder) throws {
        self.decoder = decoder
        self.number = try decoder.readCount()
    }

    var codingPath: [any CodingKey] { [] }
    /// Not told, so that nobody takes memory for elements before they are there.
    var count: Int? { nil }
    var isAtEnd: Bool { self.currentIndex >= self.number }

    private mutating func next() throws -> CheckpointDecoder {
        guard !self.isAtEnd else { throw self.decoder.damage }
        self.currentIndex += 1
        return self.decoder
    }

    /// Reads the element only if it is `nil`, as the protocol demands.
    mutating func decodeNil() throws -> Bool {
        guard !self.isAtEnd, self.decoder.skipNil() else { return false }
        self.currentIndex += 1
        return true
    }

    mutating func superDecoder() throws -> any Decoder { try self.next() }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> {
        try self.next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
        try self.next().unkeyedContainer()
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try self.next().read(type) }

    mutating func decode(_ type: Bool.Type) throws -> Bool { try self.next().readBool() }
    mutating func decode(_ type: String.Type) throws -> String { try self.next().readText() }
    mutating func decode(_ type: Double.Type) throws -> Double { try self.next().readDouble() }
    mutating func decode(_ type: Float.Type) throws -> Float { try self.next().readFloat() }
    mutating func decode(_ type: Int.Type) throws -> Int { try self.next().readNumber() }
    mutating func decode(_ type: Int8.Type) throws -> Int8 { try self.next().readNumber() }
    mutating func decode(_ type: Int16.Type) throws -> Int16 { try self.next().readNumber() }
    mutating func decode(_ type: Int32.Type) throws -> Int32 { try self.next().readNumber() }
    mutating func decode(_ type: Int64.Type) throws -> Int64 { try self.next().readNumber() }
    mutating func decode(_ type: UInt.Type) throws -> UInt { try self.next().readNumber() }
    mutating func decode(_ type: UInt8.Type) throws -> UInt8 { try self.next().readNumber() }
    mutating func decode(_ type: UInt16.Type) throws -> UInt16 { try self.next().readNumber() }
    mutating func decode(_ type: UInt32.Type) throws -> UInt32 { try self.next().readNumber() }
    mutating func decode(_ type: UInt64.Type) throws -> UInt64 { try self.next().readNumber() }
}

/// A value that consists of one other value.
struct CheckpointValueReader: SingleValueDecodingContainer {
    let decoder: CheckpointDecoder

    var codingPath: [any CodingKey] { [] }

    /// Only `Optional` asks, before it decodes a value of any type.
    func decodeNil() -> Bool { self.decoder.readNil() }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value { try self.decoder.read(type) }

    func decode(_ type: Bool.Type) throws -> Bool { try self.decoder.readBool() }
    func decode(_ type: String.Type) throws -> String { try self.decoder.readText() }
    func decode(_ type: Double.Type) throws -> Double { try self.decoder.readDouble() }
    func decode(_ type: Float.Type) throws -> Float { try self.decoder.readFloat() }
    func decode(_ type: Int.Type) throws -> Int { try self.decoder.readNumber() }
    func decode(_ type: Int8.Type) throws -> Int8 { try self.decoder.readNumber() }
    func decode(_ type: Int16.Type) throws -> Int16 { try self.decoder.readNumber() }
    func decode(_ type: Int32.Type) throws -> Int32 { try self.decoder.readNumber() }
    func decode(_ type: Int64.Type) throws -> Int64 { try self.decoder.readNumber() }
    func decode(_ type: UInt.Type) throws -> UInt { try self.decoder.readNumber() }
    func decode(_ type: UInt8.Type) throws -> UInt8 { try self.decoder.readNumber() }
    func decode(_ type: UInt16.Type) throws -> UInt16 { try self.decoder.readNumber() }
    func decode(_ type: UInt32.Type) throws -> UInt32 { try self.decoder.readNumber() }
    func decode(_ type: UInt64.Type) throws -> UInt64 { try self.decoder.readNumber() }
}
