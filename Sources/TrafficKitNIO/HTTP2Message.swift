import TrafficKit
import TrafficReport

/// The request of the last head. Connections often send the same request again.
struct RepeatedRequest {
    private var request = HTTP1Head.Request.none

    mutating func request(_ method: String, _ target: String, _ host: String) -> HTTP1Head.Request {
        if (self.request.method, self.request.target, self.request.host) == (method, target, host) {
            return self.request
        }
        let request = HTTP1Head.Request(method: method, target: target, host: host)
        self.request = request.mayStay ? request : .none
        return request
    }
}

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

    /// Takes the fields of a header block. Their bytes were counted as `header` when they came.
    mutating func take(_ fields: HTTP2Fields, _ repeated: inout RepeatedRequest) {
        // The fields of interim responses (1xx) are read too. The last response decides.
        let isTrailer = self.hasHead
        var (method, target, authority, host) = ("", "", "", "")
        fields.forEach { name, value, bytes in
            if name.utf8.first == UInt8(ascii: ":") {
                self.lengths.line += bytes
                self.lengths.header -= min(bytes, self.lengths.header)
            }
            // The length is compared first, because most fields are none of these.
            switch name.utf8.count {
            case 4 where name == "host" && host.isEmpty: host = value
            case 5 where name == ":path": target = value
            case 6 where name == "cookie": self.lengths.cookie += bytes
            case 7 where name == ":method": method = value
            case 7 where name == ":status" && !isTrailer: self.head.status = UInt16(value) ?? 0
            case 10 where name == ":authority": authority = value
            case 10 where name == "set-cookie": self.lengths.cookie += bytes
            case 12 where name == "content-type" && !isTrailer:
                self.head.contentClass = Report.ContentClass(mediaType: value)
            case 14 where name == "content-length" && !isTrailer: self.head.contentLength = UInt64(value)
            case 16 where name == "content-encoding" && !isTrailer:
                self.head.isEncoded = !value.isEmpty && value.lowercased() != "identity"
            default: break
            }
        }
        guard !isTrailer else { return }
        if !method.isEmpty { self.request = repeated.request(method, target, authority.isEmpty ? host : authority) }
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
