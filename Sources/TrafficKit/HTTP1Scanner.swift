import TrafficReport

/// What an ``HTTP1Scanner`` tells, in the order in which it comes by.
package protocol HTTP1Sink {
    /// The first byte of a message, at this position of the stream.
    mutating func began(_ kind: HTTP1Scanner.Kind, at position: UInt64)

    /// The blank line has passed. Of an interim response (1xx), too; its bytes are part of the one that follows.
    ///
    /// - Parameter request: Of a response none.
    mutating func headEnded(_ kind: HTTP1Scanner.Kind, _ head: HTTP1Head, of request: HTTP1Head.Request)

    mutating func ended(
        _ kind: HTTP1Scanner.Kind,
        _ lengths: HTTP1Scanner.Lengths,
        at position: UInt64,
        isComplete: Bool
    )

    /// From this position on it is another protocol's: after an upgrade, or because it is no HTTP.
    mutating func becameOpaque(_ kind: HTTP1Scanner.Kind, from position: UInt64)

    /// What the request had for a method that the final response at hand answers: one to `HEAD` has no body, whatever it says.
    ///
    /// - Returns: `nil`: nobody saw it.
    mutating func takeMethod() -> String?
}

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

    package init(_ kind: Kind) {
        self.kind = kind
    }

    /// A message has begun and not ended.
    package var isInMessage: Bool { !self.isOpaque && (self.state != .idle || self.lengths.total > 0) }

    /// What passes is another protocol's.
    package var isOpaque: Bool { self.state == .opaque }

    package mutating func scan(_ bytes: Span<UInt8>, _ sink: inout some HTTP1Sink) {
        var index = 0
        while index < bytes.count {
            switch self.state {
            case .idle, .fieldStart: self.beginLine(bytes, &index, &sink)
            case .line, .field, .continuation: self.scanLine(bytes, &index, &sink)
            case .body(let left):
                let count = min(UInt64(bytes.count - index), left)
                self.lengths.body += count
                self.position += count
                index += Int(count)
                if count == left { self.end(isComplete: true, &sink) } else { self.state = .body(left: left - count) }
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
            case .chunkSize, .chunkExtension, .chunkEnd, .trailerStart, .trailer:
                self.step(bytes[index], &sink)
                index += 1
            }
        }
    }

    /// Bytes of a body that nobody could look into. Where that many are not the body's, what they are can't be told.
    package mutating func skip(_ count: UInt64, _ sink: inout some HTTP1Sink) {
        guard count > 0 else { return }
        self.position += count
        switch self.state {
        case .body(let left) where count <= left:
            self.lengths.body += count
            if count == left { self.end(isComplete: true, &sink) } else { self.state = .body(left: left - count) }
        case .chunkData(let left) where count <= left:
            self.lengths.body += count
            self.state = count == left ? .chunkEnd : .chunkData(left: left - count)
        case .untilClose:
            self.lengths.body += count
        case .opaque:
            break
        default:
            self.position -= count
            self.refuse(&sink)
            self.position += count
        }
    }

    /// The stream has ended.
    ///
    /// - Parameter isClean: Not by an error, which is no end of a body (RFC 9112 section 8).
    package mutating func close(isClean: Bool = true, _ sink: inout some HTTP1Sink) {
        guard self.isInMessage else { return }
        self.end(isComplete: isClean && self.state == .untilClose, &sink)
    }

    /// What comes is no HTTP any more: the other side has switched protocols.
    package mutating func becomeOpaque(_ sink: inout some HTTP1Sink) {
        guard !self.isOpaque else { return }
        self.close(&sink)
        self.state = .opaque
        sink.becameOpaque(self.kind, from: self.position)
    }

    /// Of what is told apart by the byte: chunks' own, and trailers.
    private mutating func step(_ byte: UInt8, _ sink: inout some HTTP1Sink) {
        let isLineEnd = byte == UInt8(ascii: "\n")
        self.position += 1
        switch self.state {
        case .chunkSize, .chunkExtension:
            self.lengths.framing += 1
            self.stepChunkLine(byte, &sink)
        case .chunkEnd:
            self.lengths.framing += 1
            if isLineEnd { self.beginChunk() } else if byte != UInt8(ascii: "\r") { self.refuse(&sink) }
        case .trailerStart:
            // The last line end belongs to the chunks, as it is there without trailers (RFC 9112 section 7.1).
            if isLineEnd || byte == UInt8(ascii: "\r") {
                self.lengths.framing += 1
                if isLineEnd { self.end(isComplete: true, &sink) }
            } else {
                self.lengths.header += 1
                self.state = .trailer
            }
        case .trailer:
            self.lengths.header += 1
            if isLineEnd { self.state = .trailerStart }
        case .idle, .line, .fieldStart, .field, .continuation, .body, .chunkData, .untilClose, .opaque:
            break  // not by the byte
        }
    }

    // MARK: Head

    /// The first byte of a line: of a message's first one, or of its head.
    private mutating func beginLine(
        _ bytes: Span<UInt8>,
        _ index: inout Int,
        _ sink: inout some HTTP1Sink
    ) {
        let isIdle = self.state == .idle
        if isIdle, self.lengths.total == 0 { sink.began(self.kind, at: self.position) }
        let byte = bytes[index]
        let isLineEnd = byte == UInt8(ascii: "\n")
        guard isLineEnd || byte == UInt8(ascii: "\r") else {
            if isIdle {
                self.state = .line
            } else if HTTP1HeadReader.isContinuation(byte), self.head.mayContinue {
                self.state = .continuation
            } else {
                self.head.endField()
                self.state = .field
            }
            return self.scanLine(bytes, &index, &sink)
        }
        self.position += 1
        index += 1
        if isIdle {
            self.lengths.framing += 1  // RFC 9112 section 2.2
        } else {
            self.lengths.header += 1
            guard isLineEnd else { return }
            self.head.endField()
            self.endHead(&sink)
        }
    }

    /// A line of the head, as far as it is there.
    private mutating func scanLine(
        _ bytes: Span<UInt8>,
        _ index: inout Int,
        _ sink: inout some HTTP1Sink
    ) {
        let lineFeed = bytes.index(of: UInt8(ascii: "\n"), in: index..<bytes.count)
        let isWhole = lineFeed < bytes.count
        let end = isWhole ? lineFeed + 1 : lineFeed
        let count = UInt64(end - index)
        self.position += count
        self.lineLength += count
        if self.state == .line { self.lengths.line += count } else { self.lengths.header += count }
        let piece = bytes.extracting(index..<lineFeed)
        index = end
        // Those of a line's end are passed over, wherever they are.
        let next = bytes.index(notOf: UInt8(ascii: "\r"), in: end..<bytes.count)
        let nextByte = next < bytes.count ? bytes[next] : nil
        guard isWhole, self.text.isEmpty else {
            self.text.append(contentsOf: piece, to: Self.longestLine)
            guard isWhole else { return }
            let text = self.text
            self.text.removeAll()
            return self.endLine(text.span, next: nextByte, &sink)
        }
        let kept = piece.extracting(0..<min(piece.count, Self.longestLine))
        self.endLine(kept, next: nextByte, &sink)
    }

    /// - Parameters:
    ///   - line: Without its LF, and without what is too long of it.
    ///   - next: The byte behind it, and behind CRs; `nil`: not there yet.
    private mutating func endLine(_ line: Span<UInt8>, next: UInt8?, _ sink: inout some HTTP1Sink) {
        let length = self.lineLength
        self.lineLength = 0
        let field: HTTP1Field?
        switch self.state {
        case .line:
            guard self.head.begin(line, self.kind) else { return self.refuse(&sink) }
            field = nil
        case .continuation: field = self.head.take(continuation: line)
        default:
            field = self.head.take(line, isCut: length > Self.longestLine + 1, next: next)
            guard field != nil else { return self.refuse(&sink) }
        }
        if field == .cookie { self.lengths.cookie += length }
        self.state = .fieldStart
    }

    private mutating func endHead(_ sink: inout some HTTP1Sink) {
        let (head, request) = self.head.end()
        sink.headEnded(self.kind, head, of: request)
        if head.isAmbiguous { return self.refuse(&sink) }
        let body: HTTP1Body
        switch self.kind {
        case .request:
            body = HTTP1Body(ofRequest: head)
        case .response:
            if head.status == 101 { return self.becomeOpaque(isComplete: true, &sink) }
            if (100..<200).contains(head.status) {
                self.state = .idle  // its bytes stay in the lengths: the response is yet to come
                return
            }
            let method = sink.takeMethod()
            if method == "CONNECT" && (200..<300).contains(head.status) {
                return self.becomeOpaque(isComplete: true, &sink)
            }
            body = HTTP1Body(ofResponse: head, to: method)
        }
        switch body {
        case .none: self.end(isComplete: true, &sink)
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
    private mutating func stepChunkLine(_ byte: UInt8, _ sink: inout some HTTP1Sink) {
        if byte == UInt8(ascii: "\n") {
            guard self.chunkDigits > 0 else { return self.refuse(&sink) }
            self.state = self.chunkSize == 0 ? .trailerStart : .chunkData(left: self.chunkSize)
        } else if self.state == .chunkSize, let digit = byte.hexadecimalDigit {
            guard self.chunkDigits < 16 else { return self.refuse(&sink) }
            self.chunkSize = self.chunkSize << 4 | UInt64(digit)
            self.chunkDigits += 1
        } else {
            self.state = .chunkExtension
        }
    }

    // MARK: End

    private mutating func end(isComplete: Bool, _ sink: inout some HTTP1Sink) {
        sink.ended(self.kind, self.lengths, at: self.position, isComplete: isComplete)
        self.lengths = Lengths()
        self.text.removeAll()
        self.lineLength = 0
        self.state = .idle
    }

    private mutating func becomeOpaque(isComplete: Bool, _ sink: inout some HTTP1Sink) {
        self.end(isComplete: isComplete, &sink)
        self.state = .opaque
        sink.becameOpaque(self.kind, from: self.position)
    }

    /// It is no HTTP, or nobody can tell where it ends.
    private mutating func refuse(_ sink: inout some HTTP1Sink) {
        self.becomeOpaque(isComplete: false, &sink)
    }
}
