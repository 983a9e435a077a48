/// Decides whether a segment of a path names one thing or a kind of things, and replaces the name of one thing.
///
/// It works on bytes, because it runs for every request if each path has a different number.
enum SegmentNaming {
    private static let place: StaticString = "{id}"
    /// Bytes. A longer segment is an identifier: people do not choose such long names.
    private static let longest = 64

    static func append(_ segment: Span<UInt8>, to route: inout ByteText) {
        let form = SegmentForm(segment)
        if self.isIdentifier(segment, form) { return route.append(self.place) }
        guard form.dots > 0 else { return route.append(segment) }
        self.append(file: segment, to: &route)
    }

    /// Replaces identifiers in the name of a file: main.3f2a9c1b.js, invoice-20261.pdf, 4711.png. Versions (1.0) stay.
    private static func append(file segment: Span<UInt8>, to route: inout ByteText) {
        let dot = UInt8(ascii: ".")
        var isFile = true
        var last = segment.count
        while last > 0, segment[last - 1] != dot {
            last -= 1
            isFile = isFile && segment[last].isLetter
        }
        var index = 0
        while index <= segment.count {
            let end = segment.index(of: dot, in: index..<segment.count)
            let part = segment.extracting(index..<end)
            let form = SegmentForm(part)
            let isNumber = isFile && end + 1 == last && part.count >= 3 && form.isNumber
            let isPlace = isNumber || form.isHash(least: 8) || form.isNumbered || part.isUUID
            if isPlace { route.append(self.place) } else { route.append(part) }
            if end < segment.count { route.append(".") }
            index = end + 1
        }
    }

    private static func isIdentifier(_ segment: Span<UInt8>, _ form: SegmentForm) -> Bool {
        form.count > self.longest || form.isForeign || form.isNumber || form.isHash(least: 16) || form.isNumbered
            || form.isRandom || segment.isUUID || form.dots == 3 && segment.isAddress
    }
}

/// Counts of the kinds of bytes in a segment, made in one pass.
private struct SegmentForm {
    let count: Int
    private(set) var dots = 0
    /// The segment has bytes that names do not have: `@`, `%`, or beyond ASCII.
    private(set) var isForeign = false
    private var digits = 0
    /// Digits at the end.
    private var trailingDigits = 0
    private var letters = 0
    /// Letters from `a` to `f`, in any case.
    private var hexadecimals = 0
    /// `-` and `_`.
    private var joints = 0
    /// Bytes of dates and ranges that are not digits: `-`, `:`, `,`, `+`.
    private var separators = 0
    /// Bytes of tokens that are not letters or digits: `-`, `_`, `=`, `.`, `~`.
    private var tokens = 0
    /// Changes between cases, and between letters and digits.
    private var changes = 0

    private enum Kind {
        case lower, upper, digit, other
    }

    init(_ segment: Span<UInt8>) {
        self.count = segment.count
        var last = Kind.other
        for index in segment.indices {
            let kind = self.take(segment[index])
            self.trailingDigits = kind == .digit ? self.trailingDigits + 1 : 0
            // A word may begin with one capital letter: this is not a change.
            if kind != last && kind != .other && last != .other && !(last == .upper && kind == .lower) {
                self.changes += 1
            }
            last = kind
        }
    }

    private mutating func take(_ byte: UInt8) -> Kind {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"):
            self.digits += 1
            return .digit
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
            self.letters += 1
            if byte | 0x20 <= UInt8(ascii: "f") { self.hexadecimals += 1 }
            return byte >= UInt8(ascii: "a") ? .lower : .upper
        case UInt8(ascii: "-"):
            self.joints += 1
            self.separators += 1
            self.tokens += 1
        case UInt8(ascii: "_"):
            self.joints += 1
            self.tokens += 1
        case UInt8(ascii: "."):
            self.dots += 1
            self.tokens += 1
        case UInt8(ascii: "="), UInt8(ascii: "~"): self.tokens += 1
        case UInt8(ascii: ":"), UInt8(ascii: ","), UInt8(ascii: "+"): self.separators += 1
        case UInt8(ascii: "@"), UInt8(ascii: "%"), 0x80...: self.isForeign = true
        default: break
        }
        return .other
    }

    /// Digits, dates and ranges: 4711, 2026-11-21, 10:30, 1-20.
    var isNumber: Bool { self.digits > 0 && self.digits + self.separators == self.count }

    func isHash(least: Int) -> Bool {
        self.count >= least && self.digits > 0 && self.digits + self.hexadecimals == self.count
    }

    /// A kind and a number of at least four digits: order-12345, INV_2026001. `v2`, `http2` and `utf-8` are not
    /// numbered.
    var isNumbered: Bool {
        self.trailingDigits >= 4 && self.trailingDigits + self.letters + self.joints == self.count
    }

    /// At least 20 letters and digits (base64url, ULID, a token) with more changes between cases and digits than words
    /// have.
    var isRandom: Bool {
        self.count >= 20 && self.digits >= 2 && self.changes * 5 >= self.count
            && self.digits + self.letters + self.tokens == self.count
    }
}

extension Span<UInt8> {
    /// Whether the segment is a UUID (RFC 9562 section 4), with or without braces.
    fileprivate var isUUID: Bool {
        guard self.count == 36 || self.count == 38 else { return false }
        let start = self.count == 36 ? 0 : 1
        if start == 1, self[0] != UInt8(ascii: "{") || self[37] != UInt8(ascii: "}") { return false }
        for index in 0..<36 {
            let byte = self[start + index]
            let isHyphen = index == 8 || index == 13 || index == 18 || index == 23
            guard isHyphen ? byte == UInt8(ascii: "-") : byte.hexadecimalDigit != nil else { return false }
        }
        return true
    }

    /// Whether the segment is an IPv4 address. The caller has found three dots.
    fileprivate var isAddress: Bool {
        var index = 0
        while index <= self.count {
            let end = self.index(of: UInt8(ascii: "."), in: index..<self.count)
            guard UInt8(decimal: self.extracting(index..<end)) != nil else { return false }
            index = end + 1
        }
        return true
    }
}

extension UInt8 {
    fileprivate var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }
}

/// Writes a text into memory that the caller provides.
struct ByteText: ~Copyable {
    private let memory: UnsafeMutableBufferPointer<UInt8>
    private(set) var count = 0

    init(_ memory: UnsafeMutableBufferPointer<UInt8>) {
        self.memory = memory
    }

    mutating func append(_ bytes: Span<UInt8>) {
        bytes.withUnsafeBufferPointer { self.append($0) }
    }

    mutating func append(_ text: StaticString) {
        self.append(UnsafeBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    private mutating func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        let rest = UnsafeMutableBufferPointer(rebasing: self.memory[self.count...])
        self.count += rest.update(fromContentsOf: bytes)
    }
}
