import Glibc
import TrafficReport

/// Reads the lines of a message's head and keeps only the values that ``MessageHead`` has.
struct HTTP1HeadReader {
    /// Bytes of a kept value, without white space at its ends. Of a longer name (host, media type) only this many are
    /// kept.
    private static let longestValue = 256

    private(set) var head = MessageHead()
    // The requests of a connection repeat each other: to compare bytes costs less than to make strings.
    private var known = MessageHead.Request.none
    /// The current request, if it is not `known`.
    private var other: MessageHead.Request?
    /// The parts of the current request that differ from `known`. An object, because most requests have none.
    private var changes: Changes?
    /// The current request has a `Host` field.
    private var hasHost = false

    private final class Changes {
        var method: String?
        var target: String?
        var host: String?
    }

    /// Reads a head that has come whole.
    ///
    /// - Returns: Bytes of the first line, of the fields with the blank line, and of those fields the cookies. `nil`:
    ///   the head is not whole, or something in it is to be refused.
    @inline(__always)
    mutating func readWhole(
        _ bytes: Span<UInt8>,
        from start: Int,
        _ kind: HTTP1Scanner.Kind
    ) -> (line: Int, header: Int, cookie: Int)? {
        guard let end = bytes.lineEnd(start, from: start), self.begin(bytes.extracting(start..<end), kind) else {
            return nil
        }
        let fields = end &+ 2
        var (index, cookie) = (fields, 0)
        while true {
            let colon = bytes.tokenEnd(from: index)
            guard let end = bytes.lineEnd(index, from: colon) else { return nil }
            // The blank line, or a line without a name.
            guard colon > index else { return end == index ? (fields &- start, end &+ 2 &- fields, cookie) : nil }
            guard bytes[colon] == UInt8(ascii: ":") else { return nil }
            let field = HTTP1Field(name: bytes.extracting(index..<colon))
            if field == .cookie { cookie &+= end &+ 2 &- index }
            if field.isWanted { self.take(bytes.extracting(colon &+ 1..<end), of: field) }
            index = end &+ 2
        }
    }

    /// Reads the first line of a request or a response, without its line end.
    ///
    /// - Returns: Whether the line is HTTP/1.x.
    mutating func begin(_ line: Span<UInt8>, _ kind: HTTP1Scanner.Kind) -> Bool {
        self.head = MessageHead()
        if self.changes != nil { self.changes = nil }
        self.hasHost = false
        let end = line.count
        let space = UInt8(ascii: " ")
        let first = line.index(of: space, in: 0..<end)
        let second = line.index(notOf: space, in: first..<end)
        let third = line.index(of: space, in: second..<end)
        switch kind {
        case .request:
            let fourth = line.index(notOf: space, in: third..<end)
            guard first > 0, third > second, line.tokenEnd() == first,
                let version = Report.HTTPVersion(http1: line.extracting(fourth..<end))
            else { return false }
            self.compare(line.extracting(0..<first), self.known.method) { $0.method = $1 }
            self.compare(line.extracting(second..<third), self.known.target) { $0.target = $1 }
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
        let colon = line.tokenEnd()
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
        if field.isWanted { self.take(line.extracting(min(colon + 1, line.count)...), of: field) }
        return field
    }

    /// Ends the head: the blank line has passed.
    mutating func end() {
        self.head.judgeFraming()
        if !self.hasHost, !self.known.host.isEmpty { self.compare(Span(), self.known.host) { $0.host = $1 } }
        guard let changes = self.changes.take() else { return }
        let request = MessageHead.Request(
            method: changes.method ?? self.known.method,
            target: changes.target ?? self.known.target,
            host: changes.host ?? self.known.host
        )
        let mayStay = request.mayStay
        (self.known, self.other) = (mayStay ? request : .none, mayStay ? nil : request)
    }

    /// The current request. Only the head of a request has one.
    var request: MessageHead.Request { self.other ?? self.known }

    /// The message has ended, so nothing of its request stays that may not.
    mutating func forgetRequest() {
        if self.other != nil { self.other = nil }
    }

    private mutating func take(_ value: Span<UInt8>, of field: HTTP1Field) {
        let range = value.trimmed
        let trimmed = value.extracting(range)
        // llhttp takes a tab after a length or a coding as part of the value. RFC 9112 section 5.1 calls the tab white
        // space.
        let hasTab = value.index(of: UInt8(ascii: "\t"), in: range.upperBound..<value.count) < value.count
        if hasTab, field.isFraming { self.head.isAmbiguous = true }
        let name = trimmed.extracting(first: min(trimmed.count, Self.longestValue))
        switch field {
        case .contentLength: self.head.take(contentLength: trimmed)
        case .transferEncoding: self.head.take(transferEncoding: trimmed)
        case .host:
            self.hasHost = true
            self.compare(name, self.known.host) { $0.host = $1 }
        case .contentType: self.head.contentClass = Report.ContentClass(mediaType: name)
        case .connection: self.head.take(connection: trimmed, hasTab: hasTab)
        case .upgrade: if !trimmed.isEmpty { self.head.connection.insert(.hasUpgradeField) }
        case .contentEncoding: self.head.isEncoded = !trimmed.isEmpty && !trimmed.isEqual(ignoringCase: "identity")
        case .cookie, .other: break
        }
    }

    /// Notes a part of the request, if it differs from the known request.
    @inline(__always)
    private mutating func compare(_ part: Span<UInt8>, _ known: String, _ note: (Changes, String?) -> Void) {
        let isKnown = part.isEqual(known)
        if isKnown, self.changes == nil { return }
        let changes = self.changes ?? Changes()
        self.changes = changes
        note(changes, isKnown ? nil : String(part))
    }
}
