import TrafficReport

/// What is known so far of one HTTP/2 message.
struct HTTP2Message {
    private(set) var lengths = HTTP1Scanner.Lengths()
    private(set) var head = MessageHead()
    /// The final head has come. Interim responses (1xx) come before it.
    private(set) var hasHead = false
    /// Where the message is on the socket's stream.
    private(set) var interval = Report.Interval()
    private var isExact = true
    /// When the first byte passed. `nil`: none has.
    private(set) var startedAt: UInt64?
    var endedAt: UInt64?

    /// - Parameters:
    ///   - framing: Bytes of framing.
    ///   - count: Bytes of this kind.
    ///   - place: Where all these bytes are on the socket's stream. Empty: unknown.
    @inline(__always)
    mutating func take(
        framing: UInt64,
        _ count: UInt64,
        _ kind: HTTP2FrameScanner.Kind,
        at place: (interval: Report.Interval, isExact: Bool),
        _ time: UInt64
    ) {
        if self.startedAt == nil { self.startedAt = time }
        self.lengths.framing += framing
        switch kind {
        case .framing, .opaque: self.lengths.framing += count
        case .header: self.lengths.header += count
        case .body: self.lengths.body += count
        }
        if !place.isExact { self.isExact = false }
        guard !place.interval.isEmpty else { return }
        if self.interval.isEmpty { self.interval.from = place.interval.from }
        self.interval.to = place.interval.to
        self.interval.bytes += place.interval.bytes
    }

    /// Takes a header block. Its bytes were counted as `header` when they came.
    mutating func take(_ head: borrowing HTTP2Head) {
        self.lengths.line += head.lineBytes
        self.lengths.header -= min(head.lineBytes, self.lengths.header)
        self.lengths.cookie += head.cookieBytes
        // The bytes of trailers count, but trailers do not change the head (RFC 9113 section 8.1).
        guard !self.hasHead else { return }
        // The fields of interim responses (1xx) are read too. The last response decides.
        if head.status != 0 { self.head.status = head.status }
        if let length = head.contentLength { self.head.contentLength = length }
        if head.contentClass != .unknown { self.head.contentClass = head.contentClass }
        if head.isEncoded { self.head.isEncoded = true }
        self.hasHead = !(100..<200).contains(self.head.status)
    }

    /// The bytes that TLS added to the message.
    var tlsBytes: UInt64 { self.interval.bytes - min(self.lengths.total, self.interval.bytes) }

    var reported: Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.interval = self.interval
        message.startedAt = self.startedAt ?? 0
        message.finishedAt = self.endedAt ?? message.startedAt
        message.bodyBytes = self.lengths.body
        message.decodedBodyBytes = self.head.isEncoded ? nil : self.lengths.body
        message.declaredBodyBytes = self.head.contentLength
        message.framingBytes = self.lengths.framing
        message.tlsBytes = self.tlsBytes
        message.lineBytes = UInt32(clamping: self.lengths.line)
        message.headerBytes = UInt32(clamping: self.lengths.header)
        message.cookieBytes = UInt32(clamping: self.lengths.cookie)
        message.status = self.head.status
        message.version = .http2
        message.quality = self.isExact ? .exact : .inferred
        message.contentClass = self.lengths.body == 0 ? .none : self.head.contentClass
        message.isIncomplete = self.endedAt == nil
        return message
    }
}
