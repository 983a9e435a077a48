import Glibc
import TrafficReport

/// Reads the lines of a message's head, of which it keeps what ``HTTP1Head`` says.
struct HTTP1HeadReader {
    /// Of a field's value; what is longer is counted and not kept.
    private static let longestValue = 256

    private(set) var head = HTTP1Head()
    /// The field whose lines may go on (RFC 9112 section 5.2).
    private var field: HTTP1Field?
    /// Its value, if it is wanted and not taken yet.
    private var value: [UInt8] = []
    private var isPending = false
    // Connections say the same again and again.
    private var methods = RepeatedText()
    private var targets = RepeatedText()
    private var hosts = RepeatedText()
    private var mediaTypes = RepeatedText()
    private var contentClass = Report.ContentClass.unknown

    /// A line goes on in the next one if that begins so.
    static func isContinuation(_ byte: UInt8) -> Bool { byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") }

    var mayContinue: Bool { self.field != nil }

    /// A request's or a response's first line, without its LF.
    ///
    /// - Returns: Whether it is HTTP/1.x.
    mutating func begin(_ line: Span<UInt8>, _ kind: HTTP1Scanner.Kind) -> Bool {
        self.head = HTTP1Head()
        (self.field, self.isPending) = (nil, false)
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
            self.head.method = self.methods.text(of: line.extracting(0..<first))
            self.head.target = self.targets.text(of: line.extracting(second..<third))
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
    ///   - next: The byte behind its LF; `nil`: nobody knows yet.
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
            // Behind a CR there may be the head's end, or anything.
            if let next, !Self.isContinuation(next), next != UInt8(ascii: "\r") {
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

    private mutating func take(_ untrimmed: Span<UInt8>, of field: HTTP1Field) {
        let value = untrimmed.extracting(untrimmed.trimmed)
        switch field {
        case .host: self.head.host = self.hosts.text(of: value)
        case .contentType:
            if !self.mediaTypes.isEqual(value) {
                self.contentClass = Report.ContentClass(mediaType: self.mediaTypes.text(of: value))
            }
            self.head.contentClass = self.contentClass
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
}

/// A text that is nearly always the one before: to compare bytes costs less than to make a string of them.
struct RepeatedText {
    private var last = ""

    func isEqual(_ bytes: Span<UInt8>) -> Bool {
        guard self.last.utf8.count == bytes.count else { return false }
        return self.last.utf8.withContiguousStorageIfAvailable { last in
            bytes.withUnsafeBytes { bytes in
                bytes.isEmpty || memcmp(last.baseAddress!, bytes.baseAddress!, bytes.count) == 0
            }
        } ?? false
    }

    mutating func text(of bytes: Span<UInt8>) -> String {
        if !self.isEqual(bytes) { self.last = String(bytes) }
        return self.last
    }
}
