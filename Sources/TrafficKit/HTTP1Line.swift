/// A line that comes in pieces, or is long: what is kept of it until its end has passed.
///
/// A long line is counted like any other: behind a proxy that shares its connections it would hide what others ask for. But no more of it is
/// kept than ``longest``, and its end, which is where a request says its version.
struct HTTP1Line {
    /// Bytes.
    static let longest = 8_192
    /// ` HTTP/1.1`.
    private static let endBytes = 9

    /// Without the line's end.
    private(set) var kept: [UInt8] = []
    private(set) var isCut = false
    // Of what was not kept, and of what comes before that.
    private var hasSpace = false
    private var hasColon = false
    private var hasName = true

    var isEmpty: Bool { self.kept.isEmpty }

    mutating func append(_ piece: Span<UInt8>) {
        let limit = Self.longest + Self.endBytes
        let room = min(limit - self.kept.count, piece.count)
        self.kept.append(contentsOf: piece.extracting(first: room), to: limit)
        guard room < piece.count else { return }
        // The bytes that were the end so far are in the middle now.
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

    /// What was not kept could be there: in a request's line nothing that ends its target, in a field's a name and its colon.
    ///
    /// - Parameter kind: Of the message whose first line it is; `nil`: it is a field.
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
