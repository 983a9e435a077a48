/// The kept part of a line that comes in pieces or is long, until the line has ended.
///
/// A long line is counted like any other. Otherwise, behind a proxy that shares its connections, a long line could hide
/// the requests of other clients. Only the first ``longest`` bytes are kept, and the line's end, where a request has
/// its version.
struct HTTP1Line {
    /// Bytes that are kept of a line, without its end.
    static let longest = 8_192
    /// ` HTTP/1.1`.
    private static let endBytes = 9

    /// Without the line's end.
    private(set) var kept: [UInt8] = []
    private(set) var isCut = false
    // `hasSpace`: of the bytes that were not kept. `hasColon`, `hasName`: of these and all bytes before them.
    private var hasSpace = false
    private var hasColon = false
    private var hasName = true

    var isEmpty: Bool { self.kept.isEmpty }

    mutating func append(_ piece: Span<UInt8>) {
        let limit = Self.longest + Self.endBytes
        let room = min(limit - self.kept.count, piece.count)
        self.kept.append(contentsOf: piece.extracting(first: room), to: limit)
        guard room < piece.count else { return }
        // The bytes that were the end so far are now in the middle.
        var passed = Array(self.kept[Self.longest...])
        passed.append(contentsOf: piece.extracting(room...), to: .max)
        if !self.isCut {
            self.isCut = true
            let kept = self.kept
            self.judge(kept.span.extracting(first: Self.longest))
            self.hasSpace = false
        }
        self.judge(passed.span.extracting(droppingLast: Self.endBytes))
        self.kept.replaceSubrange(Self.longest..., with: passed.suffix(Self.endBytes))
    }

    private mutating func judge(_ bytes: Span<UInt8>) {
        if bytes.index(of: UInt8(ascii: " "), in: bytes.indices) < bytes.count { self.hasSpace = true }
        guard !self.hasColon else { return }
        let colon = bytes.index(of: UInt8(ascii: ":"), in: bytes.indices)
        self.hasColon = colon < bytes.count
        self.hasName = self.hasName && bytes.extracting(first: colon).isToken
    }

    /// Whether the bytes that were not kept are allowed there. In a request's line they must not have a space, which
    /// ends the target. A field's line must have a name and a colon.
    ///
    /// - Parameter kind: The message whose first line this is; `nil`: the line is a field.
    func isPossible(_ kind: HTTP1Scanner.Kind?) -> Bool {
        guard self.isCut else { return true }
        switch kind {
        case .request: return !self.hasSpace
        case .response: return true
        case nil:
            var whole = self
            whole.judge(self.kept.span.extracting(last: Self.endBytes))
            return whole.hasColon && whole.hasName
        }
    }
}
