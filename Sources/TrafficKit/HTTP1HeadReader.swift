import Glibc
import TrafficReport

/// Reads the lines of a message's head, of which it keeps what ``HTTP1Head`` says.
struct HTTP1HeadReader {
    /// Of a field's value; what is longer is counted and not kept.
    private static let longestValue = 256

    private var head = HTTP1Head()
    /// The field whose lines may go on (RFC 9112 section 5.2).
    private var field: HTTP1Field?
    /// Its value, if it is wanted and not taken yet.
    private var value: [UInt8] = []
    private var isPending = false
    // Connections say the same again and again: to compare bytes costs less than to make strings of them.
    private var request = HTTP1Head.Request.none
    /// What differs from `request`.
    private var changes = Changes()

    private struct Changes {
        var method: String?
        var target: String?
        var host: String?

        var isEmpty: Bool { self.method == nil && self.target == nil && self.host == nil }
    }

    /// A line goes on in the next one if that begins so.
    static func isContinuation(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    var mayContinue: Bool { self.field != nil }

    /// A request's or a response's first line, without its LF.
    ///
    /// - Returns: Whether it is HTTP/1.x.
    mutating func begin(_ line: Span<UInt8>, _ kind: HTTP1Scanner.Kind) -> Bool {
        self.head = HTTP1Head()
        (self.field, self.isPending) = (nil, false)
        if !self.changes.isEmpty { self.changes = Changes() }
        // No host until there is one.
        if !self.request.host.isEmpty { self.changes.host = "" }
        let end = line.last == UInt8(ascii: "\r") ? line.count - 1 : line.count
        let space = UInt8(ascii: " ")
        let first = line.index(of: space, in: 0..<end)
        let second = line.index(notOf: space, in: first..<end)
        let third = line.index(of: space, in: second..<end)
        switch kind {
        case .request:
            let fourth = line.index(notOf: space, in: third..<end)
            guard third > second, let version = Report.HTTPVersion(http1: line.extracting(fourth..<end)) else {
                return false
            }
            self.changes.method = Self.change(of: self.request.method, to: line.extracting(0..<first))
            self.changes.target = Self.change(of: self.request.target, to: line.extracting(second..<third))
            self.head.version = version
        case .response:
            guard let version = Report.HTTPVersion(http1: line.extracting(0..<first)), third - second == 3,
                let status = UInt16(decimal: line.extracting(second..<third))
            else { return false }
            self.head.status = status
            self.head.version = version
        }
        return true
    }

    /// A field's first line, without its LF.
    ///
    /// - Parameters:
    ///   - isCut: There is more of it that nobody kept.
    ///   - next: The byte behind its LF, and behind CRs; `nil`: nobody knows yet.
    /// - Returns: `nil`: it is none.
    mutating func take(_ line: Span<UInt8>, isCut: Bool, next: UInt8?) -> HTTP1Field? {
        let colon = line.index(of: UInt8(ascii: ":"), in: 0..<line.count)
        // A name has a character at least (RFC 9110 section 5.1).
        guard colon > 0, colon < line.count || isCut else { return nil }
        let field = HTTP1Field(name: line.extracting(0..<colon))
        self.field = field
        if field.isWanted {
            let start = min(colon + 1, line.count)
            let value = line.extracting(start..<min(line.count, start + Self.longestValue))
            if let next, !Self.isContinuation(next) {
                self.take(value, of: field)
            } else {
                self.value.removeAll(keepingCapacity: true)
                self.value.append(contentsOf: value, to: Self.longestValue)
                self.isPending = true
            }
        }
        return field
    }

    /// A further line of the field.
    ///
    /// - Returns: Whose.
    mutating func take(continuation line: Span<UInt8>) -> HTTP1Field? {
        if self.isPending { self.value.append(contentsOf: line, to: Self.longestValue) }
        return self.field
    }

    /// The field's lines are over.
    mutating func endField() {
        if self.isPending, let field {
            self.isPending = false
            let value = self.value
            self.take(value.span, of: field)
        }
        self.field = nil
    }

    /// The blank line has passed.
    ///
    /// - Returns: With what was asked for, which only a request says.
    mutating func end() -> (HTTP1Head, HTTP1Head.Request) {
        guard !self.changes.isEmpty else { return (self.head, self.request) }
        let request = HTTP1Head.Request(
            method: self.changes.method ?? self.request.method,
            target: self.changes.target ?? self.request.target,
            host: self.changes.host ?? self.request.host
        )
        self.changes = Changes()
        self.request = request.mayStay ? request : .none
        return (self.head, request)
    }

    private mutating func take(_ untrimmed: Span<UInt8>, of field: HTTP1Field) {
        let value = untrimmed.extracting(untrimmed.trimmed)
        switch field {
        case .host: self.changes.host = Self.change(of: self.request.host, to: value)
        case .contentType: self.head.contentClass = Report.ContentClass(mediaType: value)
        case .contentLength where self.head.contentLength == nil && !self.head.isAmbiguous:
            // Nearly always just digits.
            if let length = UInt64(decimal: value) {
                self.head.contentLength = length
            } else {
                self.head.take(.contentLength, value: String(value))
            }
        case let field: self.head.take(field, value: String(value))
        }
    }

    /// - Returns: `nil`: they are the same.
    private static func change(of text: String, to bytes: Span<UInt8>) -> String? {
        bytes.isEqual(text) ? nil : String(bytes)
    }
}
