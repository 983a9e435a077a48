/// Names the API that a path belongs to, so that `/users/1` and `/users/2` are one row.
///
/// In this order: the template that the app itself has (a router's), the first configured pattern that fits, `_unmatched` where the app has a
/// router and that knows no such path, and for every other path a fixed rule for each segment. It never learns, so that a path has the same
/// name in every process and at every time.
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
        self.route(of: String(target), template.map { .template($0) } ?? .path).text
    }

    /// - Returns: The path alone says it, where `isPath`: whoever asks may choose it.
    func route(of target: String, _ answer: RouteAnswer) -> (text: String, isPath: Bool) {
        if case .template(let template) = answer { return (template, false) }
        let target = target.utf8.span
        let path = target.extracting(Self.path(of: target))
        if !self.patterns.isEmpty {
            let segments = Pattern.split(String(path))
            if let pattern = self.patterns.first(where: { $0.fits(segments) }) { return (pattern.text, false) }
        }
        if answer == .unmatched { return (ServedNames.unmatched, false) }
        return target.isEqual("*") ? ("*", false) : (Self.name(of: path), true)
    }

    /// The path that a target (RFC 9112 section 3.2) has in it, in any of its forms.
    static func path(of target: String) -> String {
        let bytes = target.utf8.span
        let path = Self.path(of: bytes)
        return path.count == bytes.count ? target : String(bytes.extracting(path))
    }

    /// Without query and fragment, and without scheme and authority of the absolute form.
    private static func path(of target: Span<UInt8>) -> Range<Int> {
        let query = target.index(of: UInt8(ascii: "?"), in: target.indices)
        let end = target.index(of: UInt8(ascii: "#"), in: 0..<query)
        let slash = target.index(of: UInt8(ascii: "/"), in: 0..<end)
        guard slash > 0, slash + 1 < end, target[slash - 1] == UInt8(ascii: ":"), target[slash + 1] == UInt8(ascii: "/")
        else { return 0..<end }
        return target.index(of: UInt8(ascii: "/"), in: slash + 2..<end)..<end
    }

    /// By the fixed rules.
    private static func name(of path: Span<UInt8>) -> String {
        // A place of four letters stands for one byte at least, and has a slash before it, as that has: two bytes become five at most.
        // The first segment may have no slash, and nothing becomes one.
        String(unsafeUninitializedCapacity: 3 * path.count + 4) { memory in
            var route = ByteText(memory)
            var (index, depth) = (0, 0)
            while index < path.count {
                let end = path.index(of: UInt8(ascii: "/"), in: index..<path.count)
                defer { index = end + 1 }
                guard end > index else { continue }
                route.append("/")
                if depth == Self.deepest {
                    route.append("**")
                    return route.count
                }
                SegmentNaming.append(path.extracting(index..<end), to: &route)
                depth += 1
            }
            if depth == 0 || path.last == UInt8(ascii: "/") { route.append("/") }
            return route.count
        }
    }
}
