import TrafficReport

/// The events of an ``HTTP1Scanner``, in the order of the bytes.
package protocol HTTP1Sink {
    /// Line ends between messages, which belong to no message (RFC 9112 section 2.2).
    mutating func passed(_ kind: HTTP1Scanner.Kind, lineEnds count: UInt64)

    /// The first byte of a message is at this position of the stream.
    mutating func began(_ kind: HTTP1Scanner.Kind, at position: UInt64)

    /// The blank line has passed. Also called for an interim response (1xx), whose bytes are part of the response that
    /// follows.
    ///
    /// - Parameter request: ``MessageHead/Request/none`` for a response.
    mutating func headEnded(_ kind: HTTP1Scanner.Kind, _ head: MessageHead, of request: MessageHead.Request)

    mutating func ended(
        _ kind: HTTP1Scanner.Kind,
        _ lengths: HTTP1Scanner.Lengths,
        at position: UInt64,
        isComplete: Bool
    )

    /// No reader takes the bytes from this position on as a message: they are another protocol, not HTTP, or after the
    /// last message.
    mutating func becameOpaque(_ kind: HTTP1Scanner.Kind, from position: UInt64)

    /// The method of the request that the current final response answers: a response to `HEAD` has no body, whatever
    /// its fields say.
    ///
    /// - Returns: `nil`: the library has not seen the request.
    mutating func takeMethod() -> HTTP1Method?
}

