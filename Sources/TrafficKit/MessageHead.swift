package import TrafficReport

/// The parts of a message's line and fields that matter for its bytes, without the request's name. Nothing else is
/// kept.
package struct MessageHead: Hashable, Sendable {
    /// 0 for a request.
    package var status: UInt16 = 0
    package var version: Report.HTTPVersion = .unknown
    package var contentLength: UInt64?
    package var isChunked = false
    /// There is a transfer coding, and `chunked` is not one of them: a response continues to the end of the stream.
    package var hasOtherCoding = false
    /// Parsers disagree on where the body ends, or the head does not say where.
    package var isAmbiguous = false
    package var isEncoded = false
    package var contentClass = Report.ContentClass.unknown
    package var connection = Connection()

    package init() {}

    /// What the head says of the connection (RFC 9110 sections 7.6.1 and 7.8).
    package struct Connection: OptionSet, Hashable, Sendable {
        package let rawValue: UInt8

        package init(rawValue: UInt8) { self.rawValue = rawValue }

        package static let close = Connection(rawValue: 1 << 0)
        package static let keepAlive = Connection(rawValue: 1 << 1)
        package static let upgrade = Connection(rawValue: 1 << 2)
        /// The head has a field `Upgrade`.
        package static let hasUpgradeField = Connection(rawValue: 1 << 3)
    }

    /// No reader takes a message after this one (RFC 9112 section 9.3). As in llhttp, HTTP/1.0 with `keep-alive` stays
    /// open even with `close`.
    package var isLast: Bool {
        self.version == .http1_0 ? !self.connection.contains(.keepAlive) : self.connection.contains(.close)
    }

    /// The message asks to switch protocols.
    package var asksForUpgrade: Bool { self.connection.isSuperset(of: [.upgrade, .hasUpgradeField]) }

    /// The method, target and host of a request (RFC 9110 section 6.2). A class, because many places share it: each
    /// share is one reference.
    package final class Request: Hashable, Sendable {
        package static let none = Request(method: "", target: "", host: "")

        package let method: String
        package let target: String
        /// The field `Host`, or the authority.
        package let host: String
        let kind: HTTP1Method

        package init(method: String, target: String, host: String) {
            (self.method, self.target, self.host) = (method, target, host)
            self.kind = HTTP1Method(method)
        }

        /// The request has no query and is short. Only such a request is kept after its message.
        package var mayStay: Bool { self.hasPlainHost && Self.isPlain(self.target, without: UInt8(ascii: "?")) }

        /// The method and the host are short, and the host has no user.
        var hasPlainHost: Bool { self.method.utf8.count <= 32 && Self.isPlain(self.host, without: UInt8(ascii: "@")) }

        private static func isPlain(_ text: String, without byte: UInt8) -> Bool {
            let bytes = text.utf8.span
            return bytes.count <= 128 && bytes.index(of: byte, in: bytes.indices) == bytes.count
        }

        package static func == (one: Request, other: Request) -> Bool {
            one === other || (one.method, one.target, one.host) == (other.method, other.target, other.host)
        }

        package func hash(into hasher: inout Hasher) {
            hasher.combine(self.method)
            hasher.combine(self.target)
            hasher.combine(self.host)
        }
    }
}

/// The method of a request, as far as the end of its response depends on it.
package enum HTTP1Method: Sendable {
    case head, connect, other

    package init(_ method: String) {
        switch method {
        case "HEAD": self = .head
        case "CONNECT": self = .connect
        default: self = .other
        }
    }
}

/// The body of a message (RFC 9112 section 6.3).
enum HTTP1Body: Hashable {
    case none
    case length(UInt64)
    case chunked
    case untilClose

    /// - Parameter isTunnel: A `CONNECT` request has no body, whatever its fields say (RFC 9110 section 9.3.6).
    init(ofRequest head: MessageHead, isTunnel: Bool) {
        if isTunnel {
            self = .none
        } else {
            self = head.isChunked ? .chunked : head.contentLength.map { $0 == 0 ? .none : .length($0) } ?? .none
        }
    }

    /// - Parameter method: The request's method; `nil`: the library has not seen the request.
    init(ofResponse head: MessageHead, to method: HTTP1Method?) {
        if method == .head || (100..<200).contains(head.status) || head.status == 204 || head.status == 304 {
            self = .none
        } else if head.isChunked {
            self = .chunked
        } else if let length = head.contentLength {
            self = length == 0 ? .none : .length(length)
        } else {
            self = .untilClose
        }
    }
}

/// Fields that matter for a message's bytes, its name and the bytes after it. Names of fields match in any case (RFC
/// 9110 section 5.1).
enum HTTP1Field: Hashable {
    case host, contentLength, transferEncoding, contentEncoding, contentType
    case connection, upgrade
    case cookie
    case other

    /// The scanner needs the field's value, not only its length.
    var isWanted: Bool { self != .cookie && self != .other }

    /// The field says where a body ends.
    var isFraming: Bool { self == .contentLength || self == .transferEncoding }

