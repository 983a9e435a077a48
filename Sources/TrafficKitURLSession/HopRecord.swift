import Foundation
import FoundationNetworking
import TrafficKit
import TrafficReport

/// The known facts of a response.
struct HopResponse {
    let response: HTTPURLResponse
    /// Bytes of the decoded body. `nil`: the body of a redirect, which URLSession does not deliver.
    let deliveredBytes: UInt64?
    let isComplete: Bool
    let startedAt: UInt64
    let finishedAt: UInt64
}

extension Hop {
    /// Makes the record of the exchange without its outcome, with the bytes of the socket if these are known.
    ///
    /// URLSession shows neither lines nor fields as they are on the wire. For plain HTTP the library counts all bytes
    /// and knows the body. The rest of a request is its line, which libcurl makes from the URL, and its fields. If the
    /// path has dot segments, the line's bytes are in `headerBytes`, too. The rest of a response is in `headerBytes`:
    /// status line, fields, chunk sizes. For TLS all bytes but the body are in `tlsBytes`: the records, and the fields
    /// in them.
    ///
    /// - Parameters:
    ///   - growth: The bytes that the exchange moved; `nil` if they are unknown.
    ///   - isRepeated: The session sent the request again by itself, with credentials. The bytes are those of several
    ///     exchanges.
    func record(answeredBy end: HopResponse, _ growth: SocketGrowth?, isRepeated: Bool) -> Report.Exchange? {
        guard var exchange = self.record else { return nil }
        let growth = growth.flatMap { self.isPossible($0, end) ? $0 : nil }
        exchange.cookie = growth?.cookie ?? 0
        exchange.request = self.request(until: end.startedAt, growth, isRepeated: isRepeated)
        exchange.response = self.response(end, growth, isRepeated: isRepeated)
        return exchange
    }

    /// Makes the record of an exchange without a response. It is unknown whether the request was sent, and on which
    /// socket.
    func record(unansweredAt time: UInt64) -> Report.Exchange? {
        var exchange = self.record
        exchange?.request = self.request(until: time, nil, isRepeated: false)
        return exchange
    }

    /// Bytes of a line such as `POST /path HTTP/1.1`. `nil` if libcurl writes the path in its own way (RFC 3986 section
    /// 5.2.4).
    private var lineBytes: UInt64? {
        let path = self.request.target.prefix { $0 != "?" }
        guard !path.split(separator: "/").contains(where: { $0 == "." || $0 == ".." }) else { return nil }
        return UInt64(self.request.method.utf8.count + self.request.target.utf8.count) + 12
    }

    /// Whether the socket moved at least the bytes of line, `Host`, blank line and body, and of a status line and a
    /// blank line. If it moved less, it is the socket of another exchange.
    private func isPossible(_ growth: SocketGrowth, _ end: HopResponse) -> Bool {
        // The socket of this exchange is closed by now.
        if end.response.value(forHTTPHeaderField: "Connection")?.lowercased() == "close" { return false }
        if self.request.isPlain, end.isUntilClose(of: self.request) { return false }
        guard self.request.isPlain else {
            return growth.sent.bytes >= self.body ?? 0 && growth.received.bytes >= end.bodyBytes(of: self.request) ?? 0
        }
        let host = UInt64(self.request.url?.host?.utf8.count ?? 0)
        return growth.sent.bytes >= (self.lineBytes ?? 0) + host + 10 + (self.body ?? 0)
            && growth.received.bytes >= 16 + (end.bodyBytes(of: self.request) ?? 0)
    }

    private func request(until time: UInt64, _ growth: SocketGrowth?, isRepeated: Bool) -> Report.Exchange.Message {
        var message = Report.Exchange.Message()
        message.startedAt = self.startedAt
        message.finishedAt = time
        message.bodyBytes = self.body ?? 0
        message.decodedBodyBytes = self.body
        message.declaredBodyBytes = self.body == 0 ? nil : self.body
        message.version = self.request.isPlain ? .http1_1 : .unknown
        message.quality = .inferred
        if self.body != 0 {
            message.contentClass = .init(mediaType: self.request.value(forHTTPHeaderField: "Content-Type") ?? "")
        } else {
            message.contentClass = .none
        }
        let fields = self.request.allHTTPHeaderFields ?? [:]
        if let cookie = fields.first(where: { $0.key.lowercased() == "cookie" }) {
            message.cookieBytes = UInt32(clamping: cookie.key.utf8.count + cookie.value.utf8.count + 4)
        }
        let line = self.request.isPlain ? self.lineBytes : nil
        message.lineBytes = UInt32(clamping: line ?? 0)
        guard let growth else {
            message.headerBytes = UInt32(clamping: Self.bytes(of: fields))
            return message
        }
        message.interval = growth.sent
        guard self.request.isPlain else {
            message.cookieBytes = 0
            message.tlsBytes = growth.sent.bytes - message.bodyBytes
            return message
        }
        message.headerBytes = UInt32(clamping: growth.sent.bytes - (line ?? 0) - message.bodyBytes)
        let isChunked = self.body == nil || self.request.value(forHTTPHeaderField: "Transfer-Encoding") != nil
        if line != nil && !isRepeated && !isChunked { message.quality = .exact }
        return message
    }

