import TrafficModel

/// Writes CSV (RFC 4180): CRLF after every line, cells quoted where they need it, UTF-8.
///
/// A text cell that a spreadsheet would take for a formula (it begins with `=`, `+`, `-`, `@`, tab or CR) gets a leading
/// apostrophe: any user of the host can name a process `=HYPERLINK(…)`, and whoever opens the file would run it. Only texts are
/// changed, never numbers; JSON and NDJSON carry the text as it is.
struct CSVWriter {
    private(set) var bytes: [UInt8] = []
    private var isFirst = true

    mutating func endLine() {
        self.bytes.append(ascii: "\r")
        self.bytes.append(ascii: "\n")
        self.isFirst = true
    }

    private mutating func separate() {
        if self.isFirst {
            self.isFirst = false
        } else {
            self.bytes.append(ascii: ",")
        }
    }

    /// A cell of any text.
    mutating func cell(_ text: String) {
        self.separate()
        let isFormula =
            switch text.utf8.first {
            case UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 0x09, 0x0d: true
            default: false
            }
        let needsQuotes = text.utf8.contains {
            $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "\"") || $0 == 0x0a || $0 == 0x0d
        }
        if needsQuotes { self.bytes.append(ascii: "\"") }
        if isFormula { self.bytes.append(ascii: "'") }
        for byte in text.utf8 {
            if byte == UInt8(ascii: "\"") { self.bytes.append(byte) }
            self.bytes.append(byte)
        }
        if needsQuotes { self.bytes.append(ascii: "\"") }
    }
}

extension CSVWriter: FieldSink {
    mutating func text(_ key: some CodingKey, _ value: String?) {
        self.cell(value ?? "")
    }

    mutating func word(_ key: some CodingKey, _ value: (some RawRepresentable<String>)?) {
        self.separate()
        if let value { self.bytes.append(contentsOf: value.rawValue.utf8) }
    }

    mutating func time(_ key: some CodingKey, _ value: Timestamp?) {
        self.separate()
        if let value { self.bytes.append(value) }
    }

    mutating func address(_ key: some CodingKey, _ value: InternetAddress) {
        self.separate()
        self.bytes.append(value)
    }

    mutating func number(_ key: some CodingKey, _ value: (some FixedWidthInteger)?) {
        self.separate()
        if let value { self.bytes.append(decimal: value) }
    }

    mutating func number(_ key: some CodingKey, _ value: Double?) {
        self.separate()
        if let value { self.bytes.append(decimal: value) }
    }

    mutating func flag(_ key: some CodingKey, _ value: Bool?) {
        self.separate()
        if let value { self.bytes.append(contentsOf: (value ? "true" : "false").utf8) }
    }

    mutating func texts(_ key: some CodingKey, _ values: [String]?) {
        self.cell(values?.joined(separator: " ") ?? "")
    }

    mutating func nested(_ key: some CodingKey, _ fields: some Row) {
        fields.write(to: &self)
    }

    mutating func optional<Fields: Row>(_ key: some CodingKey, _ fields: Fields?, blank: Fields) {
        if let fields { return fields.write(to: &self) }
        var header = CSVHeader()
        blank.write(to: &header)
        for _ in header.columns { self.cell("") }
    }

    mutating func words<Word: RawRepresentable<String> & Hashable>(_ key: some CodingKey, _ numbers: [Word: UInt64]) {
        self.cell(numbers.map { "\($0.key.rawValue)=\($0.value)" }.sorted().joined(separator: " "))
    }

    mutating func members<Word: RawRepresentable<String> & Hashable, Fields: Row>(
        _ key: some CodingKey,
        _ members: [Word: Fields],
        label: (Word, Fields) -> String
    ) {
        self.cell(members.map(label).sorted().joined(separator: " "))
    }

    mutating func list<Element: Row>(_ key: some CodingKey, _ elements: [Element], label: (Element) -> String) {
        self.cell(elements.map(label).joined(separator: " "))
    }

    mutating func rows(_ key: some CodingKey, _ rows: [some Row]?) {}
}

/// Collects the column names of a row.
struct CSVHeader: FieldSink {
    private(set) var columns: [String] = []
    private var prefix = ""

    private mutating func add(_ key: some CodingKey) {
        self.columns.append(self.prefix + key.stringValue)
    }

    mutating func text(_ key: some CodingKey, _ value: String?) { self.add(key) }
    mutating func word(_ key: some CodingKey, _ value: (some RawRepresentable<String>)?) { self.add(key) }
    mutating func time(_ key: some CodingKey, _ value: Timestamp?) { self.add(key) }
    mutating func address(_ key: some CodingKey, _ value: InternetAddress) { self.add(key) }
    mutating func number(_ key: some CodingKey, _ value: (some FixedWidthInteger)?) { self.add(key) }
    mutating func number(_ key: some CodingKey, _ value: Double?) { self.add(key) }
    mutating func flag(_ key: some CodingKey, _ value: Bool?) { self.add(key) }
    mutating func texts(_ key: some CodingKey, _ values: [String]?) { self.add(key) }

    mutating func nested(_ key: some CodingKey, _ fields: some Row) {
        let outer = self.prefix
        self.prefix += key.stringValue + "_"
        fields.write(to: &self)
        self.prefix = outer
    }

    mutating func optional<Fields: Row>(_ key: some CodingKey, _ fields: Fields?, blank: Fields) {
        self.nested(key, blank)
    }

    mutating func words<Word: RawRepresentable<String> & Hashable>(_ key: some CodingKey, _ numbers: [Word: UInt64]) {
        self.add(key)
    }

    mutating func members<Word: RawRepresentable<String> & Hashable, Fields: Row>(
        _ key: some CodingKey,
        _ members: [Word: Fields],
        label: (Word, Fields) -> String
    ) {
        self.add(key)
    }

    mutating func list<Element: Row>(_ key: some CodingKey, _ elements: [Element], label: (Element) -> String) {
        self.add(key)
    }

    mutating func rows(_ key: some CodingKey, _ rows: [some Row]?) {}
}
