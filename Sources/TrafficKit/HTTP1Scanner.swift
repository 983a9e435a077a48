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
        case head(HTTP1Head, of: HTTP1Head.Request?)
        case ended(Lengths, at: UInt64, isComplete: Bool)
        /// From this position on it is another protocol's: after an upgrade, or because it is no HTTP.
        case opaque(from: UInt64)
    }

    private enum State: Hashable {
        /// Before a message: empty lines may come.
        case idle
        case line
        /// Between two lines of a head; `continuation`: of the field before.
        case fieldStart, field, continuation
        case body(left: UInt64)
        case untilClose
        case chunkSize, chunkExtension, chunkData(left: UInt64), chunkEnd
        case trailerStart, trailer
        case opaque
    }

    /// Of a line; longer ones are counted and not kept.
    private static let longestLine = 8_192

    private let kind: Kind
    private var state = State.idle
    /// Bytes of the stream so far.
    package private(set) var position: UInt64 = 0
    private var lengths = Lengths()
    private var head = HTTP1HeadReader()
    /// Of a line that has not ended, what came with other pieces.
    private var text: [UInt8] = []
    /// Of the line so far.
    private var lineLength: UInt64 = 0
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
            case .line, .field, .continuation: self.scanLine(bytes, &index, emit)
            default: if self.step(bytes[index], emit) { index += 1 }
            }
        }
    }

    /// A line of the head, as far as it is there.
    private mutating func scanLine(_ bytes: Span<UInt8>, _ index: inout Int, _ emit: (Event) -> Void) {
        let lineFeed = bytes.index(of: UInt8(ascii: "\n"), in: index..<bytes.count)
        let isWhole = lineFeed < bytes.count
        let end = isWhole ? lineFeed + 1 : lineFeed
        let count = UInt64(end - index)
        self.position += count
        self.lineLength += count
        if self.state == .line { self.lengths.line += count } else { self.lengths.header += count }
        let piece = bytes.extracting(index..<lineFeed)
        index = end
        guard isWhole, self.text.isEmpty else {
            self.text.append(contentsOf: piece, to: Self.longestLine)
            guard isWhole else { return }
            let text = self.text
            self.text.removeAll()
            return self.endLine(text.span, next: end < bytes.count ? bytes[end] : nil, emit)
        }
        let kept = piece.extracting(0..<min(piece.count, Self.longestLine))
        self.endLine(kept, next: end < bytes.count ? bytes[end] : nil, emit)
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

    /// - Returns: Whether the byte is scanned; otherwise it begins what is scanned in another way.
    private mutating func step(_ byte: UInt8, _ emit: (Event) -> Void) -> Bool {
        let isLineEnd = byte == UInt8(ascii: "\n")
        switch self.state {
        case .idle:
            if self.lengths.total == 0 { emit(.began(at: self.position)) }
            guard isLineEnd || byte == UInt8(ascii: "\r") else {
                self.state = .line
                return false
            }
        case .fieldStart where !isLineEnd && byte != UInt8(ascii: "\r"):
            let isContinuation = HTTP1HeadReader.isContinuation(byte) && self.head.mayContinue
            if !isContinuation { self.head.endField() }
            self.state = isContinuation ? .continuation : .field
            return false
        default: break
        }
        self.position += 1
        switch self.state {
        case .idle:
            self.lengths.framing += 1  // RFC 9112 section 2.2
        case .fieldStart:
            self.lengths.header += 1
            if isLineEnd {
                self.head.endField()
                self.endHead(emit)
            }
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
        case .line, .field, .continuation, .body, .chunkData, .untilClose, .opaque:
            break  // not by the byte
        }
        return true
    }

    // MARK: Head

    /// - Parameters:
    ///   - line: Without its LF, and without what is too long of it.
    ///   - next: The byte behind it; `nil`: not there yet.
    private mutating func endLine(_ line: Span<UInt8>, next: UInt8?, _ emit: (Event) -> Void) {
        let length = self.lineLength
        self.lineLength = 0
        let field: HTTP1Field?
        switch self.state {
        case .line:
            guard self.head.begin(line, self.kind) else { return self.refuse(emit) }
            field = nil
        case .continuation: field = self.head.take(continuation: line)
        default:
            field = self.head.take(line, isCut: length > Self.longestLine + 1, next: next)
            guard field != nil else { return self.refuse(emit) }
        }
        if field == .cookie { self.lengths.cookie += length }
        self.state = .fieldStart
    }

    private mutating func endHead(_ emit: (Event) -> Void) {
        let (head, request) = self.head.end()
        emit(.head(head, of: self.kind == .request ? request : nil))
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
        self.text.removeAll()
        self.lineLength = 0
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
