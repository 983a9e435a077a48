/// The events of an ``HTTP2FrameScanner``. Every byte passes in a `passed` event, in order, before the event that says
/// what the bytes mean.
package protocol HTTP2Sink {
    /// The first frame was the sender's settings, which begin a connection (RFC 9113 section 3.4).
    mutating func beganWithSettings()

    /// - Parameter stream: 0: the bytes belong to the connection.
    mutating func passed(_ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32)

    /// A frame that has come whole.
    ///
    /// - Parameters:
    ///   - framing: Bytes of its header.
    ///   - count: Bytes of its content, of this kind.
    mutating func passed(framing: UInt64, _ count: UInt64, _ kind: HTTP2FrameScanner.Kind, stream: UInt32)

    /// A whole header block, of a message's head or its trailers.
    ///
    /// - Parameter stream: 0: the block is a request that the server makes up (PUSH_PROMISE).
    mutating func headers(_ block: Span<UInt8>, stream: UInt32)

    /// The message of this direction is complete.
    mutating func ended(stream: UInt32)

    /// - Parameter error: The error code (RFC 9113 section 7).
    mutating func reset(stream: UInt32, error: UInt32)
}

/// Finds the frames in one direction of an HTTP/2 connection as they pass, in pieces of any size (RFC 9113 section 4).
///
/// Scanning may begin before or after the connection's preface. The scanner keeps a header block until it is whole, and
/// the error code of a reset. It keeps no other content of frames.
package struct HTTP2FrameScanner {
    package enum Kind: Hashable, Sendable {
        /// Frame headers, padding, priorities, and all bytes of frames that carry no message.
        case framing
        /// Bytes of a header block, as encoded.
        case header
        case body
        /// Bytes that are not HTTP/2.
        case opaque
    }

    /// RFC 9113 section 6.
    private enum FrameType: UInt8 {
        case data = 0x0
        case headers = 0x1
        case reset = 0x3
        case pushPromise = 0x5
        case continuation = 0x9
    }

    private enum Flag {
        static let endStream: UInt8 = 0x1
        static let acknowledgement: UInt8 = 0x1
        static let endHeaders: UInt8 = 0x4
        static let padded: UInt8 = 0x8
        static let priority: UInt8 = 0x20
    }

    private enum State: Hashable {
        case header
        /// The bytes before a frame's content: the length of the padding, a priority, the number of a promised stream.
        case prefix(Int)
        case content, padding
        case preface(left: Int)
        case opaque
    }

    /// RFC 9113 section 3.4.
    private static let prefaceBytes = 24
    private static let headerBytes = 9
    /// RFC 9113 section 6.5.
    private static let settings: UInt8 = 0x4
    /// Bytes of a header block, at most. Most libraries take 16 kB.
    package static let longestBlock = 1 << 20

    private var state = State.header
    private var isFirst = true
    /// The bytes of the current frame's header or prefix so far.
    private var head: [UInt8] = []
    private var type: FrameType?
    private var flags: UInt8 = 0
    private var stream: UInt32 = 0
    /// Bytes of the current frame's payload that have not passed yet.
    private var left = 0
    private var padding = 0
    /// Bytes of the current frame's payload without its prefix.
    private var length = 0
    private var block: [UInt8] = []
    /// The stream whose header block has begun and not ended, and whether its message ends with the block.
    private var open: (stream: UInt32, endsStream: Bool)?

    package init() {}

    /// Bytes of a header block or of a frame's header that wait for the rest.
    var keptBytes: Int { self.head.count + self.block.count }

    package mutating func scan(_ bytes: Span<UInt8>, _ sink: inout some HTTP2Sink) {
        var index = 0
        while index < bytes.count {
            let rest = bytes.count - index
            switch self.state {
            case .header:
                // Nearly all frames come whole, and if not, their headers do.
                if rest >= Self.headerBytes, self.head.isEmpty {
                    let whole = self.passWhole(bytes, from: index, &sink)
                    index += whole
                    if whole > 0 { continue }
                    self.beginFrame(bytes.extracting(index..<index + Self.headerBytes), &sink)
                    index += Self.headerBytes
                } else {
                    index += self.keep(bytes.extracting(index...), upTo: Self.headerBytes)
                    guard self.head.count == Self.headerBytes else { continue }
                    let head = self.head
                    self.head.removeAll(keepingCapacity: true)
                    self.beginFrame(head.span, &sink)
                }
            case .prefix(let length):
                index += self.keep(bytes.extracting(index...), upTo: length)
                if self.head.count == length { self.beginContent(&sink) }
            case .content:
                let count = min(self.left - self.padding, rest)
                let content = bytes.extracting(index..<index + count)
                index += count
                self.left -= count
                if self.isWholeBlock(count) {
                    self.passBlock(content, &sink)
                } else {
                    self.content(content, &sink)
                    if self.left == self.padding { self.endContent(&sink) }
                }
            case .padding:
                let count = min(self.left, rest)
                sink.passed(UInt64(count), .framing, stream: self.owner)
                index += count
                self.left -= count
                if self.left == 0 { self.endFrame(&sink) }
            case .preface(let left):
                let count = min(left, rest)
                sink.passed(UInt64(count), .framing, stream: 0)
                index += count
                self.state = left == count ? .header : .preface(left: left - count)
            case .opaque:
                sink.passed(UInt64(rest), .opaque, stream: 0)
                return
            }
        }
    }

    /// Passes a frame that has come whole and has no padding and no priority.
    ///
    /// - Parameter start: Where its header begins.
    /// - Returns: Bytes of the frame. 0: this is another frame, and nothing has passed.
    @inline(__always)
    private func passWhole(_ bytes: Span<UInt8>, from start: Int, _ sink: inout some HTTP2Sink) -> Int {
        let length = Int(bytes[start]) << 16 | Int(bytes[start + 1]) << 8 | Int(bytes[start + 2])
        guard !self.isFirst, self.open == nil, length <= bytes.count - start - Self.headerBytes else { return 0 }
        let flags = bytes[start + 4]
        let content = bytes.extracting(start + Self.headerBytes..<start + Self.headerBytes + length)
        let stream = Self.stream(of: bytes.extracting(start..<start + Self.headerBytes))
        let kind: Kind
        switch FrameType(rawValue: bytes[start + 3]) {
        case .data where flags & Flag.padded == 0 && stream != 0: kind = .body
        case .headers where flags & (Flag.padded | Flag.priority | Flag.endHeaders) == Flag.endHeaders && stream != 0:
            guard length <= Self.longestBlock else { return 0 }
            kind = .header
        case nil:
            sink.passed(framing: UInt64(Self.headerBytes), UInt64(length), .framing, stream: 0)
            return Self.headerBytes + length
        default: return 0
        }
        sink.passed(framing: UInt64(Self.headerBytes), UInt64(length), kind, stream: stream)
        if kind == .header { sink.headers(content, stream: stream) }
        if flags & Flag.endStream != 0 { sink.ended(stream: stream) }
        return Self.headerBytes + length
    }

    /// Counts bytes that the library could not read. If they are not all of one frame's body, the scanner gives up: it
    /// cannot tell where the next frame begins.
    package mutating func skip(_ count: UInt64, _ sink: inout some HTTP2Sink) {
        guard count > 0 else { return }
        guard self.state == .content, self.type == .data, count <= UInt64(self.left - self.padding) else {
            return self.giveUp(count, &sink)
        }
        sink.passed(count, .body, stream: self.owner)
        self.left -= Int(count)
        if self.left == self.padding { self.endContent(&sink) }
    }

    /// Ends the stream: emits the bytes of an incomplete frame header.
    package mutating func close(_ sink: inout some HTTP2Sink) {
        guard !self.head.isEmpty else { return }
        sink.passed(UInt64(self.head.count), .framing, stream: 0)
        self.head = []
    }

    /// - Returns: The number of bytes that were kept.
    private mutating func keep(_ bytes: Span<UInt8>, upTo length: Int) -> Int {
        let count = min(length - self.head.count, bytes.count)
        self.head.append(contentsOf: bytes, to: length)
        return count
    }

    // MARK: Frames

    /// The stream that the frame's bytes belong to; 0: the connection.
    private var owner: UInt32 {
        switch self.type {
        case .data, .headers: self.stream
        case .continuation: self.open?.stream ?? 0
        case .reset, .pushPromise, nil: 0
        }
    }

    /// - Parameter head: The header of a frame (RFC 9113 section 4.1).
    private mutating func beginFrame(_ head: Span<UInt8>, _ sink: inout some HTTP2Sink) {
        let isPreface = self.isFirst && head.isEqual("PRI * HTT")
        let isSettings = head[3] == Self.settings && head[4] & Flag.acknowledgement == 0
        if self.isFirst, !isPreface, isSettings { sink.beganWithSettings() }
        self.left = Int(head[0]) << 16 | Int(head[1]) << 8 | Int(head[2])
        self.type = FrameType(rawValue: head[3])
        self.flags = head[4]
        self.stream = Self.stream(of: head)
        if isPreface {
            sink.passed(UInt64(Self.headerBytes), .framing, stream: 0)
            self.state = .preface(left: Self.prefaceBytes - Self.headerBytes)
            return
        }
        self.isFirst = false
        guard self.isPossible else { return self.giveUp(UInt64(Self.headerBytes), &sink) }
        if self.type == .headers { self.open = (self.stream, self.flags & Flag.endStream != 0) }
        if self.type == .pushPromise { self.open = (0, false) }
        sink.passed(UInt64(Self.headerBytes), .framing, stream: self.owner)
        self.padding = 0
        let length = self.prefixLength
        if length > 0 { self.state = .prefix(length) } else { self.beginContent(&sink) }
    }

    /// A header block is in consecutive frames of one stream (RFC 9113 section 4.3).
    private var isPossible: Bool {
        switch self.type {
        case .data: self.stream != 0 && self.open == nil
        case .headers, .pushPromise: self.stream != 0 && self.open == nil
        case .continuation: self.open != nil
        case .reset: self.stream != 0 && self.left == 4 && self.open == nil
        case nil: self.open == nil
        }
    }

    private var prefixLength: Int {
        let hasPadding = self.flags & Flag.padded != 0 ? 1 : 0
        switch self.type {
        case .data: return hasPadding
        case .headers: return hasPadding + (self.flags & Flag.priority != 0 ? 5 : 0)
        case .pushPromise: return hasPadding + 4
        case .continuation, .reset, nil: return 0
        }
    }

    private mutating func beginContent(_ sink: inout some HTTP2Sink) {
        let prefix = self.head.count
        self.padding = self.flags & Flag.padded != 0 ? Int(self.head.first ?? 0) : 0
        self.head.removeAll(keepingCapacity: true)
        // Checked before any byte is kept: the header of a frame may announce 16 MiB of a header block.
        guard prefix + self.padding <= self.left, self.mayKeep(self.left - prefix - self.padding) else {
            return self.giveUp(UInt64(prefix), &sink)
        }
        if prefix > 0 { sink.passed(UInt64(prefix), .framing, stream: self.owner) }
        self.left -= prefix
        self.length = self.left
        if self.left == self.padding { self.endContent(&sink) } else { self.state = .content }
    }

    /// - Parameter count: Bytes of the frame's content.
    private func mayKeep(_ count: Int) -> Bool {
        switch self.type {
        case .headers, .continuation, .pushPromise: self.block.count + count <= Self.longestBlock
        case .data, .reset, nil: true
        }
    }

    /// A header block has come in one piece, in one frame without padding. It need not be kept then.
    private func isWholeBlock(_ count: Int) -> Bool {
        self.type == .headers && self.left == 0 && self.flags & Flag.endHeaders != 0 && self.block.isEmpty
            && count == self.length
    }

    private mutating func passBlock(_ block: Span<UInt8>, _ sink: inout some HTTP2Sink) {
        sink.passed(UInt64(block.count), .header, stream: self.owner)
        self.state = .header
        self.endBlock(block, &sink)
    }

    private mutating func endBlock(_ block: Span<UInt8>, _ sink: inout some HTTP2Sink) {
        guard let open = self.open else { return self.giveUp(0, &sink) }
        sink.headers(block, stream: open.stream)
        self.open = nil
        if open.endsStream { sink.ended(stream: open.stream) }
    }

    private mutating func content(_ bytes: Span<UInt8>, _ sink: inout some HTTP2Sink) {
        let count = UInt64(bytes.count)
        switch self.type {
        case .data: sink.passed(count, .body, stream: self.owner)
        case .headers, .continuation, .pushPromise:
            sink.passed(count, self.owner == 0 ? .framing : .header, stream: self.owner)
            bytes.withUnsafeBufferPointer { self.block.append(contentsOf: $0) }
        case .reset:
            sink.passed(count, .framing, stream: 0)
            bytes.withUnsafeBufferPointer { self.block.append(contentsOf: $0) }
        case nil: sink.passed(count, .framing, stream: 0)
        }
    }

    private mutating func endContent(_ sink: inout some HTTP2Sink) {
        if self.left > 0 { self.state = .padding } else { self.endFrame(&sink) }
    }

    private mutating func endFrame(_ sink: inout some HTTP2Sink) {
        self.state = .header
        switch self.type {
        case .data:
            if self.flags & Flag.endStream != 0 { sink.ended(stream: self.stream) }
        case .headers, .continuation, .pushPromise:
            guard self.flags & Flag.endHeaders != 0 || self.open == nil else { return }
            let block = self.block
            self.block.removeAll(keepingCapacity: true)
            self.endBlock(block.span, &sink)
        case .reset:
            sink.reset(stream: self.stream, error: Self.number(self.block.span))
            self.block.removeAll(keepingCapacity: true)
        case nil: break
        }
    }

    /// - Parameter head: The header of a frame. Its highest bit is reserved.
    private static func stream(of head: Span<UInt8>) -> UInt32 {
        Self.number(head.extracting(5..<Self.headerBytes)) & 0x7fff_ffff
    }

    private static func number(_ bytes: Span<UInt8>) -> UInt32 {
        var number: UInt32 = 0
        for index in bytes.indices { number = number << 8 | UInt32(bytes[index]) }
        return number
    }

    /// Makes the rest of the stream opaque: the scanner cannot tell where the next frame begins.
    private mutating func giveUp(_ count: UInt64, _ sink: inout some HTTP2Sink) {
        let all = count + UInt64(self.head.count)
        if all > 0 { sink.passed(all, .opaque, stream: 0) }
        (self.head, self.block, self.open) = ([], [], nil)
        self.state = .opaque
    }
}
