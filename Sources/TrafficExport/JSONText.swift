import TrafficModel

// Used by JSON and CSV: the ASCII of numbers, times and addresses, appended without an intermediate String.
extension [UInt8] {
    mutating func append(ascii character: Unicode.Scalar) {
        self.append(UInt8(ascii: character))
    }

    mutating func append(decimal value: some FixedWidthInteger) {
        if value < 0 { self.append(ascii: "-") }
        var rest = UInt64(value.magnitude)
        var digits = InlineArray<20, UInt8>(repeating: 0)
        var start = digits.count
        repeat {
            start -= 1
            digits[start] = UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest % 10)
            rest /= 10
        } while rest > 0
        for index in start..<digits.count { self.append(digits[index]) }
    }

    /// The shortest text that reads back as `value`. JSON has no infinities and no NaN. An infinity becomes the largest
    /// finite number with the same sign, and NaN becomes 0.
    mutating func append(decimal value: Double) {
        if let integer = Int64(exactly: value), integer.magnitude < 1 << 53 {
            self.append(decimal: integer)
        } else if value.isFinite {
            self.append(contentsOf: value.description.utf8)
        } else if value.isNaN {
            self.append(ascii: "0")
        } else {
            self.append(decimal: value > 0 ? Double.greatestFiniteMagnitude : -Double.greatestFiniteMagnitude)
        }
    }

    mutating func append(_ time: Timestamp) {
        let ascii = time.ascii
        for index in ascii.indices { self.append(ascii[index]) }
    }

    mutating func append(_ address: InternetAddress) {
        guard address.isIPv4 else {
            self.append(contentsOf: address.description.utf8)
            return
        }
        for index in 12..<16 {
            if index > 12 { self.append(ascii: ".") }
            self.append(decimal: address.bytes[index])
        }
    }

    /// A JSON string (RFC 8259 section 7), with its quotes.
    ///
    /// Besides what JSON demands, this function escapes DEL, the C1 controls, the line separators U+2028 and U+2029, and
    /// what reorders a line. So a line of NDJSON is one line for every reader, and the name of a process can't send
    /// commands to a terminal, nor look like another one.
    mutating func append(jsonString text: String) {
        self.append(ascii: "\"")
        if text.utf8.allSatisfy(\.isPlainInJSON) {
            self.append(contentsOf: text.utf8)
        } else {
            for scalar in text.unicodeScalars { self.append(jsonScalar: scalar) }
        }
        self.append(ascii: "\"")
    }

    private mutating func append(jsonScalar scalar: Unicode.Scalar) {
        switch scalar {
        case "\"": self.append(contentsOf: #"\""#.utf8)
        case "\\": self.append(contentsOf: #"\\"#.utf8)
        case "\n": self.append(contentsOf: #"\n"#.utf8)
        case "\r": self.append(contentsOf: #"\r"#.utf8)
        case "\t": self.append(contentsOf: #"\t"#.utf8)
        case _ where scalar.isEscapedInJSON:
            self.append(contentsOf: #"\u"#.utf8)
            for shift in stride(from: 12, through: 0, by: -4) {
                let digit = UInt8(truncatingIfNeeded: scalar.value >> UInt32(shift) & 0xf)
                self.append(digit < 10 ? UInt8(ascii: "0") + digit : UInt8(ascii: "a") + digit - 10)
            }
        default: self.append(contentsOf: String(scalar).utf8)
        }
    }
}

extension Unicode.Scalar {
    fileprivate var isEscapedInJSON: Bool {
        switch self {
        case "\0"..<" ", "\u{7f}"..."\u{9f}", "\u{2028}", "\u{2029}": true
        default: self.isBidirectionalControl
        }
    }
}

extension UInt8 {
    /// Whether a text of such bytes only needs no escape. The bytes 0xc2, 0xd8 and 0xe2 begin U+0080…U+009F, U+061C and
    /// U+2028, among others.
    fileprivate var isPlainInJSON: Bool {
        switch self {
        case 0..<0x20, 0x22, 0x5c, 0x7f, 0xc2, 0xd8, 0xe2: false
        default: true
        }
    }
}