    /// Compares words of bytes, because a string for every field would be most of the work.
    ///
    /// - Parameter name: A token.
    init(name: Span<UInt8>) {
        self =
            switch name.count {
            case 4 where name.isName("host"): .host
            case 6 where name.isName("cookie"): .cookie
            case 7 where name.isName("upgrade"): .upgrade
            case 10 where name.isName("connection"): .connection
            case 10 where name.isName("set-cookie"): .cookie
            case 12 where name.isName("content-type"): .contentType
            case 14 where name.isName("content-length"): .contentLength
            case 16 where name.isName("content-encoding"): .contentEncoding
            case 16 where name.isName("proxy-connection"): .connection  // as in llhttp
            case 17 where name.isName("transfer-encoding"): .transferEncoding
            default: .other
            }
    }
}

// A lenient parser lets an attacker choose which parser is right: RFC 9112 sections 6.1, 6.3 and 11.2.
extension MessageHead {
    /// - Parameter value: Without white space at its ends.
    mutating func take(contentLength value: Span<UInt8>) {
        // A second length is ambiguous even if it is the same.
        guard self.contentLength == nil, let length = UInt64(decimal: value) else {
            self.isAmbiguous = true
            return
        }
        self.contentLength = length
    }

    /// - Parameter value: Without white space at its ends.
    mutating func take(transferEncoding value: Span<UInt8>) {
        let isFurther = self.isChunked || self.hasOtherCoding
        if isFurther || value.isEmpty { self.isAmbiguous = true }
        guard !value.isEqual(ignoringCase: "chunked") else {
            self.isChunked = true
            return
        }
        let codings = String(value).split(separator: ",", omittingEmptySubsequences: false).map(\.trimmed)
        let isPlain = codings.allSatisfy { !$0.isEmpty && $0.utf8.span.isToken }
        // `chunked` must come once, as the last coding. Compared as bytes, because the Kelvin sign in lower case is a
        // `k`, too.
        let place = codings.firstIndex { $0.utf8.span.isEqual(ignoringCase: "chunked") }
        if !isPlain || place != nil && place != codings.count - 1 { self.isAmbiguous = true }
        if place == nil { self.hasOtherCoding = true } else { self.isChunked = true }
    }

    /// In doubt HTTP/1.1 counts as closed, so that the scanner counts no request that the server never reads. llhttp
    /// ignores an option with a tab after it, so such a `keep-alive` does not count.
    ///
    /// - Parameters:
    ///   - value: Without white space at its ends.
    ///   - hasTab: A tab came after the value.
    mutating func take(connection value: Span<UInt8>, hasTab: Bool) {
        var start = 0
        while start < value.count {
            let end = value.index(of: UInt8(ascii: ","), in: start..<value.count)
            let padded = value.extracting(start..<end)
            let place = padded.trimmed
            let option = padded.extracting(place)
            let tab = padded.index(of: UInt8(ascii: "\t"), in: place.upperBound..<padded.count)
            let hasNoTabBehind = tab == padded.count && !(hasTab && end == value.count)
            if option.isEqual(ignoringCase: "close") { self.connection.insert(.close) }
            if option.isEqual(ignoringCase: "upgrade") { self.connection.insert(.upgrade) }
            if option.isEqual(ignoringCase: "keep-alive"), hasNoTabBehind { self.connection.insert(.keepAlive) }
            start = end + 1
        }
    }

    /// Judges whether the fields agree on the end of the body. All fields have come.
    mutating func judgeFraming() {
        let isRequest = self.status == 0
        if (self.isChunked || self.hasOtherCoding) && self.contentLength != nil || self.hasOtherCoding && isRequest {
            self.isAmbiguous = true
        }
    }
}

extension Report.ContentClass {
    private static let named: [(type: StaticString, is: Self)] = [
        ("application/json", .json), ("application/problem+json", .json), ("application/x-ndjson", .json),
        ("text/json", .json),
        ("text/html", .html), ("application/xhtml+xml", .html),
        ("text/javascript", .script), ("application/javascript", .script), ("application/x-javascript", .script),
        ("text/css", .script),
        ("text/event-stream", .stream), ("application/octet-stream", .stream), ("application/grpc", .stream),
        ("application/x-www-form-urlencoded", .form), ("multipart/form-data", .form),
    ]

    /// - Parameter mediaType: The value of `Content-Type` (RFC 9110 section 8.3).
    package init(mediaType: String) {
        self.init(mediaType: mediaType.utf8.span)
    }

    init(mediaType value: Span<UInt8>) {
        let untrimmed = value.extracting(0..<value.index(of: UInt8(ascii: ";"), in: value.indices))
        let type = untrimmed.extracting(untrimmed.trimmed)
        if type.isEmpty {
            self = .unknown
        } else if let named = Self.named.first(where: { type.isEqual(ignoringCase: $0.type) }) {
            self = named.is
        } else if type.ends(with: "+json") {
            self = .json
        } else if type.begins(with: "image/") {
            self = .image
        } else if type.begins(with: "video/") || type.begins(with: "audio/") {
            self = .stream
        } else if type.begins(with: "text/") || type.ends(with: "/xml") || type.ends(with: "+xml") {
            self = .text
        } else {
            self = .other
        }
    }
}

extension StringProtocol {
    /// The text without spaces and tabs at the ends.
    var trimmed: String {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        guard let first = self.firstIndex(where: { !isSpace($0) }), let last = self.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return String(self[first...last])
    }
}