    private func response(_ end: HopResponse, _ growth: SocketGrowth?, isRepeated: Bool) -> Report.Exchange.Message {
        let http = end.response
        var message = Report.Exchange.Message()
        message.startedAt = end.startedAt
        message.finishedAt = end.finishedAt
        message.status = end.status
        message.isIncomplete = !end.isComplete
        message.declaredBodyBytes = end.declaredBytes
        message.decodedBodyBytes = end.deliveredBytes
        message.quality = .inferred
        let fields = http.allHeaderFields.reduce(into: [String: String]()) { fields, field in
            if let name = field.key as? String { fields[name] = field.value as? String }
        }
        if let cookies = http.value(forHTTPHeaderField: "Set-Cookie") {
            message.cookieBytes = UInt32(clamping: cookies.utf8.count + 14)
        }
        let body = end.bodyBytes(of: self.request)
        // The decoded length, if no better number is known.
        message.bodyBytes = body ?? end.deliveredBytes ?? 0
        message.headerBytes = UInt32(clamping: Self.bytes(of: fields))
        if let growth {
            message.interval = growth.received
            let total = growth.received.bytes
            if !self.request.isPlain {
                message.bodyBytes = body ?? 0
                message.headerBytes = 0
                message.cookieBytes = 0
                message.tlsBytes = total - message.bodyBytes
            } else if let body {
                message.headerBytes = UInt32(clamping: total - body)
                if !isRepeated && !end.isChunked && end.isComplete { message.quality = .exact }
            } else {
                // An encoded body of unknown length: the bytes that are not fields are the body.
                message.headerBytes = UInt32(clamping: min(UInt64(message.headerBytes), total))
                message.bodyBytes = total - UInt64(message.headerBytes)
            }
        } else if body == nil {
            message.quality = .estimated
        }
        // If the encoded length is unknown, the decoded length tells whether there is a body.
        let hasBody = (body ?? end.deliveredBytes) != 0
        message.contentClass =
            hasBody ? .init(mediaType: http.value(forHTTPHeaderField: "Content-Type") ?? "") : .none
        return message
    }

    /// The bytes of the fields as HTTP/1.1 writes them, with the blank line.
    private static func bytes(of fields: [String: String]) -> Int {
        fields.reduce(2) { $0 + $1.key.utf8.count + $1.value.utf8.count + 4 }
    }
}

extension HopResponse {
    var status: UInt16 { UInt16(clamping: self.response.statusCode) }

    /// `Content-Length`. `nil`: there is none, or libcurl does not take it, because it does not fit into a `curl_off_t`.
    var declaredBytes: UInt64? {
        self.response.value(forHTTPHeaderField: "Content-Length").flatMap { Int64($0) }.flatMap { UInt64(exactly: $0) }
    }

    var isChunked: Bool { self.response.value(forHTTPHeaderField: "Transfer-Encoding") != nil }

    /// The response may have a body (RFC 9112 section 6.3).
    private func mayHaveBody(to request: URLRequest) -> Bool {
        let status = self.response.statusCode
        return request.method != "HEAD" && !(100..<200).contains(status) && status != 204 && status != 304
    }

    /// With HTTP/1.x, only the end of the connection ends the body: libcurl has closed the socket.
    func isUntilClose(of request: URLRequest) -> Bool {
        self.mayHaveBody(to: request) && !self.isChunked && self.declaredBytes == nil
    }

    /// Bytes of the body as encoded on the wire; `nil`: unknown (RFC 9112 section 6.3).
    func bodyBytes(of request: URLRequest) -> UInt64? {
        guard self.mayHaveBody(to: request) else { return 0 }
        let coding = self.response.value(forHTTPHeaderField: "Content-Encoding")?.lowercased() ?? "identity"
        if coding == "identity", let delivered = self.deliveredBytes { return delivered }
        return self.isComplete && !self.isChunked ? self.declaredBytes : nil
    }
}
