import TrafficModel

/// Writes JSON (RFC 8259) in one pass. It does not use the containers of Encoder, because they would take longer than
/// the rest of an export.
struct JSONWriter {
    private(set) var bytes: [UInt8] = []
    /// Whether the next member or element is the first of its container.
    private var isFirst = true

    init(capacity: Int = 0) {
        self.bytes.reserveCapacity(capacity)
    }

    private mutating func separate() {
        if self.isFirst {
            self.isFirst = false
        } else {
            self.bytes.append(ascii: ",")
        }
    }

    private mutating func key(_ name: String) {
        self.separate()
        self.bytes.append(ascii: "\"")
        self.bytes.append(contentsOf: name.utf8)
        self.bytes.append(ascii: "\"")
        self.bytes.append(ascii: ":")
    }

    private mutating func enclosed(
        by brackets: (open: Unicode.Scalar, close: Unicode.Scalar),
        _ body: (inout JSONWriter) -> Void
    ) {
        self.bytes.append(ascii: brackets.open)
        self.isFirst = true
        body(&self)
        self.isFirst = false
        self.bytes.append(ascii: brackets.close)
    }

    mutating func object(_ body: (inout JSONWriter) -> Void) {
        self.enclosed(by: ("{", "}"), body)
    }

    mutating func object(_ key: some CodingKey, _ body: (inout JSONWriter) -> Void) {
        self.key(key.stringValue)
        self.object(body)
    }

    /// A member whose name comes from data, so that the name may be any text.
    mutating func member(_ name: String, _ fields: some Row) {
        self.separate()
        self.bytes.append(jsonString: name)
        self.bytes.append(ascii: ":")
        self.object { fields.write(to: &$0) }
    }

    /// A list, absent if the reader has not asked for it.
    private mutating func array<Element>(
        _ key: some CodingKey,
        _ elements: [Element]?,
        _ write: (inout JSONWriter, Element) -> Void
    ) {
        guard let elements else { return }
        self.key(key.stringValue)
        self.enclosed(by: ("[", "]")) { writer in
            for element in elements {
                writer.separate()
                write(&writer, element)
            }
        }
    }

    mutating func rows(_ key: some CodingKey, _ rows: [some Row]?) {
        self.array(key, rows) { writer, row in writer.object { row.write(to: &$0) } }
    }

    mutating func numbers(_ key: some CodingKey, _ values: [some FixedWidthInteger]?) {
        self.array(key, values) { writer, value in writer.bytes.append(decimal: value) }
    }

    mutating func lineFeed() {
        self.bytes.append(ascii: "\n")
        self.isFirst = true
    }
}

extension JSONWriter: FieldSink {
    mutating func text(_ key: some CodingKey, _ value: String?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(jsonString: value)
    }

    mutating func word(_ key: some CodingKey, _ value: (some RawRepresentable<String>)?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(ascii: "\"")
        self.bytes.append(contentsOf: value.rawValue.utf8)
        self.bytes.append(ascii: "\"")
    }

    mutating func time(_ key: some CodingKey, _ value: Timestamp?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(ascii: "\"")
        self.bytes.append(value)
        self.bytes.append(ascii: "\"")
    }

    mutating func address(_ key: some CodingKey, _ value: InternetAddress) {
        self.key(key.stringValue)
        self.bytes.append(ascii: "\"")
        self.bytes.append(value)
        self.bytes.append(ascii: "\"")
    }

    mutating func number(_ key: some CodingKey, _ value: (some FixedWidthInteger)?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(decimal: value)
    }

    mutating func number(_ key: some CodingKey, _ value: Double?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(decimal: value)
    }

    mutating func flag(_ key: some CodingKey, _ value: Bool?) {
        guard let value else { return }
        self.key(key.stringValue)
        self.bytes.append(contentsOf: (value ? "true" : "false").utf8)
    }

    mutating func texts(_ key: some CodingKey, _ values: [String]?) {
        self.array(key, values) { writer, value in writer.bytes.append(jsonString: value) }
    }

    mutating func nested(_ key: some CodingKey, _ fields: some Row) {
        self.object(key) { fields.write(to: &$0) }
    }

    mutating func optional<Fields: Row>(_ key: some CodingKey, _ fields: Fields?, blank: Fields) {
        if let fields { self.nested(key, fields) }
    }

    mutating func words<Word: RawRepresentable<String> & Hashable>(_ key: some CodingKey, _ numbers: [Word: UInt64]) {
        self.object(key) { writer in
            for (word, number) in numbers.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                writer.key(word.rawValue)
                writer.bytes.append(decimal: number)
            }
        }
    }

    mutating func members<Word: RawRepresentable<String> & Hashable, Fields: Row>(
        _ key: some CodingKey,
        _ members: [Word: Fields],
        label: (Word, Fields) -> String
    ) {
        self.object(key) { writer in
            for (word, fields) in members.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
                writer.member(word.rawValue, fields)
            }
        }
    }

    mutating func list<Element: Row>(_ key: some CodingKey, _ elements: [Element], label: (Element) -> String) {
        self.rows(key, elements)
    }
}
