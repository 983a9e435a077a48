import TrafficReport

/// What an ``HTTP1Scanner`` tells, in the order in which it comes by.
package protocol HTTP1Sink {
    /// Line ends between messages, which are no message's (RFC 9112 section 2.2).
    mutating func passed(_ kind: HTTP1Scanner.Kind, lineEnds count: UInt64)

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

    /// From this position on it is no message that anybody reads: another protocol's, no HTTP, or behind the last message.
    mutating func becameOpaque(_ kind: HTTP1Scanner.Kind, from position: UInt64)

    /// What the request had for a method that the final response at hand answers: one to `HEAD` has no body, whatever it says.
    ///
    /// - Returns: `nil`: nobody saw it.
    mutating func takeMethod() -> String?
}

/// Tells the bytes of HTTP/1.x messages apart, as they pass, whatever pieces they come in.
///
/// It counts what is there and not what a library would write: fields as they are, chunk sizes with their extensions. It keeps no more of a
/// message than ``HTTP1Head``. One scanner sees one direction of one connection.
///
/// Where two parsers may disagree on where a message ends, an attacker chooses who is right. So what RFC 9112 leaves to the recipient is
/// refused here, as llhttp refuses it (the parser of NIO, in its strict mode): the rest of the connection is opaque, and is counted as that.
/// These are lines that end in a bare LF, control characters, folded fields, and lengths or transfer codings that are said twice.
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
        /// Between two lines of a head, or of a body's trailers.
        case fieldStart, field
        case body(left: UInt64)
        case untilClose
        /// `chunkSizeEnd`: between the CR and the LF of its line.
        case chunkSize, chunkExtension, chunkSizeEnd
        /// `chunkEnd`: before the CR behind the data; `chunkLineFeed`: behind that.
        case chunkData(left: UInt64), chunkEnd, chunkLineFeed
        /// Behind the last message.
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
    /// Of a line that has not ended, what came with other pieces.
    private var text = HTTP1Line()
    /// Of the line so far.
    private var lineLength: UInt64 = 0
    /// The line's CR has passed.
    private var awaitsLineFeed = false
    /// The fields at hand come behind the body.
    private var isInTrailers = false
    private var chunkSize: UInt64 = 0
    private var chunkDigits = 0
    private var chunkExtension = HTTP1ChunkExtension.start
    /// The request at hand asks for an upgrade or a tunnel, and this process reads it.
    private var leavesHTTP = false

    /// - Parameter isReadHere: This process reads the messages, with NIO's decoder. That decoder stops behind a request for another protocol,
    ///   whatever the answer is, and behind an interim response that closes. Of messages that this process sends the other side decides.
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

    /// What passes is no message that anybody reads.
    package var isOpaque: Bool { self.state == .opaque }

    package mutating func scan(_ bytes: Span<UInt8>, _ sink: inout some HTTP1Sink) {
        var index = 0
        while index < bytes.count {
            switch self.state {
            case .idle, .fieldStart, .line, .field:
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
                // As between two messages.
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

    // MARK: Lines

    // What is done for each line is compiled into one loop (`@inline(__always)`): to call it would be a sixth of the work.

    /// Begins a line, of a message, its head or its trailers, where none has begun.
    ///
    /// - Returns: Whether bytes of one come.
    @inline(__always)
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
                // Behind an interim response it is in the middle of what answers.
                if self.lengths.total > 0 { self.lengths.framing += 1 } else { sink.passed(self.kind, lineEnds: 1) }
                return false
            }
            if self.lengths.total == 0 { sink.began(self.kind, at: self.position) }
            self.state = .line
        case .fieldStart:
            // The empty line, too. One that begins with white space goes on with the field before (RFC 9112 section 5.2).
            self.state = .field
            if byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") {
                self.refuse(behind: 1, &index, &sink)
                return false
            }
        default: break
        }
        return true
    }

    /// A line, as far as it is there.
    @inline(__always)
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

    /// Bytes of the line at hand.
    @inline(__always)
    private mutating func pass(_ count: Int, _ index: inout Int) {
        let bytes = UInt64(count)
        self.position += bytes
        self.lineLength += bytes
        if case .line = self.state { self.lengths.line += bytes } else { self.lengths.header += bytes }
        index += count
    }

    /// - Parameter count: Of bytes of the line, up to the one that can't be.
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
    ///   - line: Without its end.
    ///   - isCut: There is more of it that nobody kept.
    @inline(__always)
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
        // It belongs to the chunks, as it is there without trailers (RFC 9112 section 7.1).
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
                // llhttp reads nothing behind it, and so no final response.
                if self.isReadHere && head.isLast { return self.refuse(&sink) }
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

    /// Of what is told apart by the byte: what is around chunks (RFC 9112 section 7.1).
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

    /// It is no HTTP, or nobody can tell where it ends.
    private mutating func refuse(_ sink: inout some HTTP1Sink) {
        self.becomeOpaque(isComplete: false, &sink)
    }
}
