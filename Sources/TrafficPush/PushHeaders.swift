import NIOHTTP1

/// Fields that a file adds to each request, such as a token.
enum PushHeaders {
    /// - Parameter text: `Name: value` in each line. Empty lines and those that begin with `#` are skipped.
    /// - Returns: `nil` if a line is not like that.
    static func parse(_ text: String) -> HTTPHeaders? {
        var headers = HTTPHeaders()
        for line in text.split(whereSeparator: \.isNewline) {
            let line = line.trimmed
            guard !line.isEmpty, line.first != "#" else { continue }
            guard let colon = line.firstIndex(of: ":") else { return nil }
            let (name, value) = (line[..<colon], line[line.index(after: colon)...].trimmed)
            guard !name.isEmpty, name.utf8.allSatisfy(Self.isToken), value.utf8.allSatisfy({ $0 >= 0x20 && $0 < 0x7f })
            else { return nil }
            headers.add(name: String(name), value: String(value))
        }
        return headers
    }

    /// RFC 9110 section 5.6.2.
    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

extension Substring {
    fileprivate var trimmed: Substring {
        let start = self.drop { $0 == " " || $0 == "\t" }
        return start.lastIndex { $0 != " " && $0 != "\t" }.map { start[...$0] } ?? ""
    }
}