/// Finds the HTTP/1.x messages in one direction of one connection as the bytes pass, in pieces of any size.
///
/// The scanner counts the bytes that are there, not the bytes that a library would write: fields as they are, chunk
/// sizes with their extensions. The scanner keeps no more of a message than ``MessageHead`` has.
///
/// Where two parsers disagree on the end of a message, an attacker can choose which parser is right. So the scanner
/// refuses what RFC 9112 leaves to the recipient, as llhttp does (the parser of NIO, in its strict mode). The rest of
/// the connection then counts as opaque. The scanner refuses lines that end in a bare LF, control characters, folded
/// fields, and lengths or transfer codings that are given twice.
package struct HTTP1Scanner {
    package enum Kind: Sendable {
        case request, response
    }

    /// Bytes of one message by their kind. Their sum is all bytes of the message on the stream.
    package struct Lengths: Hashable, Sendable {
        package var line: UInt64 = 0
        package var header: UInt64 = 0
        /// Part of `header`.
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
        /// Before a field of a head or of a body's trailers, and within a field.
        case fieldStart, field
        case body(left: UInt64)
        case untilClose
        /// `chunkSizeEnd`: between the CR and the LF of the size's line.
        case chunkSize, chunkExtension, chunkSizeEnd
        /// `chunkEnd`: before the CR after the data; `chunkLineFeed`: after this CR.
        case chunkData(left: UInt64), chunkEnd, chunkLineFeed
        /// After the last message.
        case over
        case opaque
    }

    private let kind: Kind
    private let isReadHere: Bool
    private var state = State.idle
    /// Bytes of the stream so far.
    package private(set) var position: UInt64 = 0
    private var lengths = Lengths()
    private var head = HTTP1HeadReader()
    /// The part of the current line that came in earlier pieces.
    private var text = HTTP1Line()
    /// Bytes of the current line so far.
    private var lineLength: UInt64 = 0
    /// The line's CR has passed.
    private var awaitsLineFeed = false
    /// The current fields come after the body.
    private var isInTrailers = false
    private var chunkSize: UInt64 = 0
    private var chunkDigits = 0
    private var chunkExtension = HTTP1ChunkExtension.start
    /// The current request asks for an upgrade or a tunnel, and this process reads the request.
    private var leavesHTTP = false

    /// - Parameter isReadHere: This process reads the messages with NIO's decoder. The decoder stops after a request
    ///   for another protocol, whatever the answer is, and after an interim response that closes. For messages that
    ///   this process sends, the other side decides.
    package init(_ kind: Kind, isReadHere: Bool = false) {
        self.kind = kind
        self.isReadHere = isReadHere
    }

    /// A message has begun and not ended.
    package var isInMessage: Bool {
        switch self.state {
        case .over, .opaque: false
        case .idle: self.lengths.total > 0
        default: true
        }
    }

    /// No reader takes the bytes that pass as a message.
    package var isOpaque: Bool { self.state == .opaque }

    package mutating func scan(_ bytes: Span<UInt8>, _ sink: inout some HTTP1Sink) {
        var index = 0
        while index < bytes.count {
            switch self.state {
            case .idle, .fieldStart, .line, .field:
                if self.state == .idle, self.scanHead(bytes, &index, &sink) { continue }
                if self.isInLine(bytes, &index, &sink) { self.scanLine(bytes, &index, &sink) }
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
            case .over:
                // Line ends may come here, as between two messages.
                guard bytes[index].isLineEnd else {
                    self.becomeOpaque(&sink)
                    continue
                }
                self.position += 1
                index += 1
                sink.passed(self.kind, lineEnds: 1)
            case .opaque:
                self.position += UInt64(bytes.count - index)
                return
            case .chunkSize, .chunkExtension, .chunkSizeEnd, .chunkEnd, .chunkLineFeed:
                self.step(bytes[index], &sink)
                index += 1
            }
        }
    }

    /// Counts bytes of a body that the library could not read. If they are not all of the current body, the scanner
    /// refuses the rest: it cannot tell what these bytes are.
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

    /// Ends the stream.
    ///
    /// - Parameter isClean: The stream ended without an error. An error is not the end of a body (RFC 9112 section 8).
    package mutating func close(isClean: Bool = true, _ sink: inout some HTTP1Sink) {
        guard self.isInMessage else { return }
        self.end(isComplete: isClean && self.state == .untilClose, &sink)
    }

    /// Makes the rest of the stream opaque. The bytes are not HTTP any more, because the other side has switched
    /// protocols.
    package mutating func becomeOpaque(_ sink: inout some HTTP1Sink) {
        guard !self.isOpaque else { return }
        self.close(&sink)
        self.state = .opaque
        sink.becameOpaque(self.kind, from: self.position)
    }

    // MARK: Whole heads

    /// Scans a head that has come whole. Nearly all heads do, and a state for every line would be most of the work.
    ///
    /// - Returns: `false`: the head is not whole, or something in it is to be refused. Nothing has passed then: the
    ///   head goes line by line.
    @inline(__always)
    private mutating func scanHead(_ bytes: Span<UInt8>, _ index: inout Int, _ sink: inout some HTTP1Sink) -> Bool {
        var (start, cookie) = (index, UInt64(0))
        guard let end = Self.lineEnd(bytes, start), self.head.begin(bytes.extracting(start..<end), self.kind) else {
            return false
        }
        let line = end + 2 - start
        start = end + 2
        while true {
            guard let end = Self.lineEnd(bytes, start) else { return false }
            if end == start { break }
            let text = bytes.extracting(start..<end)
            guard text[0] != UInt8(ascii: " "), text[0] != UInt8(ascii: "\t"),
                let field = self.head.take(text, isCut: false, isTrailer: false)
            else { return false }
            if field == .cookie { cookie += UInt64(text.count + 2) }
            start = end + 2
        }
        // An interim response has passed before the head if there are lengths.
        if self.lengths.total == 0 { sink.began(self.kind, at: self.position) }
        self.lengths.line += UInt64(line)
        self.lengths.header += UInt64(start + 2 - index - line)
        self.lengths.cookie += cookie
        self.position += UInt64(start + 2 - index)
        index = start + 2
        self.endHead(&sink)
        return true
    }

    /// - Returns: Where the CR LF is that ends the line. `nil`: the line has no such end, is longer than what is kept, or
    ///   another control character comes first.
    @inline(__always)
    private static func lineEnd(_ bytes: Span<UInt8>, _ start: Int) -> Int? {
        let end = bytes.index(ofControlIn: start..<bytes.count)
        guard end &+ 1 < bytes.count, bytes[end] == UInt8(ascii: "\r"), bytes[end &+ 1] == UInt8(ascii: "\n"),
            end &- start <= HTTP1Line.longest
        else { return nil }
        return end
    }

    // MARK: Lines

    /// Begins a line of a message's head or its trailers, if none has begun.
    ///
    /// - Returns: Whether the next bytes are part of a line.
    private mutating func isInLine(
        _ bytes: Span<UInt8>,
        _ index: inout Int,
        _ sink: inout some HTTP1Sink
    ) -> Bool {
        let byte = bytes[index]
        switch self.state {
        case .idle:
            if byte.isLineEnd {
                self.position += 1
                index += 1
                // After an interim response, the line end is in the middle of the answer.
                if self.lengths.total > 0 { self.lengths.framing += 1 } else { sink.passed(self.kind, lineEnds: 1) }
                return false
            }
            if self.lengths.total == 0 { sink.began(self.kind, at: self.position) }
            self.state = .line
        case .fieldStart:
            // Also for the empty line. A line that begins with white space continues the field before it (RFC 9112
            // section 5.2).
            self.state = .field
            if byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") {
                self.refuse(behind: 1, &index, &sink)
                return false
            }
        default: break
        }
        return true
    }

    /// Scans the part of the line that is there.
    private mutating func scanLine(
        _ bytes: Span<UInt8>,
        _ index: inout Int,
        _ sink: inout some HTTP1Sink
    ) {
        if self.awaitsLineFeed {
            self.awaitsLineFeed = false
            guard bytes[index] == UInt8(ascii: "\n") else { return self.refuse(behind: 1, &index, &sink) }
            self.pass(1, &index)
            return self.endKeptLine(&sink)
        }
        let end = bytes.index(ofControlIn: index..<bytes.count)
        let piece = bytes.extracting(index..<end)
        guard end < bytes.count else {
            self.text.append(piece)
            return self.pass(piece.count, &index)
        }
        guard bytes[end] == UInt8(ascii: "\r") else { return self.refuse(behind: piece.count + 1, &index, &sink) }
        guard end + 1 < bytes.count else {
            self.text.append(piece)
            self.awaitsLineFeed = true
            return self.pass(piece.count + 1, &index)
        }
        guard bytes[end + 1] == UInt8(ascii: "\n") else { return self.refuse(behind: piece.count + 2, &index, &sink) }
        self.pass(piece.count + 2, &index)
        if self.text.isEmpty, piece.count <= HTTP1Line.longest {
            self.endLine(piece, isCut: false, &sink)
        } else {
            self.text.append(piece)
            self.endKeptLine(&sink)
        }
    }

    /// Counts bytes of the current line.
    private mutating func pass(_ count: Int, _ index: inout Int) {
        let bytes = UInt64(count)
        self.position += bytes
        self.lineLength += bytes
        if case .line = self.state { self.lengths.line += bytes } else { self.lengths.header += bytes }
        index += count
    }

    /// - Parameter count: Bytes of the line up to and including the byte that is not allowed.
    private mutating func refuse(behind count: Int, _ index: inout Int, _ sink: inout some HTTP1Sink) {
        self.pass(count, &index)
        self.refuse(&sink)
    }

    private mutating func endKeptLine(_ sink: inout some HTTP1Sink) {
        let text = self.text
        self.text = HTTP1Line()
        guard text.isPossible(self.state == .line ? self.kind : nil) else { return self.refuse(&sink) }
        self.endLine(text.kept.span, isCut: text.isCut, &sink)
    }

    /// - Parameters:
    ///   - line: Without its line end.
    ///   - isCut: The line is longer than the part that was kept.
    private mutating func endLine(_ line: Span<UInt8>, isCut: Bool, _ sink: inout some HTTP1Sink) {
        let length = self.lineLength
        self.lineLength = 0
        if case .line = self.state {
            guard self.head.begin(line, self.kind) else { return self.refuse(&sink) }
        } else if line.isEmpty {
            return self.endFields(&sink)
        } else {
            guard let field = self.head.take(line, isCut: isCut, isTrailer: self.isInTrailers) else {
                return self.refuse(&sink)
            }
            if field == .cookie { self.lengths.cookie += length }
        }
        self.state = .fieldStart
    }

    /// The blank line has passed.
    private mutating func endFields(_ sink: inout some HTTP1Sink) {
        guard self.isInTrailers else { return self.endHead(&sink) }
        // The blank line belongs to the chunks, because it is there without trailers, too (RFC 9112 section 7.1).
        self.lengths.header -= 2
        self.lengths.framing += 2
        self.end(isComplete: true, &sink)
    }

    // MARK: Head

    private mutating func endHead(_ sink: inout some HTTP1Sink) {
        let (head, request) = self.head.end()
        sink.headEnded(self.kind, head, of: request)
        if head.isAmbiguous { return self.refuse(&sink) }
        let body: HTTP1Body
        switch self.kind {
        case .request:
            self.leavesHTTP = self.isReadHere && (head.asksForUpgrade || request.method == "CONNECT")
            body = HTTP1Body(ofRequest: head, method: request.method)
        case .response:
            if head.status == 101 { return self.becomeOpaque(isComplete: true, &sink) }
            if (100..<200).contains(head.status) {
                // llhttp reads nothing after this response, and so no final response.
                if self.isReadHere && head.isLast { return self.refuse(&sink) }
                self.state = .idle  // its bytes stay in the lengths of the response to come
                return
            }
            let method = sink.takeMethod()
            if method == .connect && (200..<300).contains(head.status) {
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

    /// Reads one byte of the framing around chunks (RFC 9112 section 7.1).
    private mutating func step(_ byte: UInt8, _ sink: inout some HTTP1Sink) {
        self.position += 1
        self.lengths.framing += 1
        switch (self.state, byte) {
        case (.chunkSize, UInt8(ascii: "\r")) where self.chunkDigits > 0: self.state = .chunkSizeEnd
        case (.chunkSize, UInt8(ascii: ";")) where self.chunkDigits > 0:
            (self.state, self.chunkExtension) = (.chunkExtension, .start)
        case (.chunkSize, _):
            guard let digit = byte.hexadecimalDigit, self.chunkDigits < 16 else { return self.refuse(&sink) }
            self.chunkSize = self.chunkSize << 4 | UInt64(digit)
            self.chunkDigits += 1
        case (.chunkExtension, UInt8(ascii: "\r")) where self.chunkExtension.mayEnd: self.state = .chunkSizeEnd
        case (.chunkExtension, _):
            guard let next = self.chunkExtension.next(byte) else { return self.refuse(&sink) }
            self.chunkExtension = next
        case (.chunkSizeEnd, UInt8(ascii: "\n")):
            self.isInTrailers = self.chunkSize == 0
            self.state = self.isInTrailers ? .fieldStart : .chunkData(left: self.chunkSize)
        case (.chunkEnd, UInt8(ascii: "\r")): self.state = .chunkLineFeed
        case (.chunkLineFeed, UInt8(ascii: "\n")): self.beginChunk()
        default: self.refuse(&sink)
        }
    }

    // MARK: End

    private mutating func end(isComplete: Bool, _ sink: inout some HTTP1Sink) {
        sink.ended(self.kind, self.lengths, at: self.position, isComplete: isComplete)
        self.lengths = Lengths()
        if !self.text.isEmpty { self.text = HTTP1Line() }
        self.lineLength = 0
        (self.awaitsLineFeed, self.isInTrailers) = (false, false)
        self.state = self.leavesHTTP || self.head.isLast ? .over : .idle
        self.leavesHTTP = false
    }

    private mutating func becomeOpaque(isComplete: Bool, _ sink: inout some HTTP1Sink) {
        self.end(isComplete: isComplete, &sink)
        self.state = .opaque
        sink.becameOpaque(self.kind, from: self.position)
    }

    /// Ends the message and makes the rest opaque: the bytes are not HTTP, or the message has no certain end.
    private mutating func refuse(_ sink: inout some HTTP1Sink) {
        self.becomeOpaque(isComplete: false, &sink)
    }
}
