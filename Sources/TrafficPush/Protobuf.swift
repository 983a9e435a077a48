/// A message of Protocol Buffers (protobuf.dev/programming-guides/encoding), in the making: what OTLP needs of them. A
/// few fields of our own choice are less than a library that knows all messages.
struct ProtobufMessage {
    private(set) var bytes: [UInt8] = []

    /// How a value is encoded.
    fileprivate enum Wire: UInt64 {
        case varint = 0
        case eightBytes = 1
        case counted = 2
        case fourBytes = 5
    }

    mutating func add(_ field: UInt64, varint value: UInt64) {
        self.tag(field, .varint)
        self.append(varint: value)
    }

    mutating func add(_ field: UInt64, fixed value: UInt64) {
        self.tag(field, .eightBytes)
        self.append(fixed: value)
    }

    mutating func add(_ field: UInt64, _ value: Double) { self.add(field, fixed: value.bitPattern) }

    mutating func add(_ field: UInt64, _ text: String) {
        self.tag(field, .counted)
        self.append(varint: UInt64(text.utf8.count))
        self.bytes += text.utf8
    }

    mutating func add(_ field: UInt64, _ message: ProtobufMessage) {
        self.tag(field, .counted)
        self.append(varint: UInt64(message.bytes.count))
        self.bytes += message.bytes
    }

    mutating func add(_ field: UInt64, packed values: [UInt64]) {
        self.tag(field, .counted)
        self.append(varint: UInt64(values.count * 8))
        for value in values { self.append(fixed: value) }
    }

    /// Fields that are encoded already.
    mutating func add(contentsOf message: ProtobufMessage) { self.bytes += message.bytes }

    private mutating func tag(_ field: UInt64, _ wire: Wire) { self.append(varint: field << 3 | wire.rawValue) }

    private mutating func append(varint value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            self.bytes.append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        self.bytes.append(UInt8(rest))
    }

    private mutating func append(fixed value: UInt64) {
        for shift in stride(from: 0, to: 64, by: 8) { self.bytes.append(UInt8(truncatingIfNeeded: value >> shift)) }
    }
}

/// The fields of a message that somebody else made.
struct ProtobufFields {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: some Collection<UInt8>) { self.rest = Array(bytes)[...] }

    /// The last value of a number.
    func number(_ field: UInt64) -> UInt64? {
        var found: UInt64?
        self.forEach { number, value in if number == field, case .number(let value) = value { found = value } }
        return found
    }

    /// The last value of a text or of a message.
    func bytes(_ field: UInt64) -> ArraySlice<UInt8>? {
        var found: ArraySlice<UInt8>?
        self.forEach { number, value in if number == field, case .bytes(let value) = value { found = value } }
        return found
    }

    private enum Value {
        case number(UInt64)
        case bytes(ArraySlice<UInt8>)
    }

    /// What comes after something that can't be read is left out.
    private func forEach(_ body: (UInt64, Value) -> Void) {
        var fields = self
        while let tag = fields.varint() {
            switch ProtobufMessage.Wire(rawValue: tag & 7) {
            case .varint:
                guard let value = fields.varint() else { return }
                body(tag >> 3, .number(value))
            case .counted:
                guard let count = fields.varint(), let bytes = fields.take(count) else { return }
                body(tag >> 3, .bytes(bytes))
            case .eightBytes: guard fields.take(8) != nil else { return }
            case .fourBytes: guard fields.take(4) != nil else { return }
            case nil: return
            }
        }
    }

    private mutating func varint() -> UInt64? {
        var value: UInt64 = 0
        for shift in stride(from: 0, to: 64, by: 7) {
            guard let byte = self.rest.popFirst() else { return nil }
            value |= UInt64(byte & 0x7f) << shift
            if byte < 0x80 { return value }
        }
        return nil
    }

    private mutating func take(_ count: UInt64) -> ArraySlice<UInt8>? {
        guard count <= UInt64(self.rest.count) else { return nil }
        defer { self.rest = self.rest.dropFirst(Int(count)) }
        return self.rest.prefix(Int(count))
    }
}
