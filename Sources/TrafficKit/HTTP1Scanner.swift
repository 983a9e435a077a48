import TrafficReport

/// Tells the bytes of HTTP/1.x messages apart, as they pass, whatever pieces they come in.
///
/// It counts what is there and not what a library would write: line and field ends as they are, chunk sizes with their extensions, empty
/// lines before a request. It keeps no more of a message than ``HTTP1Head``. One scanner sees one direction of one connection.
package struct HTTP1Scanner {
    package enum Kind: Sendable {
        case request, response
    }

    /// Bytes of one message by what they are. Their sum is what the message took of the stream.
    package struct Lengths: Hashable, Sendable {
        package var line: UInt64 = 0
        package var header: UInt64 = 0
        /// Of `header`.
        package var cookie: UInt64 = 0
        package var body: UInt64 = 0
        package var framing: UInt64 = 0

        package var total: UInt64 { self.line + self.header + self.body + self.framing }

        package init(line: UInt64 = 0, header: UInt64 = 0, cookie: UInt64 = 0, body: UInt64 = 0, framing: UInt64 = 0) {
            (self.line, self.header, self.cookie) = (line, header, cookie)
            (self.body, self.framing) = (body, framing)
        }
    }

    package enum Event: Hashable, Sendable {
        /// The first byte of a message, at this position of the stream.
        case began(at: UInt64)
        /// The blank line has passed. Of an interim response (1xx), too; its bytes are part of the one that follows.
        case head(HTTP1Head)
        case ended(Lengths, at: UInt64, isComplete: Bool)
        /// From this position on it is another protocol's: after an upgrade, or because it is no HTTP.
        case opaque(from: UInt64)
    }

    private enum State: Hashable {
        /// Before a message: empty lines may come.
        case idle
        case line
        case fieldStart, fieldName, fieldValue
        case body(left: UInt64)
        case untilClose
        case chunkSize, chunkExtension, chunkData(left: UInt64), chunkEnd
        case trailerStart, trailer
        case opaque
    }

    /// Of a line, and of one field; longer ones are counted and not kept.
    private static let longestLine = 8_192
    private static let longestValue = 256

    private let kind: Kind
    private var state = State.idle
    /// Bytes of the stream so far.
    package private(set) var position: UInt64 = 0
    private var lengths = Lengths()
    private var head = HTTP1Head()
    /// Of a line, a field's name or its value, where that is needed. Keeps its memory.
    private var text: [UInt8] = []
    /// `nil` between two fields.
    private var field: HTTP1Field?
    private var fieldLength: UInt64 = 0
    private var mediaTypes = LastMediaType()
    private var chunkSize: UInt64 = 0
    private var chunkDigits = 0
    /// Methods of requests that wait for their response, oldest first.
    private var methods: [String] = []

    package init(_ kind: Kind) {
        self.kind = kind
    }

    /// A response needs to know what was asked for: one to `HEAD` has no body, whatever it says.
    package mutating func expectResponse(to method: String) {
        self.methods.append(method)
    }

    /// A message has begun and not ended.
    package var isInMessage: Bool { self.state != .opaque && (self.state != .idle || self.lengths.total > 0) }

    /// - Parameter emit: Gets what happened, in order.
    package mutating func scan(_ bytes: Span<UInt8>, _ emit: (Event) -> Void) {
        var index = 0
        while index < bytes.count {
            switch self.state {
            case .body(let left):
                let count = min(UInt64(bytes.count - index), left)
                self.lengths.body += count
                self.position += count
                index += Int(count)
                if count == left { self.end(isComplete: true, emit) } else { self.state = .body(left: left - count) }
            case .chunkData(let left):
                let count = min(UInt64(bytes.count - index), left)
                self.lengths.body += count
                self.position += count
                index += Int(count)
                self.state = count == left ? .chunkEnd : .chunkData(left: left - count)
            case .untilClose:
                self.lengths.body += UInt64(bytes.count - index)
                self.position += UInt64(bytes.count - index)
                return
            case .opaque:
                self.position += UInt64(bytes.count - index)
                return
            case .line:
                let end = bytes.firstLineFeed(from: index)
                self.lengths.line += UInt64(end - index)
                self.keep(bytes.extracting(index..<end), Self.longestLine)
                self.position += UInt64(end - index)
                index = end
                if index < bytes.count { self.take(&index, bytes, emit) }
            case .fieldValue:
                let end = bytes.firstLineFeed(from: index)
                self.lengths.header += UInt64(end - index)
                self.fieldLength += UInt64(end - index)
                if self.field?.isWanted == true { self.keep(bytes.extracting(index..<end), Self.longestValue) }
                self.position += UInt64(end - index)
                index = end
                if index < bytes.count { self.take(&index, bytes, emit) }
            default:
                self.take(&index, bytes, emit)
            }
        }
    }

    private mutating func take(_ index: inout Int, _ bytes: Span<UInt8>, _ emit: (Event) -> Void) {
        self.step(bytes[index], emit)
        index += 1
    }

    /// Bytes of a body that nobody could look into. Where that many are not the body's, what they are can't be told.
    package mutating func skip(_ count: UInt64, _ emit: (Event) -> Void) {
        guard count > 0 else { return }
        self.position += count
        switch self.state {
        case .body(let left) where count <= left:
            self.lengths.body += count
            if count == left { self.end(isComplete: true, emit) } else { self.state = .body(left: left - count) }
        case .chunkData(let left) where count <= left:
            self.lengths.body += count
            self.state = count == left ? .chunkEnd : .chunkData(left: left - count)
        case .untilClose:
            self.lengths.body += count
        case .opaque:
            break
        default:
            self.position -= count
            self.refuse(emit)
            self.position += count
        }
    }

    /// The stream has ended.
    ///
    /// - Parameter isClean: Not by an error, which is no end of a body (RFC 9112 section 8).
    package mutating func close(isClean: Bool = true, _ emit: (Event) -> Void) {
        guard self.isInMessage else { return }
        self.end(isComplete: isClean && self.state == .untilClose, emit)
    }

    /// What comes is no HTTP any more: the other side has switched protocols.
    package mutating func becomeOpaque(_ emit: (Event) -> Void) {
        guard self.state != .opaque else { return }
        self.close(emit)
        self.state = .opaque
        emit(.opaque(from: self.position))
    }

    private mutating func step(_ byte: UInt8, _ emit: (Event) -> Void) {
        let isLineEnd = byte == UInt8(ascii: "\n")
        self.position += 1
        switch self.state {
        case .idle:
            if self.lengths.total == 0 { emit(.began(at: self.position - 1)) }
            if isLineEnd || byte == UInt8(ascii: "\r") {
                self.lengths.framing += 1  // RFC 9112 section 2.2
            } else {
                self.lengths.line += 1
                self.begin(byte)
                self.state = .line
            }
        case .line:
            self.lengths.line += 1
            if isLineEnd { self.endLine(emit) }  // the others are taken together
        case .fieldStart:
            self.lengths.header += 1
            if isLineEnd {
                self.endField()
                self.endHead(emit)
            } else if byte == UInt8(ascii: "\r") {
                break  // of the blank line
            } else if (byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t")) && self.field != nil {
                self.fieldLength += 1  // goes on (RFC 9112 section 5.2)
                self.keep(byte, Self.longestValue)
                self.state = .fieldValue
            } else {
                self.endField()
                self.fieldLength = 1
                self.begin(byte)
                self.state = .fieldName
            }
        case .fieldName:
            self.lengths.header += 1
            self.fieldLength += 1
            if byte == UInt8(ascii: ":") {
                self.field = HTTP1Field(name: self.text)
                self.text.removeAll(keepingCapacity: true)
                self.state = .fieldValue
            } else if isLineEnd {
                self.refuse(emit)
            } else {
                self.keep(byte, Self.longestValue)
            }
        case .fieldValue:
            self.lengths.header += 1
            self.fieldLength += 1
            if isLineEnd { self.state = .fieldStart }  // the others are taken together
        case .chunkSize, .chunkExtension:
            self.lengths.framing += 1
            self.stepChunkLine(byte, emit)
        case .chunkEnd:
            self.lengths.framing += 1
            if isLineEnd { self.beginChunk() } else if byte != UInt8(ascii: "\r") { self.refuse(emit) }
        case .trailerStart:
            // The last line end belongs to the chunks, as it is there without trailers (RFC 9112 section 7.1).
            if isLineEnd || byte == UInt8(ascii: "\r") {
                self.lengths.framing += 1
                if isLineEnd { self.end(isComplete: true, emit) }
            } else {
                self.lengths.header += 1
                self.state = .trailer
            }
        case .trailer:
            self.lengths.header += 1
            if isLineEnd { self.state = .trailerStart }
        case .body, .chunkData, .untilClose, .opaque:
            break
        }
    }

    private mutating func begin(_ byte: UInt8) {
        self.text.removeAll(keepingCapacity: true)
        self.text.append(byte)
    }

    private mutating func keep(_ byte: UInt8, _ limit: Int) {
        if self.text.count < limit { self.text.append(byte) }
    }

    private mutating func keep(_ bytes: Span<UInt8>, _ limit: Int) {
        let count = min(bytes.count, limit - self.text.count)
        guard count > 0 else { return }
        self.text.reserveCapacity(self.text.count + count)
        for index in 0..<count { self.text.append(bytes[index]) }
    }

    // MARK: Head

    private mutating func endLine(_ emit: (Event) -> Void) {
        self.head = HTTP1Head()
        (self.field, self.fieldLength) = (nil, 0)
        if self.text.last == UInt8(ascii: "\r") { self.text.removeLast() }
        let space = UInt8(ascii: " ")
        guard let first = self.text.firstIndex(of: space) else { return self.refuse(emit) }
        let rest = self.text[first...].drop { $0 == space }
        let second = rest.firstIndex(of: space) ?? rest.endIndex
        switch self.kind {
        case .request:
            let last = self.text[second...].drop { $0 == space }
            guard let version = Report.HTTPVersion(http1: last), second > rest.startIndex else {
                return self.refuse(emit)
            }
            self.head.method = String(decoding: self.text[..<first], as: UTF8.self)
            self.head.target = String(decoding: rest[..<second], as: UTF8.self)
            self.head.version = version
        case .response:
            let digits = rest[..<second]
            guard let version = Report.HTTPVersion(http1: self.text[..<first]), digits.count == 3,
                let status = UInt16(decimal: digits)
            else { return self.refuse(emit) }
            self.head.status = status
            self.head.version = version
        }
        self.state = .fieldStart
    }

    private mutating func endField() {
        defer { (self.field, self.fieldLength) = (nil, 0) }
        switch self.field {
        case nil, .other: break
        case .cookie: self.lengths.cookie += self.fieldLength
        case .contentLength where self.head.contentLength == nil && !self.head.isAmbiguous:
            // Nearly always just digits.
            if let length = UInt64(decimal: self.text.trimmed) {
                self.head.contentLength = length
            } else {
                self.head.take(.contentLength, value: String(decoding: self.text.trimmed, as: UTF8.self))
            }
        case .contentType: self.head.contentClass = self.mediaTypes.contentClass(of: self.text.trimmed)
        case let field?: self.head.take(field, value: String(decoding: self.text.trimmed, as: UTF8.self))
        }
    }

    private mutating func endHead(_ emit: (Event) -> Void) {
        let head = self.head
        emit(.head(head))
        if head.isAmbiguous { return self.refuse(emit) }
        let body: HTTP1Body
        switch self.kind {
        case .request:
            body = HTTP1Body(ofRequest: head)
        case .response:
            if head.status == 101 { return self.becomeOpaque(isComplete: true, emit) }
            if (100..<200).contains(head.status) {
                self.state = .idle  // its bytes stay in the lengths: the response is yet to come
                return
            }
            let method = self.methods.isEmpty ? nil : self.methods.removeFirst()
            if method == "CONNECT" && (200..<300).contains(head.status) {
                return self.becomeOpaque(isComplete: true, emit)
            }
            body = HTTP1Body(ofResponse: head, to: method)
        }
        switch body {
        case .none: self.end(isComplete: true, emit)
        case .length(let length): self.state = .body(left: length)
        case .chunked: self.beginChunk()
        case .untilClose: self.state = .untilClose
        }
    }

    // MARK: Chunks

    private mutating func beginChunk() {
        (self.chunkSize, self.chunkDigits) = (0, 0)
        self.state = .chunkSize
    }

    /// RFC 9112 section 7.1.
    private mutating func stepChunkLine(_ byte: UInt8, _ emit: (Event) -> Void) {
        if byte == UInt8(ascii: "\n") {
            guard self.chunkDigits > 0 else { return self.refuse(emit) }
            self.state = self.chunkSize == 0 ? .trailerStart : .chunkData(left: self.chunkSize)
        } else if self.state == .chunkSize, let digit = byte.hexadecimalDigit {
            guard self.chunkDigits < 16 else { return self.refuse(emit) }
            self.chunkSize = self.chunkSize << 4 | UInt64(digit)
            self.chunkDigits += 1
        } else {
            self.state = .chunkExtension
        }
    }

    // MARK: End

    private mutating func end(isComplete: Bool, _ emit: (Event) -> Void) {
        emit(.ended(self.lengths, at: self.position, isComplete: isComplete))
        self.lengths = Lengths()
        self.text.removeAll(keepingCapacity: true)
        self.state = .idle
    }

    private mutating func becomeOpaque(isComplete: Bool, _ emit: (Event) -> Void) {
        self.end(isComplete: isComplete, emit)
        self.state = .opaque
        emit(.opaque(from: self.position))
    }

    /// It is no HTTP, or nobody can tell where it ends.
    private mutating func refuse(_ emit: (Event) -> Void) {
        self.becomeOpaque(isComplete: false, emit)
    }
}
