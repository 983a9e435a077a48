import TrafficKit
import TrafficReport

/// HTTP/1.x against llhttp, as NIO has it: the same messages with the same bodies, or opaque from there on.
public struct HTTP1Fuzz: FuzzSubject {
    public static let name = "http1"

    private let exchanges = Traffic.exchanges()
    private static let dictionary: [[UInt8]] = [
        "\r\n", "\r", "\n", "\r\n\r\n", "\n\n", "\0", " ", "\t", ":", ",", ";", "0\r\n\r\n", "1\r\nx\r\n", "\u{7f}",
        "\u{b}",
        "Content-Length: 5\r\n", "Content-Length: 5, 5\r\n", "content-length:+5\r\n", "Content-Length : 5\r\n",
        "Transfer-Encoding: chunked\r\n", "Transfer-Encoding:\t chunked \r\n", "transfer-encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, gzip\r\n", "Transfer-Encoding\0: chunked\r\n", "Transfer-Encoding: xchunked\r\n",
        "chunked", "Transfer-Encoding: ", "Content-Length: ", " folded\r\n", ";ext=1", ";ext=\"q\"", "ffffffffffffffff",
        "18446744073709551616", "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "HEAD",
        "Connection: close\r\n", "Connection: Upgrade\r\nUpgrade: x\r\n", "Set-Cookie: a=b\r\n", "Host:", "\u{e9}",
        "X: " + String(repeating: "y", count: 9_000) + "\r\n", "/" + String(repeating: "z", count: 9_000),
        "Transfer-Encoding:" + String(repeating: " ", count: 300) + "chunked\r\n",
    ].map { Array($0.utf8) }

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let isRequest = Bool.random(using: &random)
        let exchanges = (0..<random.number(1..<4)).map { _ in random.pick(self.exchanges) }
        var bytes = exchanges.flatMap { isRequest ? $0.request : $0.response }
        random.mutate(&bytes, Self.dictionary, changes: random.pick([0, 1, 1, 2, 3, 5]))
        let pieces = random.split(bytes)
        let methods = exchanges.map(\.method) + repeatElement("GET", count: 30)
        if let text = try Self.compare(pieces, isRequest ? .request : .response, methods) {
            return "\(isRequest ? "request" : "response \(exchanges.map(\.method))"), \(text): \(bytes.escaped)"
        }
        return nil
    }

    /// - Parameter methods: That responses answer.
    /// - Returns: What differs.
    static func compare(
        _ pieces: [ArraySlice<UInt8>],
        _ kind: HTTP1Scanner.Kind,
        _ methods: [String]
    ) throws -> String? {
        var (scanner, ours) = (HTTP1Scanner(kind), Recorder(methods: methods))
        let theirs = try LLHTTP(kind, methods)
        for piece in pieces {
            scanner.scan(Array(piece).span, &ours)
            theirs.feed(piece)
            if let text = Self.difference(ours, scanner.isOpaque, theirs) { return text }
        }
        let count = UInt64(pieces.reduce(0) { $0 + $1.count })
        scanner.close(&ours)
        theirs.close()
        guard scanner.position == count, ours.bytes == ours.opaqueFrom ?? count else {
            return "\(ours.bytes) of \(count) bytes are in messages or between them"
        }
        return Self.difference(ours, scanner.isOpaque, theirs)
    }

    private static func difference(_ ours: Recorder, _ isOpaque: Bool, _ theirs: LLHTTP) -> String? {
        let common = min(ours.bodies.count, theirs.bodies.count)
        guard ours.bodies.prefix(common) == theirs.bodies.prefix(common) else {
            return "bodies \(ours.bodies), llhttp \(theirs.bodies)"
        }
        // They go no further, which is no question of where messages end.
        if theirs.state == .over, ours.bodies.count >= common { return nil }
        if ours.bodies.count == theirs.bodies.count { return nil }
        if isOpaque, ours.bodies.count < theirs.bodies.count { return nil }
        return "\(ours.bodies.count) messages, llhttp \(theirs.bodies.count), \(theirs.state)"
    }

    /// What the scanner tells.
    private struct Recorder: HTTP1Sink {
        var methods: [String]
        /// Of messages that are complete.
        var bodies: [UInt64] = []
        var bytes: UInt64 = 0
        var opaqueFrom: UInt64?

        init(methods: [String]) { self.methods = methods.reversed() }

        mutating func passed(_ kind: HTTP1Scanner.Kind, lineEnds count: UInt64) { self.bytes += count }
        mutating func began(_ kind: HTTP1Scanner.Kind, at position: UInt64) {}
        mutating func headEnded(_ kind: HTTP1Scanner.Kind, _ head: HTTP1Head, of request: HTTP1Head.Request) {}
        mutating func ended(
            _ kind: HTTP1Scanner.Kind,
            _ lengths: HTTP1Scanner.Lengths,
            at position: UInt64,
            isComplete: Bool
        ) {
            self.bytes += lengths.total
            if isComplete { self.bodies.append(lengths.body) }
        }
        mutating func becameOpaque(_ kind: HTTP1Scanner.Kind, from position: UInt64) { self.opaqueFrom = position }
        mutating func takeMethod() -> String? { self.methods.popLast() }
    }
}
