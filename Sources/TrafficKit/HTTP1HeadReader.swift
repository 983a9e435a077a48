import Glibc
import TrafficReport

/// Reads the lines of a message's head and keeps only the values that ``MessageHead`` has.
struct HTTP1HeadReader {
    /// Bytes of a kept value, without white space at its ends. Of a longer name (host, media type) only this many are
    /// kept.
    private static let longestValue = 256

    private var head = MessageHead()
    // The requests of a connection repeat each other: to compare bytes costs less than to make strings.
    private var request = MessageHead.Request.none
    /// The parts of the current request that differ from `request`.
    private var changes = Changes()

    private struct Changes {
        var method: String?
        var target: String?
        var host: String?

        var isEmpty: Bool { self.method == nil && self.target == nil && self.host == nil }
    }

    /// Reads the first line of a request or a response, without its line end.
    ///
    /// - Returns: Whether the line is HTTP/1.x.
    mutating func begin(_ line: Span<UInt8>, _ kind: HTTP1Scanner.Kind) -> Bool {
        self.head = MessageHead()
        if !self.changes.isEmpty { self.changes = Changes() }
        // A request has no host until its `Host` field has come.
        if !self.request.host.isEmpty { self.changes.host = "" }
        let end = line.count
        let space = UInt8(ascii: " ")
        let first = line.index(of: space, in: 0..<end)
        let second = line.index(notOf: space, in: first..<end)
        let third = line.index(of: space, in: second..<end)
        switch kind {
        case .request:
            let fourth = line.index(notOf: space, in: third..<end)
            guard first > 0, third > second, line.tokenEnd == first,
                let version = Report.HTTPVersion(http1: line.extracting(fourth..<end))
            else { return false }
            self.changes.method = Self.change(of: self.request.method, to: line.extracting(0..<first))
            self.changes.target = Self.change(of: self.request.target, to: line.extracting(second..<third))
            self.head.version = version
        case .response:
            guard let version = Report.HTTPVersion(http1: line.extracting(0..<first)), third - second == 3,
                let status = UInt16(decimal: line.extracting(second..<third)), status >= 100
            else { return false }
            self.head.status = status
            self.head.version = version
        }
        return true
    }

    /// Reads a field, without its line end.
    ///
    /// - Parameters:
    ///   - isCut: The line is longer than the part that was kept.
    ///   - isTrailer: The field comes after the body. Only `Connection` has a meaning there (RFC 9110 section 6.5).
    /// - Returns: `nil`: the line is not a field, or is a trailer about the body's length or transfer coding.
    mutating func take(_ line: Span<UInt8>, isCut: Bool, isTrailer: Bool) -> HTTP1Field? {
        // A name is a token, with no white space before its colon (RFC 9112 section 5.1).
        let colon = line.tokenEnd
        guard colon > 0, colon < line.count ? line[colon] == UInt8(ascii: ":") : isCut else { return nil }
        let field = HTTP1Field(name: line.extracting(0..<colon))
        guard field != .other else { return field }
        // llhttp reads `Connection` in trailers, too.
        if isTrailer, field != .connection { return field.isFraming ? nil : field }
        // The part of a length that was not kept may have digits.
        if isCut, field.isFraming { self.head.isAmbiguous = true }
        // The part that was not kept may say `close`, and the kept part may join pieces of two options.
        if isCut, field == .connection {
            self.head.connection.insert(.close)
            return field
        }
        if field.isWanted {
            let value = line.extracting(min(colon + 1, line.count)...)
            let trimmed = value.trimmed
            // llhttp takes a tab after a length or a coding as part of the value. RFC 9112 section 5.1 calls the tab
            // white space.
            let hasTab = value.index(of: UInt8(ascii: "\t"), in: trimmed.upperBound..<value.count) < value.count
            if hasTab, field.isFraming { self.head.isAmbiguous = true }
            self.take(value.extracting(trimmed), of: field, hasTab: hasTab)
        }
        return field
    }

    /// Ends the head: the blank line has passed.
    ///
    /// - Returns: The head and its request. Only the head of a request has one.
    mutating func end() -> (MessageHead, MessageHead.Request) {
        self.head.judgeFraming()
        guard !self.changes.isEmpty else { return (self.head, self.request) }
        let request = MessageHead.Request(
            method: self.changes.method ?? self.request.method,
            target: self.changes.target ?? self.request.target,
            host: self.changes.host ?? self.request.host
        )
        self.changes = Changes()
        self.request = request.mayStay ? request : .none
        return (self.head, request)
    }

    /// Whether the current message is the last one, so far. Its trailers may change this.
    var isLast: Bool { self.head.isLast }

    /// - Parameters:
    ///   - value: Without white space at its ends.
    ///   - hasTab: A tab came after the value.
    private mutating func take(_ value: Span<UInt8>, of field: HTTP1Field, hasTab: Bool) {
        let name = value.extracting(first: min(value.count, Self.longestValue))
        switch field {
        case .contentLength: self.head.take(contentLength: value)
        case .transferEncoding: self.head.take(transferEncoding: value)
        case .host: self.changes.host = Self.change(of: self.request.host, to: name)
        case .contentType: self.head.contentClass = Report.ContentClass(mediaType: name)
        case .connection: self.head.take(connection: value, hasTab: hasTab)
        case .upgrade: if !value.isEmpty { self.head.connection.insert(.hasUpgradeField) }
        case .contentEncoding: self.head.isEncoded = !value.isEmpty && !value.isEqual(ignoringCase: "identity")
        case .cookie, .other: break
        }
    }

    /// - Returns: `nil`: the two are equal.
    private static func change(of text: String, to bytes: Span<UInt8>) -> String? {
        bytes.isEqual(text) ? nil : String(bytes)
    }
}
