/// Names the API that a path belongs to, so that `/users/1` and `/users/2` are one row.
///
/// In this order: the template that the app itself has (a router's), the first configured pattern that fits, and for every other path a fixed
/// rule for each segment. It never learns, so that a path has the same name in every process and at every time.
public struct RouteNaming: Hashable, Sendable {
    /// A path with places for what differs.
    public struct Pattern: Hashable, Sendable {
        fileprivate enum Segment: Hashable, Sendable {
            case literal(Substring)
            /// `{name}` or `:name`: any one segment.
            case any
            /// `**`, at the end: any further segments, or none.
            case rest
        }

        /// As it was configured: the name of what it fits.
        public let text: String
        fileprivate let segments: [Segment]

        /// - Throws: ``InvalidPattern`` where it does not begin with `/`, or goes on after `**`.
        public init(_ text: String) throws(InvalidPattern) {
            guard text.hasPrefix("/") else { throw InvalidPattern(text: text, reason: "a path begins with /") }
            var segments: [Segment] = []
            for segment in Self.split(text) {
                if segments.last == .rest { throw InvalidPattern(text: text, reason: "** stands for all that follows") }
                let isPlace = segment.hasPrefix(":") || segment.hasPrefix("{") && segment.hasSuffix("}")
                segments.append(segment == "**" ? .rest : isPlace || segment == "*" ? .any : .literal(segment))
            }
            self.text = text
            self.segments = segments
        }

        fileprivate static func split(_ path: some StringProtocol) -> [Substring] {
            Substring(path).split(separator: "/", omittingEmptySubsequences: true)
        }

        fileprivate func fits(_ path: [Substring]) -> Bool {
            var index = 0
            for segment in self.segments {
                if segment == .rest { return true }
                guard index < path.count else { return false }
                if case .literal(let literal) = segment, literal != path[index] { return false }
                index += 1
            }
            return index == path.count
        }
    }

    public struct InvalidPattern: Error, Hashable, CustomStringConvertible {
        public let text: String
        public let reason: String
        public var description: String { "route pattern \(self.text): \(self.reason)" }
    }

    /// Where a path has more segments, the rest is one place.
    static let deepest = 12

    private let patterns: [Pattern]

    /// - Parameter patterns: The first that fits names the path.
    public init(patterns: [Pattern] = []) {
        self.patterns = patterns
    }

    /// - Parameters:
    ///   - target: A request's target (RFC 9112 section 3.2) in any of its forms, or a path.
    ///   - template: The app's own name for it, without a query.
    /// - Returns: A path without query, or `*` of `OPTIONS *`. What tells one caller from another is not in it.
    public func route(of target: some StringProtocol, template: String? = nil) -> String {
        if let template { return template }
        if target == "*" { return "*" }
        let path = Self.path(of: target)
        let segments = Pattern.split(path)
        if let pattern = self.patterns.first(where: { $0.fits(segments) }) { return pattern.text }
        guard !segments.isEmpty else { return "/" }
        var route = ""
        for (index, segment) in segments.enumerated() {
            route += "/"
            if index == Self.deepest {
                route += "**"
                break
            }
            route += SegmentNaming.name(of: segment)
        }
        return path.hasSuffix("/") && segments.count <= Self.deepest ? route + "/" : route
    }

    /// Without query and fragment, and without scheme and authority of the absolute form.
    private static func path(of target: some StringProtocol) -> Substring {
        var path = Substring(target).prefix { $0 != "?" && $0 != "#" }
        if let scheme = path.firstRange(of: "://"), !path[..<scheme.lowerBound].contains("/") {
            path = path[scheme.upperBound...].drop { $0 != "/" }
        }
        return path
    }
}

/// Whether a segment names a thing or a kind of things.
enum SegmentNaming {
    static let place = "{id}"
    /// Longer than people name anything.
    private static let longest = 64

