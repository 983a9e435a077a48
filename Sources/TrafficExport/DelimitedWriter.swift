import TrafficModel

/// Writes rows as lines with a delimiter between cells, in UTF-8.
///
/// CSV (RFC 4180): each line ends with CRLF, and cells are quoted if they need quotes. If a text cell begins with `=`,
/// `+`, `-`, `@`, tab or CR, a spreadsheet would take the text for a formula, so the cell gets a leading apostrophe.
/// Otherwise any user of the host could name a process `=HYPERLINK(…)`, and a spreadsheet that opens the file would run
/// it. Only texts are changed, never numbers. The other formats have no apostrophe.
///
/// TSV, for `cut` and `awk`: each line ends with LF, and nothing is quoted. In a text, a tab is written as `\t`, a line
/// feed as `\n` and a backslash as `\\`. So a row is always one line.
///
/// Both write any other control character as `\x1b`, and what reorders a line as `\u202e`: the name of a process can't
/// send commands to a terminal, nor look like another one.
package struct DelimitedWriter {
    package enum Dialect {
        case csv, tsv
    }

    private(set) var bytes: [UInt8] = []
    private let dialect: Dialect
    private var isFirst = true

    init(_ dialect: Dialect) {
        self.dialect = dialect
    }

    mutating func endLine() {
        if self.dialect == .csv { self.bytes.append(ascii: "\r") }
        self.bytes.append(ascii: "\n")
        self.isFirst = true
    }

    private mutating func separate() {
        if self.isFirst {
            self.isFirst = false
        } else {
            self.bytes.append(ascii: self.dialect == .csv ? "," : "\t")
        }
    }

    /// A cell of any text.
    mutating func cell(_ text: String) {
        self.separate()
        switch self.dialect {
        case .csv: self.appendQuoted(text)
        case .tsv: self.appendEscaped(text)
        }
    }

    private mutating func appendEscaped(_ text: String) {
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\t": self.bytes.append(contentsOf: "\\t".utf8)
            case "\n": self.bytes.append(contentsOf: "\\n".utf8)
            case "\\": self.bytes.append(contentsOf: "\\\\".utf8)
            default: self.append(scalar)
            }
        }
    }

    /// A control character as `\\x1b`: an output may end up on a terminal, which would obey.
    private mutating func append(_ scalar: Unicode.Scalar) {
        if scalar.isBidirectionalControl {
            let digits = String(scalar.value, radix: 16)
            return self.bytes.append(
                contentsOf: ("\\u" + String(repeating: "0", count: 4 - digits.count) + digits).utf8
            )
        }
        guard scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value) else {
            if let bytes = UTF8.encode(scalar) { self.bytes.append(contentsOf: bytes) }
            return
        }
        let digits = String(scalar.value, radix: 16)
        self.bytes.append(contentsOf: ("\\x" + (digits.count < 2 ? "0" : "") + digits).utf8)
    }

    private mutating func appendQuoted(_ text: String) {
        let isFormula =
            switch text.utf8.first {
            case UInt8(ascii: "="), UInt8(ascii: "+"), UInt8(ascii: "-"), UInt8(ascii: "@"), 0x09, 0x0a, 0x0d: true
            default: false
            }
        let needsQuotes = text.utf8.contains {
            $0 == UInt8(ascii: ",") || $0 == UInt8(ascii: "\"") || $0 == 0x0a || $0 == 0x0d
        }
        if needsQuotes { self.bytes.append(ascii: "\"") }
        if isFormula { self.bytes.append(ascii: "'") }
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": self.bytes.append(contentsOf: "\"\"".utf8)
            case "\t", "\n", "\r": self.bytes.append(UInt8(scalar.value))
            default: self.append(scalar)
            }
        }
        if needsQuotes { self.bytes.append(ascii: "\"") }
    }
}

extension DelimitedWriter: FieldSink {
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
        var header = DelimitedHeader()
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
struct DelimitedHeader: FieldSink {
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
