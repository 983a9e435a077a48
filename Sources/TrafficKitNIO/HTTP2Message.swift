import TrafficKit
import TrafficReport

/// What bodies are that nearly always have the media type of the one before.
struct RepeatedContentClass {
    private var last = (mediaType: "", contentClass: Report.ContentClass.unknown)

    mutating func contentClass(ofMediaType mediaType: String) -> Report.ContentClass {
        if self.last.mediaType != mediaType { self.last = (mediaType, Report.ContentClass(mediaType: mediaType)) }
        return self.last.contentClass
    }
}

/// What is known of one message of HTTP/2 so far.
struct HTTP2Message {
    private(set) var lengths = HTTP1Scanner.Lengths()
    private(set) var head = HTTP1Head()
    private(set) var request = HTTP1Head.Request.none
    /// The final one: interim responses (1xx) come before it.
    private(set) var hasHead = false
    /// Of the socket's stream.
    private(set) var interval = Report.Interval()
    private var isExact = true
    let startedAt: UInt64
    var endedAt: UInt64?

    init(at time: UInt64) {
        self.startedAt = time
        self.head.version = .http2
    }

    /// - Parameter place: Of these bytes on the socket's stream; empty: nobody knows.
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

    /// The fields of a header block: their bytes were counted as a header's when they came.
    mutating func take(_ fields: [HTTP2Field], _ contentClasses: inout RepeatedContentClass) {
        // Of interim responses (1xx), too: the last one stands.
        let isTrailer = self.hasHead
        var (method, target, host) = ("", "", "")
        for field in fields {
            let isPseudo = field.name.utf8.first == UInt8(ascii: ":")
            if isPseudo {
                self.lengths.line += field.bytes
                self.lengths.header -= min(field.bytes, self.lengths.header)
            }
            switch field.name {
            case "cookie", "set-cookie": self.lengths.cookie += field.bytes
            case _ where isTrailer: break
            case ":method": method = field.value
            case ":path": target = field.value
            case ":authority": host = field.value
            case ":status": self.head.status = UInt16(field.value) ?? 0
            case "host" where host.isEmpty: host = field.value
            case "content-length": self.head.contentLength = UInt64(field.value)
            case "content-encoding":
                self.head.isEncoded = !field.value.isEmpty && field.value.lowercased() != "identity"
            case "content-type": self.head.contentClass = contentClasses.contentClass(ofMediaType: field.value)
            default: break
            }
        }
        guard !isTrailer else { return }
        if !method.isEmpty { self.request = HTTP1Head.Request(method: method, target: target, host: host) }
        self.hasHead = !(100..<200).contains(self.head.status)
    }

    /// What TLS added to it.
    var tlsBytes: UInt64 { self.interval.bytes - min(self.lengths.total, self.interval.bytes) }

    /// Without what the connection and the exchange say.
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
