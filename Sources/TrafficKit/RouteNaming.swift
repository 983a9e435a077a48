/// Makes the route of a path, so that `/users/1` and `/users/2` are one endpoint.
///
/// The first of these that applies names the route:
///
/// 1. The template of the app itself (of its router).
/// 2. The first configured pattern that fits.
/// 3. `_unmatched`, if the app has a router that does not know the path.
/// 4. A fixed rule for each segment.
///
/// The library never learns from paths, so a path has the same route in every process and at every time.
public struct RouteNaming: Hashable, Sendable {
    /// A path with placeholders for the segments that differ.
    public struct Pattern: Hashable, Sendable {
        fileprivate enum Segment: Hashable, Sendable {
            case literal(Substring)
            /// `{name}` or `:name`: any one segment.
            case any
            /// `**`, at the end: any number of further segments, also none.
            case rest
        }

        /// The configured text, which is the route of all paths that fit.
        public let text: String
        fileprivate let segments: [Segment]

        /// - Throws: ``InvalidPattern`` if the text does not begin with `/`, or continues after `**`.
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

    /// The number of segments that are named one by one; the rest of a path becomes `**`.
    static let deepest = 12

    private let patterns: [Pattern]

    /// - Parameter patterns: The first pattern that fits a path names its route.
    public init(patterns: [Pattern] = []) {
        self.patterns = patterns
    }

    /// - Parameters:
    ///   - target: A request's target (RFC 9112 section 3.2) in any of its forms, or a path.
    ///   - template: The app's own route of this path, without a query.
    /// - Returns: A path without query, or `*` for `OPTIONS *`. Segments that tell one caller from another are
    ///   replaced.
    public func route(of target: some StringProtocol, template: String? = nil) -> String {
        self.route(of: String(target), template.map { .template($0) } ?? .path).text
    }

    /// - Returns: `isPath`: the path alone makes the route, so the sender of the request may choose the route.
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

    /// The path in a target (RFC 9112 section 3.2) of any form.
    static func path(of target: String) -> String {
        let bytes = target.utf8.span
        let path = Self.path(of: bytes)
        return path.count == bytes.count ? target : String(bytes.extracting(path))
    }

    /// The path without query and fragment, and without scheme and authority of the absolute form.
    private static func path(of target: Span<UInt8>) -> Range<Int> {
        let query = target.index(of: UInt8(ascii: "?"), in: target.indices)
        let end = target.index(of: UInt8(ascii: "#"), in: 0..<query)
        let slash = target.index(of: UInt8(ascii: "/"), in: 0..<end)
        guard slash > 0, slash + 1 < end, target[slash - 1] == UInt8(ascii: ":"), target[slash + 1] == UInt8(ascii: "/")
        else { return 0..<end }
        return target.index(of: UInt8(ascii: "/"), in: slash + 2..<end)..<end
    }

    /// Makes the route by the fixed rules.
    private static func name(of path: Span<UInt8>) -> String {
        // `{id}` replaces at least one byte, and a slash comes before both: two bytes become five at most. The first
        // segment may have no slash, and an empty path becomes a slash.
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
