import Foundation
import Glibc
import Synchronization

/// Answers HTTP/1.1. The path selects an answer, which is sent byte for byte as written here. Keeps the requests.
final class ScriptedServer: Sendable {
    struct Request: Hashable, Sendable {
        /// With line ends, without the blank line.
        var head: String
        var body: [UInt8]

        var line: String { String(self.head.prefix { $0 != "\r\n" }) }
        /// Sorted, because a session sends them in the order of a dictionary.
        var fields: [String] { self.head.split(separator: "\r\n").dropFirst().map(String.init).sorted() }
    }

    let port: Int
    /// The requests as they come, for one test at a time.
    let arrivals: AsyncStream<Request>
    private let arrived: AsyncStream<Request>.Continuation
    private let held = DispatchSemaphore(value: 0)
    private let listener: Int32
    private let seen = Mutex<(connections: Int, idle: Int, requests: [Request])>((0, 0, []))
    /// libcurl uses no connection that was idle for longer (CURLOPT_MAXAGE_CONN: 118 s). On a machine that is busy enough, a
    /// test may take that long between two requests.
    static let longestIdle = Duration.seconds(117)

    /// 3,000 digits.
    private static let gzip: [UInt8] = [
        31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 237, 198, 73, 1, 0, 32, 8, 0, 176, 74, 120, 32, 218, 191, 152, 53, 120, 108,
        175, 197, 152, 107, 231, 169, 251, 194, 204, 204, 204, 204, 204, 154, 238, 3, 189, 252, 135, 154, 184, 11, 0,
        0,
    ]

    init() throws {
        (self.arrivals, self.arrived) = AsyncStream.makeStream()
        self.listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let listener = self.listener
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 64) == 0 && getsockname(listener, $0, &length) == 0
            }
        }
        guard result else { throw POSIXError(.EADDRINUSE) }
        self.port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { self.accept() }
    }

    var connections: Int { self.seen.withLock { $0.connections } }
    /// Connections that the client gave up when they had been idle for long: each may have cost a further one.
    var idleConnections: Int { self.seen.withLock { $0.idle } }
    var requests: [Request] { self.seen.withLock { $0.requests } }

    /// Lets the server answer `/held` once.
    func release() {
        self.held.signal()
    }

    func stop() {
        shutdown(self.listener, Int32(SHUT_RDWR))
    }

    private func accept() {
        while true {
            let client = Glibc.accept(self.listener, nil, nil)
            guard client >= 0 else { break }
            self.seen.withLock { $0.connections += 1 }
            Thread.detachNewThread {
                self.serve(client)
                close(client)
            }
        }
        close(self.listener)
    }

    private func serve(_ client: Int32) {
        var bytes: [UInt8] = []
        var lastUse = ContinuousClock.now
        defer { if lastUse.duration(to: .now) > Self.longestIdle { self.seen.withLock { $0.idle += 1 } } }
        while let request = self.read(client, &bytes) {
            defer { lastUse = .now }
            self.seen.withLock { $0.requests.append(request) }
            self.arrived.yield(request)
            let words = request.line.split(separator: " ")
            guard words.count == 3 else { return }
            if words[1] == "/held" { self.held.wait() }
            let (answer, goesOn) = self.answer(String(words[0]), String(words[1]), request)
            var sent = 0
            while sent < answer.count {
                let size = answer[sent...].withUnsafeBytes {
                    send(client, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard size > 0 else { return }
                sent += size
            }
            guard goesOn else { return }
        }
    }

    /// The bytes of the answer, and whether the connection stays open after it.
    private func answer(_ method: String, _ target: String, _ request: Request) -> (bytes: [UInt8], goesOn: Bool) {
        let parts = target.prefix { $0 != "?" }.split(separator: "/").map(String.init)
        let number = parts.count > 1 ? Int(parts[1]) ?? 0 : 0
        let make = { (status: String, fields: [String], body: [UInt8]) in
            let head = (["HTTP/1.1 \(status)"] + fields).joined(separator: "\r\n") + "\r\n\r\n"
            return Array(head.utf8) + (method == "HEAD" ? [] : body)
        }
        let length = { (count: Int) in "Content-Length: \(count)" }
        switch parts.first ?? "" {
        case "bytes":
            return (make("200 OK", [length(number)], .init(repeating: 120, count: number)), true)
        case "echo":
            let body = request.body
            return (make("200 All Right", [length(body.count), "Content-Type: application/json"], body), true)
        case "held":
            return (make("200 OK", [length(3)], Array("yes".utf8)), true)
        case "last":
            return (make("200 OK", [length(3)], Array("bye".utf8)), false)
        case "gzip":
            return (make("200 OK", [length(Self.gzip.count), "Content-Encoding: gzip"], Self.gzip), true)
        case "chunked":
            let chunks = "5\r\nabcde\r\n1a;x=y\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n"
            return (make("200 OK", ["Transfer-Encoding: chunked"], Array(chunks.utf8)), true)
        case "status":
            return (make("\(number) Some", number == 204 || number == 304 ? [] : [length(2)], Array("no".utf8)), true)
        case "to":
            return (make("\(number) Moved", ["Location: /echo", length(5)], Array("moved".utf8)), true)
        case "login":
            let fields = ["Set-Cookie: s=1; Path=/", "Set-Cookie: t=2; Path=/", "Location: /echo", length(0)]
            return (make("302 Found", fields, []), true)
        case "close":
            return (make("200 OK", ["Connection: close", length(7)], Array("goodbye".utf8)), false)
        case "cut":
            return (make("200 OK", [length(1_000)], .init(repeating: 120, count: 100)), false)
        case "half":
            return (make("200 OK", [length(1_000)], .init(repeating: 120, count: 100)), true)
        case "silent":
            return ([], true)
        default:
            return (make("404 Not Found", [length(0)], []), true)
        }
    }

    /// `nil` if the connection has ended.
    private func read(_ client: Int32, _ bytes: inout [UInt8]) -> Request? {
        let blank = Array("\r\n\r\n".utf8)
        var head: String?
        var left = 0
        while true {
            if head == nil, let end = bytes.firstRange(of: blank) {
                let text = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
                bytes.removeSubrange(..<end.upperBound)
                head = text
                let field = text.split(separator: "\r\n").first { $0.lowercased().hasPrefix("content-length:") }
                left = field.flatMap { Int($0.dropFirst(15).trimmingCharacters(in: .whitespaces)) } ?? 0
            }
            if let head, bytes.count >= left {
                defer { bytes.removeSubrange(..<left) }
                return Request(head: head, body: Array(bytes[..<left]))
            }
            var buffer = [UInt8](repeating: 0, count: 65_536)
            let size = recv(client, &buffer, buffer.count, 0)
            guard size > 0 else { return nil }
            bytes += buffer[..<size]
        }
    }
}
