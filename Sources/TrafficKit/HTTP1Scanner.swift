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
    private enum State: Hashable {
        /// Before a message: empty lines may come.
        case idle
        /// After an interim response.
        case interim
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
        // The scanner owes an event.
        case head
        case ended(isComplete: Bool, isOpaque: Bool)
        case refused
    }

    // The small properties come one after the other, because every connection has two scanners.
    private var state = State.idle
    private let kind: Kind
    private let isReadHere: Bool
    /// The line's CR has passed.
    private var awaitsLineFeed = false
    /// The current fields come after the body.
    private var isInTrailers = false
    /// The current request asks for an upgrade or a tunnel, and this process reads the request.
    private var leavesHTTP = false
    private var chunkExtension = HTTP1ChunkExtension.start
    private var chunkDigits: UInt8 = 0
    private var chunkSize: UInt64 = 0
    /// Bytes of the stream so far.
    package private(set) var position: UInt64 = 0
    private var lengths = Lengths()
    private var reader = HTTP1HeadReader()
    /// The part of the current line that came in earlier pieces.
    private var text = HTTP1Line()
    /// Bytes of the current line so far.
    private var lineLength: UInt64 = 0

    /// - Parameter isReadHere: This process reads the messages with NIO's decoder. The decoder stops after a request
    ///   for another protocol, whatever the answer is, and after an interim response that closes. For messages that
    ///   this process sends, the other side decides.
    package init(_ kind: Kind, isReadHere: Bool = false) {
        self.kind = kind
        self.isReadHere = isReadHere
    }

    /// The head of the current message, or of the last one.
    package var head: MessageHead { self.reader.head }

    /// The current request. ``MessageHead/Request/none`` for a response.
    package var request: MessageHead.Request { self.reader.request }

    /// A message has begun and not ended.
    package var isInMessage: Bool {
        switch self.state {
        case .idle, .over, .opaque: false
        default: true
        }
    }

    /// No reader takes the bytes that pass as a message.
    package var isOpaque: Bool { self.state == .opaque }

    /// Goes on to the next event. The caller passes the same input until there is no event.
    ///
    /// - Parameters:
    ///   - index: How much of the input has passed; 0 at first.
    ///   - method: The method of the request that the current response answers: a response to `HEAD` has no body,
    ///     whatever its fields say. `nil`: the library has not seen the request.
    /// - Returns: `nil`: all of the input has passed.
    package mutating func next(
        _ input: borrowing Input,
        _ index: inout Int,
        answering method: HTTP1Method? = nil
    ) -> Event? {
        while true {
            switch self.state {
            case .head: return self.endHead(method)
            case .ended(let isComplete, let isOpaque): return self.endMessage(isComplete, isOpaque)
            case .refused:
                self.state = .opaque
                return .opaque
            default: break
            }
            switch input {
            case .bytes(let bytes):
                guard index < bytes.count else { return nil }
                if let event = self.scan(bytes, &index) { return event }
            case .unseen(let count):
                guard index == 0, count > 0 else { return nil }
                self.skip(count, &index)
            case .end(let isClean):
                guard self.isInMessage else { return nil }
                self.end(isComplete: isClean && self.state == .untilClose)
            case .switched:
                guard !self.isOpaque else { return nil }
                self.state = self.isInMessage ? .ended(isComplete: self.state == .untilClose, isOpaque: true) : .refused
            }
        }
    }

    /// Scans up to the end of what the current state takes.
    @inline(__always)
    private mutating func scan(_ bytes: Span<UInt8>, _ index: inout Int) -> Event? {
        switch self.state {
        case .idle, .interim:
            let (isFirst, start) = (self.state == .idle, self.position)
            if self.scanHead(bytes, &index) { return isFirst ? .began(at: start) : nil }
            guard bytes[index].isLineEnd else {
                self.state = .line
                return isFirst ? .began(at: start) : nil
            }
            self.position += 1
            index += 1
            if isFirst { return .lineEnd }
            // After an interim response, the line end is in the middle of the answer.
            self.lengths.framing += 1
        case .fieldStart, .line, .field:
            self.scanLine(bytes, &index)
        case .body(let left):
            let count = min(UInt64(bytes.count - index), left)
            self.passBody(count, &index)
            if count == left { self.end(isComplete: true) } else { self.state = .body(left: left - count) }
        case .chunkData(let left):
            let count = min(UInt64(bytes.count - index), left)
            self.passBody(count, &index)
            self.state = count == left ? .chunkEnd : .chunkData(left: left - count)
        case .untilClose:
            self.passBody(UInt64(bytes.count - index), &index)
        case .over:
            // Line ends may come here, as between two messages.
            guard bytes[index].isLineEnd else {
                self.state = .refused
                return nil
            }
            self.position += 1
            index += 1
            return .lineEnd
        case .opaque:
            self.position += UInt64(bytes.count - index)
            index = bytes.count
        case .chunkSize, .chunkExtension, .chunkSizeEnd, .chunkEnd, .chunkLineFeed:
            self.position += 1
            self.lengths.framing += 1
            self.step(bytes[index])
            index += 1
        case .head, .ended, .refused: break
        }
        return nil
    }

    private mutating func passBody(_ count: UInt64, _ index: inout Int) {
        self.lengths.body += count
        self.position += count
        index += Int(count)
    }

    private mutating func skip(_ count: UInt64, _ index: inout Int) {
        switch self.state {
        case .body(let left) where count <= left:
            self.lengths.body += count
            if count == left { self.end(isComplete: true) } else { self.state = .body(left: left - count) }
        case .chunkData(let left) where count <= left:
            self.lengths.body += count
            self.state = count == left ? .chunkEnd : .chunkData(left: left - count)
        case .untilClose:
            self.lengths.body += count
        case .opaque: break
        default: return self.refuse()  // they pass as opaque bytes
        }
        self.position += count
        index = 1
    }

    // MARK: Heads

    /// Scans a head that has come whole. Nearly all heads do, and a state for every line would be most of the work.
    ///
    /// - Returns: `false`: the head is not whole, or something in it is to be refused. Nothing has passed then: the head
    ///   goes line by line.
    @inline(__always)
    private mutating func scanHead(_ bytes: Span<UInt8>, _ index: inout Int) -> Bool {
        guard let head = self.reader.readWhole(bytes, from: index, self.kind) else { return false }
        // The bytes of interim responses are there already.
        self.lengths.line += UInt64(head.line)
        self.lengths.header += UInt64(head.header)
        self.lengths.cookie += UInt64(head.cookie)
        self.position += UInt64(head.line + head.header)
        index += head.line + head.header
        self.state = .head
        return true
    }

    /// The blank line of a head has passed.
    private mutating func endHead(_ method: HTTP1Method?) -> Event {
        self.reader.end()
        if self.head.isAmbiguous {
            self.refuse()
            return .head
        }
        let body: HTTP1Body
        switch self.kind {
        case .request:
            let isTunnel = self.request.kind == .connect
            self.leavesHTTP = self.isReadHere && (self.head.asksForUpgrade || isTunnel)
            body = HTTP1Body(ofRequest: self.head, isTunnel: isTunnel)
        case .response where self.head.status == 101:
            self.becomeOpaque(isComplete: true)
            return .head
        case .response where (100..<200).contains(self.head.status):
            // llhttp reads nothing after this response, and so no final response.
            if self.isReadHere && self.head.isLast { self.refuse() } else { self.state = .interim }
            return .head
        case .response:
            guard method != .connect || !(200..<300).contains(self.head.status) else {
                self.becomeOpaque(isComplete: true)
                return .head
            }
            body = HTTP1Body(ofResponse: self.head, to: method)
        }
        switch body {
        case .none: self.end(isComplete: true)
        case .length(let length): self.state = .body(left: length)
        case .chunked: self.beginChunk()
        case .untilClose: self.state = .untilClose
        }
        return .head
    }

    // MARK: Lines

    /// Scans the part that is there of a line of a message's head or its trailers.
    private mutating func scanLine(_ bytes: Span<UInt8>, _ index: inout Int) {
        if self.state == .fieldStart {
            // Also for the empty line. A line that begins with white space continues the field before it (RFC 9112
            // section 5.2).
            self.state = .field
            if bytes[index] == UInt8(ascii: " ") || bytes[index] == UInt8(ascii: "\t") {
                return self.refuse(behind: 1, &index)
            }
        }
        if self.awaitsLineFeed {
            self.awaitsLineFeed = false
            guard bytes[index] == UInt8(ascii: "\n") else { return self.refuse(behind: 1, &index) }
            self.pass(1, &index)
            return self.endKeptLine()
        }
        let end = bytes.index(ofControlIn: index..<bytes.count)
        let piece = bytes.extracting(index..<end)
        guard end < bytes.count else {
            self.text.append(piece)
            return self.pass(piece.count, &index)
        }
        guard bytes[end] == UInt8(ascii: "\r") else { return self.refuse(behind: piece.count + 1, &index) }
        guard end + 1 < bytes.count else {
            self.text.append(piece)
            self.awaitsLineFeed = true
            return self.pass(piece.count + 1, &index)
        }
        guard bytes[end + 1] == UInt8(ascii: "\n") else { return self.refuse(behind: piece.count + 2, &index) }
        self.pass(piece.count + 2, &index)
        if self.text.isEmpty, piece.count <= HTTP1Line.longest {
            self.endLine(piece, isCut: false)
        } else {
            self.text.append(piece)
            self.endKeptLine()
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
    private mutating func refuse(behind count: Int, _ index: inout Int) {
        self.pass(count, &index)
        self.refuse()
    }

    private mutating func endKeptLine() {
        let text = self.text
        self.text = HTTP1Line()
        guard text.isPossible(self.state == .line ? self.kind : nil) else { return self.refuse() }
        self.endLine(text.kept.span, isCut: text.isCut)
    }

    /// - Parameters:
    ///   - line: Without its line end.
    ///   - isCut: The line is longer than the part that was kept.
    private mutating func endLine(_ line: Span<UInt8>, isCut: Bool) {
        let length = self.lineLength
        self.lineLength = 0
        if case .line = self.state {
            guard self.reader.begin(line, self.kind) else { return self.refuse() }
        } else if line.isEmpty {
            return self.endFields()
        } else {
            guard let field = self.reader.take(line, isCut: isCut, isTrailer: self.isInTrailers) else {
                return self.refuse()
            }
            if field == .cookie { self.lengths.cookie += length }
        }
        self.state = .fieldStart
    }

    /// The blank line has passed.
    private mutating func endFields() {
        guard self.isInTrailers else {
            self.state = .head
            return
        }
        // The blank line belongs to the chunks, because it is there without trailers, too (RFC 9112 section 7.1).
        self.lengths.header -= 2
        self.lengths.framing += 2
        self.end(isComplete: true)
    }

    // MARK: Chunks

    private mutating func beginChunk() {
        (self.chunkSize, self.chunkDigits) = (0, 0)
        self.state = .chunkSize
    }

    /// Reads one byte of the framing around chunks (RFC 9112 section 7.1).
    private mutating func step(_ byte: UInt8) {
        switch (self.state, byte) {
        case (.chunkSize, UInt8(ascii: "\r")) where self.chunkDigits > 0: self.state = .chunkSizeEnd
        case (.chunkSize, UInt8(ascii: ";")) where self.chunkDigits > 0:
            (self.state, self.chunkExtension) = (.chunkExtension, .start)
        case (.chunkSize, _):
            guard let digit = byte.hexadecimalDigit, self.chunkDigits < 16 else { return self.refuse() }
            self.chunkSize = self.chunkSize << 4 | UInt64(digit)
            self.chunkDigits += 1
        case (.chunkExtension, UInt8(ascii: "\r")) where self.chunkExtension.mayEnd: self.state = .chunkSizeEnd
        case (.chunkExtension, _):
            guard let next = self.chunkExtension.next(byte) else { return self.refuse() }
            self.chunkExtension = next
        case (.chunkSizeEnd, UInt8(ascii: "\n")):
            self.isInTrailers = self.chunkSize == 0
            self.state = self.isInTrailers ? .fieldStart : .chunkData(left: self.chunkSize)
        case (.chunkEnd, UInt8(ascii: "\r")): self.state = .chunkLineFeed
        case (.chunkLineFeed, UInt8(ascii: "\n")): self.beginChunk()
        default: self.refuse()
        }
    }

    // MARK: End

    private mutating func end(isComplete: Bool) { self.state = .ended(isComplete: isComplete, isOpaque: false) }

    private mutating func becomeOpaque(isComplete: Bool) {
        self.state = .ended(isComplete: isComplete, isOpaque: true)
    }

    /// Ends the message and makes the rest opaque: the bytes are not HTTP, or the message has no certain end.
    private mutating func refuse() { self.becomeOpaque(isComplete: false) }

    /// - Parameter isOpaque: What comes next is not HTTP.
    private mutating func endMessage(_ isComplete: Bool, _ isOpaque: Bool) -> Event {
        let lengths = self.lengths
        self.lengths = Lengths()
        if !self.text.isEmpty { self.text = HTTP1Line() }
        self.lineLength = 0
        (self.awaitsLineFeed, self.isInTrailers) = (false, false)
        self.state = isOpaque ? .refused : self.leavesHTTP || self.head.isLast ? .over : .idle
        self.leavesHTTP = false
        self.reader.forgetRequest()
        return .ended(lengths, isComplete: isComplete)
    }
}