    static func name(of segment: Substring) -> String {
        if self.isIdentifier(segment) { return self.place }
        // In the name of a file: main.3f2a9c1b.js, invoice-20261.pdf, 4711.png. Versions (1.0) stay.
        guard segment.contains(".") else { return String(segment) }
        let parts = segment.split(separator: ".", omittingEmptySubsequences: false)
        let isFile = parts.last?.utf8.allSatisfy(\.isLetter) == true
        return parts.enumerated().map { index, part in
            let isNumber = isFile && index == parts.count - 2 && part.utf8.count >= 3 && self.isNumber(part)
            let isPlace = isNumber || self.isHash(part, least: 8) || self.isUUID(part) || self.isNumbered(part)
            return isPlace ? self.place : String(part)
        }.joined(separator: ".")
    }

    private static func isIdentifier(_ segment: Substring) -> Bool {
        let bytes = segment.utf8
        return bytes.count > self.longest || bytes.contains(UInt8(ascii: "@")) || bytes.contains(UInt8(ascii: "%"))
            || !bytes.allSatisfy { $0 < 0x80 } || self.isNumber(segment) || self.isUUID(segment)
            || self.isHash(segment, least: 16)
            || self.isNumbered(segment) || self.isRandom(segment) || self.isAddress(segment)
    }

    /// Digits; dates and ranges too: 2026-11-21, 10:30, 1-20.
    private static func isNumber(_ segment: Substring) -> Bool {
        segment.utf8.contains(where: \.isDigit) && segment.utf8.allSatisfy { $0.isDigit || "-:,+".utf8.contains($0) }
    }

    /// RFC 9562 section 4, in braces or not.
    private static func isUUID(_ segment: Substring) -> Bool {
        let text = segment.hasPrefix("{") && segment.hasSuffix("}") ? segment.dropFirst().dropLast() : segment
        guard text.utf8.count == 36 else { return false }
        for (index, byte) in text.utf8.enumerated() {
            let isHyphen = [8, 13, 18, 23].contains(index)
            guard isHyphen ? byte == UInt8(ascii: "-") : byte.isHexadecimal else { return false }
        }
        return true
    }

    private static func isHash(_ segment: Substring, least: Int) -> Bool {
        segment.utf8.count >= least && segment.utf8.allSatisfy(\.isHexadecimal)
            && segment.utf8.contains(where: \.isDigit)
    }

    /// A kind and a number of at least four digits: order-12345, INV_2026001. `v2`, `http2` and `utf-8` stay.
    private static func isNumbered(_ segment: Substring) -> Bool {
        let digits = segment.utf8.reversed().prefix(while: \.isDigit).count
        guard digits >= 4 else { return false }
        let rest = segment.utf8.dropLast(digits)
        return rest.allSatisfy { $0.isLetter || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
    }

    /// At least 20 letters and digits (base64url, ULID, a token) that change between cases and digits more often than words do.
    private static func isRandom(_ segment: Substring) -> Bool {
        guard segment.utf8.count >= 20,
            segment.utf8.allSatisfy({ $0.isLetter || $0.isDigit || "-_=.~".utf8.contains($0) })
        else { return false }
        var changes = 0
        var digits = 0
        var last = Kind.other
        for byte in segment.utf8 {
            let kind = Kind(byte)
            if kind == .digit { digits += 1 }
            // Words begin with one capital: that is no change.
            if kind != last && kind != .other && last != .other && !(last == .upper && kind == .lower) { changes += 1 }
            last = kind
        }
        return digits >= 2 && changes * 5 >= segment.utf8.count
    }

    /// An IPv4 address.
    private static func isAddress(_ segment: Substring) -> Bool {
        let parts = segment.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.allSatisfy { UInt8($0) != nil }
    }

    private enum Kind {
        case lower, upper, digit, other

        init(_ byte: UInt8) {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"): self = .lower
            case UInt8(ascii: "A")...UInt8(ascii: "Z"): self = .upper
            case UInt8(ascii: "0")...UInt8(ascii: "9"): self = .digit
            default: self = .other
            }
        }
    }
}

extension UInt8 {
    fileprivate var isDigit: Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self) }
    fileprivate var isLetter: Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(self | 0x20) }
    fileprivate var isHexadecimal: Bool {
        self.isDigit || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(self | 0x20)
    }
}
