import Glibc
import TrafficReport

/// Reads the lines of a message's head, of which it keeps what ``HTTP1Head`` says.
struct HTTP1HeadReader {
    /// Of a value that names something, without white space at its ends: what is longer is counted and not kept.
    private static let longestValue = 256

    private var head = HTTP1Head()
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

    /// A request's or a response's first line, without its end.
    ///
    /// - Returns: Whether it is HTTP/1.x.
    mutating func begin(_ line: Span<UInt8>, _ kind: HTTP1Scanner.Kind) -> Bool {
        self.head = HTTP1Head()
        if !self.changes.isEmpty { self.changes = Changes() }
        // No host until there is one.
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

    /// A field, without its line's end.
    ///
    /// - Parameters:
    ///   - isCut: There is more of it that nobody kept.
    ///   - isTrailer: It comes behind the body, and says nothing (RFC 9110 section 6.5) but `Connection`.
    /// - Returns: `nil`: it is none.
    mutating func take(_ line: Span<UInt8>, isCut: Bool, isTrailer: Bool) -> HTTP1Field? {
        // A name is a token, with nothing before its colon (RFC 9112 section 5.1).
        let colon = line.tokenEnd
        guard colon > 0, colon < line.count ? line[colon] == UInt8(ascii: ":") : isCut else { return nil }
        let field = HTTP1Field(name: line.extracting(0..<colon))
        guard field != .other else { return field }
        // llhttp heeds `Connection` in trailers, too.
        if isTrailer, field != .connection { return field.isFraming ? nil : field }
        // What is not kept of a length may be a digit.
        if isCut, field.isFraming { self.head.isAmbiguous = true }
        // What is not kept may say `close`, and what is kept may be of two options.
        if isCut, field == .connection {
            self.head.connection.insert(.close)
            return field
        }
        if field.isWanted {
            let value = line.extracting(min(colon + 1, line.count)...)
            let trimmed = value.trimmed
            // To llhttp a tab behind a length or a coding is part of that (RFC 9112 section 5.1 calls it white space).
            let hasTab = value.index(of: UInt8(ascii: "\t"), in: trimmed.upperBound..<value.count) < value.count
            if hasTab, field.isFraming { self.head.isAmbiguous = true }
            self.take(value.extracting(trimmed), of: field, hasTab: hasTab)
        }
        return field
    }

    /// The blank line has passed.
    ///
    /// - Returns: With what was asked for, which only a request says.
    mutating func end() -> (HTTP1Head, HTTP1Head.Request) {
        self.head.judgeFraming()
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

    /// Of the message at hand, so far. Its trailers may change that.
    var isLast: Bool { self.head.isLast }

    /// - Parameters:
    ///   - value: Without white space at its ends.
    ///   - hasTab: A tab was behind it.
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

    /// - Returns: `nil`: they are the same.
    private static func change(of text: String, to bytes: Span<UInt8>) -> String? {
        bytes.isEqual(text) ? nil : String(bytes)
    }
}
