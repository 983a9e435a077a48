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

    /// The scanner emits every byte in a `bytes` event, in order, before the event that says what the bytes mean.
    package enum Event: Hashable, Sendable {
        /// - Parameter stream: 0: the bytes belong to the connection.
        case bytes(UInt64, Kind, stream: UInt32)
        /// A whole header block, of a message's head or its trailers.
        ///
        /// - Parameter stream: 0: the block is a request that the server makes up (PUSH_PROMISE).
        case headers([UInt8], stream: UInt32)
        /// The message of this direction is complete.
        case ended(stream: UInt32)
        /// - Parameter error: The error code (RFC 9113 section 7).
        case reset(stream: UInt32, error: UInt32)
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
    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let headerBytes = 9
    /// RFC 9113 section 6.5.
    private static let settings: UInt8 = 0x4
    /// Bytes of a header block, at most. Most libraries take 16 kB.
    private static let longestBlock = 1 << 20

    private var state = State.header
    private var isFirst = true
    /// The first frame was the sender's settings, which begin a connection (RFC 9113 section 3.4).
    package private(set) var beganWithSettings = false
    /// The bytes of the current frame's header or prefix so far.
    private var head: [UInt8] = []
    private var type: FrameType?
    private var flags: UInt8 = 0
    private var stream: UInt32 = 0
    /// Bytes of the current frame's payload that have not passed yet.
    private var left = 0
    private var padding = 0
    private var block: [UInt8] = []
    /// The stream whose header block has begun and not ended, and whether its message ends with the block.
    private var open: (stream: UInt32, endsStream: Bool)?

    package init() {}

    package mutating func scan(_ bytes: Span<UInt8>, _ emit: (Event) -> Void) {
        var index = 0
        while index < bytes.count {
            let rest = bytes.count - index
            switch self.state {
            case .header:
                index += self.keep(bytes.extracting(index...), upTo: Self.headerBytes)
                if self.head.count == Self.headerBytes { self.beginFrame(emit) }
            case .prefix(let length):
                index += self.keep(bytes.extracting(index...), upTo: length)
                if self.head.count == length { self.beginContent(emit) }
            case .content:
                let count = min(self.left - self.padding, rest)
                self.content(bytes.extracting(index..<index + count), emit)
                index += count
                self.left -= count
                if self.left == self.padding { self.endContent(emit) }
            case .padding:
                let count = min(self.left, rest)
                emit(.bytes(UInt64(count), .framing, stream: self.owner))
                index += count
                self.left -= count
                if self.left == 0 { self.endFrame(emit) }
            case .preface(let left):
                let count = min(left, rest)
                emit(.bytes(UInt64(count), .framing, stream: 0))
                index += count
                self.state = left == count ? .header : .preface(left: left - count)
            case .opaque:
                emit(.bytes(UInt64(rest), .opaque, stream: 0))
                return
            }
        }
    }

    /// Counts bytes that the library could not read. If they are not all of one frame's body, the scanner gives up: it
    /// cannot tell where the next frame begins.
    package mutating func skip(_ count: UInt64, _ emit: (Event) -> Void) {
        guard count > 0 else { return }
        guard self.state == .content, self.type == .data, count <= UInt64(self.left - self.padding) else {
            return self.giveUp(count, emit)
        }
        emit(.bytes(count, .body, stream: self.owner))
        self.left -= Int(count)
        if self.left == self.padding { self.endContent(emit) }
    }

    /// Ends the stream: emits the bytes of an incomplete frame header.
    package mutating func close(_ emit: (Event) -> Void) {
        guard !self.head.isEmpty else { return }
        emit(.bytes(UInt64(self.head.count), .framing, stream: 0))
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

    private mutating func beginFrame(_ emit: (Event) -> Void) {
        // Read in place: a copy would allocate memory for every frame.
        let isPreface = self.isFirst && self.head.elementsEqual(Self.preface.prefix(Self.headerBytes))
        if self.isFirst, !isPreface {
            self.beganWithSettings = self.head[3] == Self.settings && self.head[4] & Flag.acknowledgement == 0
        }
        self.left = Int(self.head[0]) << 16 | Int(self.head[1]) << 8 | Int(self.head[2])
        self.type = FrameType(rawValue: self.head[3])
        self.flags = self.head[4]
        // The mask removes the reserved bit.
        self.stream = Self.number(self.head.span.extracting(5..<Self.headerBytes)) & 0x7fff_ffff
        self.head.removeAll(keepingCapacity: true)
        if isPreface {
            emit(.bytes(UInt64(Self.headerBytes), .framing, stream: 0))
            self.state = .preface(left: Self.preface.count - Self.headerBytes)
            return
        }
        self.isFirst = false
        guard self.isPossible else { return self.giveUp(UInt64(Self.headerBytes), emit) }
        if self.type == .headers { self.open = (self.stream, self.flags & Flag.endStream != 0) }
        if self.type == .pushPromise { self.open = (0, false) }
        emit(.bytes(UInt64(Self.headerBytes), .framing, stream: self.owner))
        self.padding = 0
        let length = self.prefixLength
        if length > 0 { self.state = .prefix(length) } else { self.beginContent(emit) }
    }

    /// A header block is in consecutive frames of one stream (RFC 9113 section 4.3).
    private var isPossible: Bool {
        switch self.type {
        case .data: self.stream != 0 && self.open == nil
        case .headers, .pushPromise: self.stream != 0 && self.open == nil
        case .continuation: self.open != nil
        case .reset: self.left == 4 && self.open == nil
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

    private mutating func beginContent(_ emit: (Event) -> Void) {
        let prefix = self.head.count
        self.padding = self.flags & Flag.padded != 0 ? Int(self.head.first ?? 0) : 0
        self.head.removeAll(keepingCapacity: true)
        // Checked before any byte is kept: the header of a frame may announce 16 MiB of a header block.
        guard prefix + self.padding <= self.left, self.mayKeep(self.left - prefix - self.padding) else {
            return self.giveUp(UInt64(prefix), emit)
        }
        if prefix > 0 { emit(.bytes(UInt64(prefix), .framing, stream: self.owner)) }
        self.left -= prefix
        if self.left == self.padding { self.endContent(emit) } else { self.state = .content }
    }

    /// - Parameter count: Bytes of the frame's content.
    private func mayKeep(_ count: Int) -> Bool {
        switch self.type {
        case .headers, .continuation, .pushPromise: self.block.count + count <= Self.longestBlock
        case .data, .reset, nil: true
        }
    }

    private mutating func content(_ bytes: Span<UInt8>, _ emit: (Event) -> Void) {
        let count = UInt64(bytes.count)
        switch self.type {
        case .data: emit(.bytes(count, .body, stream: self.owner))
        case .headers, .continuation, .pushPromise:
            emit(.bytes(count, self.owner == 0 ? .framing : .header, stream: self.owner))
            bytes.withUnsafeBufferPointer { self.block.append(contentsOf: $0) }
        case .reset:
            emit(.bytes(count, .framing, stream: 0))
            bytes.withUnsafeBufferPointer { self.block.append(contentsOf: $0) }
        case nil: emit(.bytes(count, .framing, stream: 0))
        }
    }

    private mutating func endContent(_ emit: (Event) -> Void) {
        if self.left > 0 { self.state = .padding } else { self.endFrame(emit) }
    }

    private mutating func endFrame(_ emit: (Event) -> Void) {
        self.state = .header
        switch self.type {
        case .data:
            if self.flags & Flag.endStream != 0 { emit(.ended(stream: self.stream)) }
        case .headers, .continuation, .pushPromise:
            guard let open = self.open else { return self.giveUp(0, emit) }
            guard self.flags & Flag.endHeaders != 0 else { return }
            emit(.headers(self.block, stream: open.stream))
            self.block.removeAll(keepingCapacity: true)
            self.open = nil
            if open.endsStream { emit(.ended(stream: open.stream)) }
        case .reset:
            emit(.reset(stream: self.stream, error: Self.number(self.block.span)))
            self.block.removeAll(keepingCapacity: true)
        case nil: break
        }
    }

    private static func number(_ bytes: Span<UInt8>) -> UInt32 {
        var number: UInt32 = 0
        for index in bytes.indices { number = number << 8 | UInt32(bytes[index]) }
        return number
    }

    /// Makes the rest of the stream opaque: the scanner cannot tell where the next frame begins.
    private mutating func giveUp(_ count: UInt64, _ emit: (Event) -> Void) {
        let all = count + UInt64(self.head.count)
        if all > 0 { emit(.bytes(all, .opaque, stream: 0)) }
        (self.head, self.block, self.open) = ([], [], nil)
        self.state = .opaque
    }
}
