import TrafficKit
import TrafficReport

/// What is known so far of one HTTP/2 message.
struct HTTP2Message {
    private(set) var lengths = HTTP1Scanner.Lengths()
    private(set) var head = HTTP1Head()
    private(set) var request = HTTP1Head.Request.none
    /// The final head has come. Interim responses (1xx) come before it.
    private(set) var hasHead = false
    /// Where the message is on the socket's stream.
    private(set) var interval = Report.Interval()
    private var isExact = true
    let startedAt: UInt64
    var endedAt: UInt64?

    init(at time: UInt64) {
        self.startedAt = time
        self.head.version = .http2
    }

    /// - Parameter place: Where these bytes are on the socket's stream. Empty: unknown.
    mutating func take(_ count: UInt64, _ kind: HTTP2FrameScanner.Kind, at place: Report.Interval, isExact: Bool) {
        switch kind {
        case .framing, .opaque: self.lengths.framing += count
        case .header: self.lengths.header += count
        case .body: self.lengths.body += count
        }
        self.isExact = self.isExact && isExact
        guard !place.isEmpty else { return }
        if self.interval.isEmpty { self.interval.from = place.from }
        self.interval.to = place.to
        self.interval.bytes += place.bytes
    }

    /// Takes a header block. Its bytes were counted as `header` when they came.
    ///
    /// - Parameter last: The request of the last head.
    mutating func take(_ head: HTTP2Head, _ last: inout HTTP1Head.Request) {
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
        if let request = head.request(&last) { self.request = request }
        self.hasHead = !(100..<200).contains(self.head.status)
    }

    /// The bytes that TLS added to the message.
    var tlsBytes: UInt64 { self.interval.bytes - min(self.lengths.total, self.interval.bytes) }

    /// The record without the values that only the connection and the exchange know.
    func record(of exchange: UInt64, _ name: Report.Name) -> Report.Message {
        var record = Report.Message(exchange: exchange, name: name)
        record.interval = self.interval
        record.startedAt = self.startedAt
        record.finishedAt = self.endedAt ?? self.startedAt
        record.bodyBytes = self.lengths.body
        record.decodedBodyBytes = self.head.isEncoded ? nil : self.lengths.body
        record.declaredBodyBytes = self.head.contentLength
        record.framingBytes = self.lengths.framing
        record.tlsBytes = self.tlsBytes
        record.lineBytes = UInt32(clamping: self.lengths.line)
        record.headerBytes = UInt32(clamping: self.lengths.header)
        record.cookieBytes = UInt32(clamping: self.lengths.cookie)
        record.status = self.head.status
        record.version = .http2
        record.quality = self.isExact ? .exact : .inferred
        record.contentClass = self.lengths.body == 0 ? .none : self.head.contentClass
        record.isIncomplete = self.endedAt == nil
        return record
    }
}
