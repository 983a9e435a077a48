extension CheckpointDecoder.Field {
    /// As ``CheckpointEncoder`` writes an element that is `nil`.
    fileprivate var isNil: Bool { self.type == nil || self.type == .length && self.bytes.isEmpty }
}

/// The fields of a value.
struct CheckpointFieldReader<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: CheckpointDecoder
    /// The message, and its number among all.
    let bytes: Range<Int>
    let depth: Int
    let message: Int
    let table: Int

    var codingPath: [any CodingKey] { [] }

    private func field(_ key: Key) -> CheckpointDecoder.Field {
        self.decoder.field(key, of: self.message, self.depth, self.table)
    }

    /// An enumeration asks for the name of its case. Nobody else asks.
    var allKeys: [Key] { self.decoder.names(in: self.bytes).compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { self.field(key).type != nil }

    /// The protocol's own methods for values that may be missing ask before they decode one.
    func decodeNil(forKey key: Key) -> Bool { !self.contains(key) }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try self.decoder.read(type, self.field(key), depth: self.depth + 1)
    }

    /// Most fields are such numbers, and without this, each needs the generic way.
    func decode(_ type: UInt64.Type, forKey key: Key) throws -> UInt64 { try self.decoder.number(self.field(key)) }

    /// A case with associated values.
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> {
        try self.decoder.fields(of: self.field(key), depth: self.depth + 1)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer { unsupported() }

    func superDecoder() -> any Decoder { unsupported() }

    func superDecoder(forKey key: Key) -> any Decoder { unsupported() }
}

/// The entries of a dictionary whose keys are texts.
struct CheckpointEntryReader<Key: CodingKey>: KeyedDecodingContainerProtocol {
    let decoder: CheckpointDecoder
    let entries: [String: CheckpointDecoder.Field]
    let depth: Int

    var codingPath: [any CodingKey] { [] }

    var allKeys: [Key] { self.entries.keys.compactMap { Key(stringValue: $0) } }

    func contains(_ key: Key) -> Bool { self.entries[key.stringValue] != nil }

    func decodeNil(forKey key: Key) -> Bool { self.entries[key.stringValue]?.isNil ?? true }

    func decode<Value: Decodable>(_ type: Value.Type, forKey key: Key) throws -> Value {
        try self.decoder.read(type, self.entries[key.stringValue] ?? .missing, depth: self.depth + 1)
    }

    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) throws -> KeyedDecodingContainer<Nested> { unsupported() }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedDecodingContainer { unsupported() }

    func superDecoder() -> any Decoder { unsupported() }

    func superDecoder(forKey key: Key) -> any Decoder { unsupported() }
}

/// The elements of a collection.
struct CheckpointElementReader: UnkeyedDecodingContainer {
    let decoder: CheckpointDecoder
    var bytes: Range<Int>
    let depth: Int
    private(set) var currentIndex = 0

    init(decoder: CheckpointDecoder, bytes: Range<Int>, depth: Int) {
        (self.decoder, self.bytes, self.depth) = (decoder, bytes, depth)
    }

    var codingPath: [any CodingKey] { [] }
    /// Not told, so that nobody takes memory for elements before they are there.
    var count: Int? { nil }
    var isAtEnd: Bool { self.bytes.isEmpty }

    /// - Returns: Where the element after it begins.
    private func next() throws -> (field: CheckpointDecoder.Field, end: Int) {
        guard !self.isAtEnd else { throw self.decoder.damage }
        var offset = self.bytes.lowerBound
        let (number, field) = try self.decoder.nextField(&offset, before: self.bytes.upperBound)
        guard number == CheckpointEncoder.element else { throw self.decoder.damage }
        return (field, offset)
    }

    private mutating func pass(to end: Int) {
        self.bytes = end..<self.bytes.upperBound
        self.currentIndex += 1
    }

    /// Reads the element only if it is `nil`, as the protocol demands.
    mutating func decodeNil() throws -> Bool {
        let (field, end) = try self.next()
        guard field.isNil else { return false }
        self.pass(to: end)
        return true
    }

    mutating func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        let (field, end) = try self.next()
        self.pass(to: end)
        return try self.decoder.read(type, field, depth: self.depth + 1)
    }

    mutating func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type
    ) throws -> KeyedDecodingContainer<Nested> { unsupported() }

    mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer { unsupported() }

    mutating func superDecoder() throws -> any Decoder { unsupported() }
}

/// A value that consists of one other value.
struct CheckpointValueReader: SingleValueDecodingContainer {
    let decoder: CheckpointDecoder
    let field: CheckpointDecoder.Field
    let depth: Int

    var codingPath: [any CodingKey] { [] }

    /// Only `Optional` asks, before it decodes a value of any type.
    func decodeNil() -> Bool { self.field.isNil }

    func decode<Value: Decodable>(_ type: Value.Type) throws -> Value {
        try self.decoder.read(type, self.field, depth: self.depth)
    }
}
