public import TestSupport
import TrafficKit
import TrafficReport

/// HTTP/1.x compared with llhttp, as NIO has it. Both must find the same messages, of the same bytes, at the same
/// places, or the scanner must call the stream opaque from there on. Undamaged messages must be read as the writer
/// meant them. The pieces in which bytes come must make no difference.
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
        "Connection: close\r\n", "Connection: Upgrade\r\nUpgrade: x\r\n", "Connection: keep-alive, close\t\r\n",
        "CONNECT",
        "Proxy-Connection: keep-alive\r\n", "Connection: keep-alive\t ,x\r\n", "Upgrade:\r\n", "Upgrade: ", "close",
        "Set-Cookie: a=b\r\n", "Host:", "\u{e9}",
        "X: " + String(repeating: "y", count: 9_000) + "\r\n", "/" + String(repeating: "z", count: 9_000),
        "Transfer-Encoding:" + String(repeating: " ", count: 300) + "chunked\r\n",
    ].map { Array($0.utf8) }

    public init() {}

    public func run(_ random: inout Seeded) throws -> String? {
        let kind: HTTP1Scanner.Kind = Bool.random(using: &random) ? .request : .response
        let changes = random.pick([0, 1, 1, 2, 3, 5])
        var (bytes, methods): ([UInt8], [String])
        var written: HTTP1Writer?
        if random.isOne(in: 3) {
            let isOverflowing = changes > 0 && random.isOne(in: 8)
            let writer = HTTP1Writer(kind, count: random.number(1..<5), isOverflowing: isOverflowing, &random)
            (bytes, methods, written) = (writer.bytes, writer.methods, writer)
        } else {
            let exchanges = (0..<random.number(1..<4)).map { _ in random.pick(self.exchanges) }
            bytes = exchanges.flatMap { kind == .request ? $0.request : $0.response }
            methods = exchanges.map(\.method)
        }
        let count = methods.count
        random.mutate(&bytes, Self.dictionary, changes: changes)
        methods += repeatElement("GET", count: kind == .request ? 0 : Self.mostResponses(bytes))
        let log = HTTP1Log.read([bytes[...]], kind, methods)
        let text =
            try Self.compare(log, bytes, kind, methods, isWhole: changes == 0, &random)
            ?? (changes > 0 ? nil : Self.unread(log, written?.lengths, count))
        return text.map { "\(kind) \(methods.prefix(count)), \($0): \(bytes.escaped)" }
    }

    /// How often something begins like a response.
    private static func mostResponses(_ bytes: [UInt8]) -> Int {
        bytes.indices.dropLast(5).count { bytes[$0] == UInt8(ascii: "H") && bytes[$0 + 4] == UInt8(ascii: "/") }
    }

    /// - Returns: What differs from what was written.
    private static func unread(_ log: HTTP1Log, _ lengths: [HTTP1Scanner.Lengths]?, _ count: Int) -> String? {
        let isOver = log.isOver && log.opaqueFrom == log.messages.last?.end
        guard isOver || log.opaqueFrom == nil && log.complete.count == count else {
            return
                "\(log.complete.count) of \(count) whole messages, opaque from \(log.opaqueFrom.map(String.init) ?? "-")"
        }
        let read = log.complete.map(\.lengths)
        guard let lengths, !lengths.starts(with: read) else { return nil }
        return "written \(lengths), read \(read)"
    }

    /// - Parameters:
    ///   - log: What the scanner says of all bytes at once.
    ///   - methods: The methods that the responses answer.
    ///   - isWhole: Whether the bytes are undamaged. Then both must see equally many messages.
    /// - Returns: What differs.
    private static func compare(
        _ log: HTTP1Log,
        _ bytes: [UInt8],
        _ kind: HTTP1Scanner.Kind,
        _ methods: [String],
        isWhole: Bool,
        _ random: inout Seeded
    ) throws -> String? {
        if let gap = log.gap(in: bytes) { return gap }
        let cuts = random.cuts(bytes.count)
        let others = HTTP1Log.read(bytes.pieces(cuts), kind, methods)
        guard others == log else { return "in pieces, ending at \(cuts): \(others), whole: \(log)" }
        // llhttp gets pieces that end before and behind the last byte of each message, and where heads can end.
        var places = log.messages.flatMap { [Int($0.end) - 1, Int($0.end)] }
        places += bytes.indices.dropFirst(3).filter { place in
            bytes[place] == 10 && bytes[place - 1] == 13 && bytes[place - 2] == 10 && bytes[place - 3] == 13
        }.map { $0 + 1 }
        let theirs = try LLHTTP(kind, methods)
        for piece in bytes.pieces(places) { theirs.feed(piece) }
        theirs.close()
        if isWhole, log.complete.count != theirs.messages.count {
            return "\(log.complete.count) whole messages, llhttp \(theirs.messages.count)"
        }
        return Self.difference(log, theirs, bytes)
    }

    private static func difference(_ log: HTTP1Log, _ theirs: LLHTTP, _ bytes: [UInt8]) -> String? {
        let ours = log.complete
        for (message, their) in zip(ours, theirs.messages) {
            guard message.end == their.end, message.lengths.body == their.body else {
                return "\(message.lengths.body) bytes of body to \(message.end), llhttp \(their.body) to \(their.end)"
            }
            let lengths = HTTP1Scanner.Lengths(their, at: message.start, in: bytes)
            guard message.lengths == lengths else { return "\(message.lengths), by llhttp \(lengths)" }
            let (request, head) = (message.request, message.heads.last ?? MessageHead())
            guard request.method == their.method, head.status == their.status,
                request.target == their.target || their.target.utf8.count > 8_000
            else { return "\(request.method) \(request.target) \(head.status), by llhttp \(their)" }
        }
        // llhttp stopped at the words of a first line or at its limits. That says nothing about where messages end.
        if theirs.state == .over, ours.count >= theirs.messages.count { return nil }
        if ours.count == theirs.messages.count { return nil }
        if log.opaqueFrom != nil, ours.count < theirs.messages.count { return nil }
        return "\(ours.count) messages, llhttp \(theirs.messages.count), \(theirs.state)"
    }
}
