/// The fields of a value.
struct CheckpointFields<Key: CodingKey>: KeyedEncodingContainerProtocol {
    let encoder: CheckpointEncoder

    var codingPath: [any CodingKey] { [] }

    func encodeNil(forKey key: Key) { self.encoder.write(false) }

    func superEncoder() -> any Encoder { self.encoder }

    func superEncoder(forKey key: Key) -> any Encoder { self.encoder }

    /// Enumerations code a case with associated values like this.
    func nestedContainer<Nested: CodingKey>(
        keyedBy type: Nested.Type,
        forKey key: Key
    ) -> KeyedEncodingContainer<Nested> {
        self.encoder.write(key.stringValue)
        return self.encoder.container(keyedBy: type)
    }

    func nestedUnkeyedContainer(forKey key: Key) -> any UnkeyedEncodingContainer { self.encoder.unkeyedContainer() }

    func encode(_ value: some Encodable, forKey key: Key) throws { try self.encoder.write(value) }

    func encodeIfPresent(_ value: (some Encodable)?, forKey key: Key) throws {
        try self.encoder.write(ifPresent: value) { try self.encoder.write($0) }
    }

    func encode(_ value: Bool, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: String, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Double, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Float, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Int, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Int8, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Int16, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Int32, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: Int64, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: UInt, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: UInt8, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: UInt16, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: UInt32, forKey key: Key) { self.encoder.write(value) }
    func encode(_ value: UInt64, forKey key: Key) { self.encoder.write(value) }

    func encodeIfPresent(_ value: Bool?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: String?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Double?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Float?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Int?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Int8?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Int16?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Int32?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: Int64?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: UInt?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: UInt8?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: UInt16?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: UInt32?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }

    func encodeIfPresent(_ value: UInt64?, forKey key: Key) {
        self.encoder.write(ifPresent: value) { self.encoder.write($0) }
    }
}

/// The elements of a collection.
struct CheckpointElements: UnkeyedEncodingContainer {
    private let encoder: CheckpointEncoder
    private let place: Int
    private(set) var count = 0

    init(encoder: CheckpointEncoder) {
        self.encoder = encoder
        self.place = encoder.beginCount()
    }

    var codingPath: [any CodingKey] { [] }

    private mutating func next() -> CheckpointEncoder {
        self.count += 1
        self.encoder.count(at: self.place)
        return self.encoder
    }

    mutating func encodeNil() { self.next().write(false) }

    mutating func superEncoder() -> any Encoder { self.next() }

    mutating func nestedContainer<Nested: CodingKey>(keyedBy type: Nested.Type) -> KeyedEncodingContainer<Nested> {
        self.next().container(keyedBy: type)
    }

    mutating func nestedUnkeyedContainer() -> any UnkeyedEncodingContainer { self.next().unkeyedContainer() }

    mutating func encode(_ value: some Encodable) throws { try self.next().write(value) }

    mutating func encode(_ value: Bool) { self.next().write(value) }
    mutating func encode(_ value: String) { self.next().write(value) }
    mutating func encode(_ value: Double) { self.next().write(value) }
    mutating func encode(_ value: Float) { self.next().write(value) }
    mutating func encode(_ value: Int) { self.next().write(value) }
    mutating func encode(_ value: Int8) { self.next().write(value) }
    mutating func encode(_ value: Int16) { self.next().write(value) }
    mutating func encode(_ value: Int32) { self.next().write(value) }
    mutating func encode(_ value: Int64) { self.next().write(value) }
    mutating func encode(_ value: UInt) { self.next().write(value) }
    mutating func encode(_ value: UInt8) { self.next().write(value) }
    mutating func encode(_ value: UInt16) { self.next().write(value) }
    mutating func encode(_ value: UInt32) { self.next().write(value) }
    mutating func encode(_ value: UInt64) { self.next().write(value) }
}

/// A value that consists of one other value.
struct CheckpointValue: SingleValueEncodingContainer {
    let encoder: CheckpointEncoder

    var codingPath: [any CodingKey] { [] }

    func encodeNil() { self.encoder.write(false) }

    /// Only `Optional` codes a value of any type like this.
    func encode(_ value: some Encodable) throws {
        self.encoder.write(true)
        try self.encoder.write(value)
    }

    func encode(_ value: Bool) { self.encoder.write(value) }
    func encode(_ value: String) { self.encoder.write(value) }
    func encode(_ value: Double) { self.encoder.write(value) }
    func encode(_ value: Float) { self.encoder.write(value) }
    func encode(_ value: Int) { self.encoder.write(value) }
    func encode(_ value: Int8) { self.encoder.write(value) }
    func encode(_ value: Int16) { self.encoder.write(value) }
    func encode(_ value: Int32) { self.encoder.write(value) }
    func encode(_ value: Int64) { self.encoder.write(value) }
    func encode(_ value: UInt) { self.encoder.write(value) }
    func encode(_ value: UInt8) { self.encoder.write(value) }
    func encode(_ value: UInt16) { self.encoder.write(value) }
    func encode(_ value: UInt32) { self.encoder.write(value) }
    func encode(_ value: UInt64) { self.encoder.write(value) }
}
