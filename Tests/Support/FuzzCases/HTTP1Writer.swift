import TestSupport
import TrafficKit

/// Writes messages that every parser understands in the same way, and says what they are made of.
struct HTTP1Writer {
    private(set) var bytes: [UInt8] = []
    private(set) var lengths: [HTTP1Scanner.Lengths] = []
    /// The methods of the requests, or of the requests that the responses answer.
    private(set) var methods: [String] = []
    private var message = HTTP1Scanner.Lengths()
    private let isOverflowing: Bool

    private static let methods = ["GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"]
    private static let statuses = [200, 201, 204, 206, 301, 304, 404, 500]
    private static let names = ["X-Thing", "accept", "Cookies", "SET-COOKIE2", "content-lengths", "Via", "x"]
    private static let spaces = ["", " ", "\t", " \t ", String(repeating: " ", count: 300)]
    private static let text = Array("abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_.!~*'%^|+#&$`".utf8)

    /// - Parameter isOverflowing: Lengths are written as 2^64 more than they are. No parser may accept such a length.
    init(_ kind: HTTP1Scanner.Kind, count: Int, isOverflowing: Bool, _ random: inout Seeded) {
        self.isOverflowing = isOverflowing
        for index in 0..<count {
            self.message = HTTP1Scanner.Lengths()
            switch kind {
            case .request: self.addRequest(&random)
            case .response: self.addResponse(isLast: index == count - 1, &random)
            }
            self.lengths.append(self.message)
            // Line ends between messages (RFC 9112 section 2.2).
            if index < count - 1, random.isOne(in: 8) { self.bytes += Array("\r\n".utf8) }
        }
    }

    private mutating func addRequest(_ random: inout Seeded) {
        let method = random.pick(Self.methods)
        self.methods.append(method)
        self.add("\(method) /\(Self.token(&random)) HTTP/1.1\r\n", to: \.line)
        self.addFields(&random)
        switch random.number(0..<4) {
        case 0: self.addChunked(&random)
        case 1: self.addBody(ofLength: random.number(0..<3_000), isThere: true, &random)
        default: self.add("\r\n", to: \.header)
        }
    }

    private mutating func addResponse(isLast: Bool, _ random: inout Seeded) {
        let (method, status) = (random.pick(Self.methods), random.pick(Self.statuses))
        self.methods.append(method)
        if random.isOne(in: 6) {
            self.add("HTTP/1.1 103 Early Hints\r\n", to: \.line)
            self.addFields(&random)
            self.add("\r\n", to: \.header)
        }
        self.add("HTTP/1.1 \(status) \(random.pick(["OK", "", "Not OK"]))\r\n", to: \.line)
        self.addFields(&random)
        let hasBody = method != "HEAD" && status != 204 && status != 304
        switch random.number(0..<3) {
        case 0 where hasBody: self.addChunked(&random)
        case 1 where isLast && hasBody:
            // The body ends where the stream ends.
            self.add("\r\n", to: \.header)
            self.addBytes(random.number(0..<3_000), &random)
        default: self.addBody(ofLength: random.number(0..<3_000), isThere: hasBody, &random)
        }
    }

    private mutating func addFields(_ random: inout Seeded) {
        for _ in 0..<random.number(0..<6) { self.addField(&random) }
    }

    private mutating func addField(_ random: inout Seeded) {
        let cookie = random.isOne(in: 4) ? random.pick(["Cookie", "cookie", "Set-Cookie", "SET-cookie"]) : nil
        let space = random.pick(["", " ", "  ", "\t "])
        let value = (0..<random.number(0..<4)).map { _ in Self.token(&random) }.joined(separator: " \t")
        let before = self.bytes.count
        self.add("\(cookie ?? random.pick(Self.names)):\(space)\(value)\r\n", to: \.header)
        if cookie != nil { self.message.cookie += UInt64(self.bytes.count - before) }
    }

    /// - Parameter isThere: Whether the body follows. A response to `HEAD` states a length too, but has no body.
    private mutating func addBody(ofLength length: Int, isThere: Bool, _ random: inout Seeded) {
        let name = random.pick(["Content-Length", "content-length", "CONTENT-LENGTH"])
        let zeros = random.pick(["", "0", "000"])
        let digits = self.isOverflowing ? "18446744073\(709_551_616 + length)" : "\(zeros)\(length)"
        self.add("\(name):\(random.pick(Self.spaces))\(digits)\(random.pick(["", " "]))\r\n\r\n", to: \.header)
        if isThere { self.addBytes(length, &random) }
    }

    /// RFC 9112 section 7.1.
    private mutating func addChunked(_ random: inout Seeded) {
        let coding = random.pick(["chunked", "Chunked", "gzip, chunked"])
        self.add("Transfer-Encoding:\(random.pick(Self.spaces))\(coding)\r\n\r\n", to: \.header)
        for _ in 0..<random.number(0..<5) {
            let length = random.number(1..<random.pick([2, 20, 600]))
            self.addChunkSize(length, &random)
            self.addBytes(length, &random)
            self.add("\r\n", to: \.framing)
        }
        self.addChunkSize(0, &random)
        if random.isOne(in: 3) { self.addFields(&random) }
        self.add("\r\n", to: \.framing)
    }

    private mutating func addChunkSize(_ length: Int, _ random: inout Seeded) {
        let digits = String(length, radix: 16, uppercase: Bool.random(using: &random))
        var text = String(repeating: "0", count: random.pick([0, 0, 0, 1, 16 - digits.count])) + digits
        if self.isOverflowing { text = "1" + String(repeating: "0", count: 16 - digits.count) + digits }
        while random.isOne(in: 3) {
            text += ";" + Self.token(&random) + (random.isOne(in: 2) ? "=" + Self.token(&random) : "")
        }
        self.add(text + "\r\n", to: \.framing)
    }

    private mutating func addBytes(_ count: Int, _ random: inout Seeded) {
        for _ in 0..<count { self.bytes.append(random.pick([0x0d, 0x0a, UInt8(ascii: "0"), UInt8(ascii: "x")])) }
        self.message.body += UInt64(count)
    }

    private mutating func add(_ text: String, to part: WritableKeyPath<HTTP1Scanner.Lengths, UInt64>) {
        self.bytes += Array(text.utf8)
        self.message[keyPath: part] += UInt64(text.utf8.count)
    }

    private static func token(_ random: inout Seeded) -> String {
        String(decoding: (0..<random.number(1..<12)).map { _ in random.pick(self.text) }, as: UTF8.self)
    }
}
