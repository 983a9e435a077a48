import CNIOLLHTTP
import Glibc
import NIOCore
import Synchronization

/// Looks at all bytes that pass, and puts a record of each exchange into a datagram.
final class FloorHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    enum Role { case client, server }

    private let role: Role
    private let isHTTP2: Bool
    private let route: FloorRoute?
    private let options: (any NIOSynchronousChannelOptions)?
    private let parsers: (received: FloorParser, sent: FloorParser)?
    private var datagram: FloorDatagram
    private var record = FloorRecord()
    /// Messages that the kernel has not taken.
    private var written = 0

    init(
        role: Role,
        isHTTP2: Bool = false,
        parses: Bool,
        socket: FloorSocket,
        route: FloorRoute? = nil,
        options: (any NIOSynchronousChannelOptions)?
    ) {
        (self.role, self.isHTTP2, self.route, self.options) = (role, isHTTP2, route, options)
        let (requests, responses) = (HTTP_REQUEST, HTTP_RESPONSE)
        let isServer = role == .server
        self.parsers =
            parses ? (FloorParser(isServer ? requests : responses), FloorParser(isServer ? responses : requests)) : nil
        self.datagram = FloorDatagram(socket)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.record.times.0 = FloorRecord.now()
        let messages = self.look(at: self.unwrapInboundIn(data), self.parsers?.received)
        if self.role == .client { self.report(messages) }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .byteBuffer(let buffer) = self.unwrapOutboundIn(data) {
            self.written += self.look(at: buffer, self.parsers?.sent)
        }
        context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        context.flush()
        guard self.written > 0, (try? self.options?.getOption(.bufferedWritableBytes)) == 0 else { return }
        self.record.times.1 = FloorRecord.now()
        if self.role == .server { self.report(self.written) }
        self.written = 0
    }

    private func report(_ messages: Int) {
        for _ in 0..<messages {
            self.record.route = UInt64(truncatingIfNeeded: self.route?.take()?.utf8.count ?? 0)
            self.datagram.append(self.record)
        }
    }

    /// - Returns: Messages that begin here; with a parser, that end here.
    private func look(at buffer: ByteBuffer, _ parser: FloorParser?) -> Int {
        self.record.bytes += UInt64(buffer.readableBytes)
        guard let parser else {
            return buffer.withUnsafeReadableBytes { self.isHTTP2 ? Self.frames($0) : self.lines($0) }
        }
        defer { self.record.fields = parser.work }
        return buffer.withUnsafeReadableBytes { parser.read($0) }
    }

    /// The heads of all frames (RFC 9113 section 4.1), which must begin at the first byte.
    private static func frames(_ bytes: UnsafeRawBufferPointer) -> Int {
        var (position, heads) = (0, 0)
        while position + 9 <= bytes.count {
            let length = Int(bytes[position]) << 16 | Int(bytes[position + 1]) << 8 | Int(bytes[position + 2])
            if bytes[position + 3] == 1 { heads += 1 }
            position += 9 + length
        }
        return heads
    }

    /// The first byte of each line tells whether a library must read the field.
    private func lines(_ bytes: UnsafeRawBufferPointer) -> Int {
        guard bytes.count > 4, let start = bytes.baseAddress else { return 0 }
        // A body has no head: here none begins with this letter. Requests begin with GET, responses with HTTP.
        guard bytes[0] == UInt8(ascii: "G") || bytes[0] == UInt8(ascii: "H") else { return 0 }
        var position = 0
        while let end = memchr(start + position, 10, bytes.count - position) {
            position = start.distance(to: UnsafeRawPointer(end)) + 1
            guard position < bytes.count, bytes[position] != 13 else { break }
            if bytes[position] | 0x20 == UInt8(ascii: "c") { self.record.fields += 1 }
        }
        return 1
    }
}

/// 136 bytes, as TrafficKit's shortest record of a whole exchange.
struct FloorRecord {
    var times: (UInt64, UInt64) = (0, 0)
    var bytes: UInt64 = 0
    var fields: UInt64 = 0
    var route: UInt64 = 0
    var rest: InlineArray<12, UInt64> = .init(repeating: 0)

    static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}

/// The router's path of the connection's current request.
final class FloorRoute: Sendable {
    @TaskLocal static var current: FloorRoute?

    private let path = Mutex<String?>(nil)

    func put(_ path: String?) { self.path.withLock { $0 = path } }
    func take() -> String? { self.path.withLock { $0.take() } }
}

final class FloorSocket: Sendable {
    private let descriptor: Int32

    init(path: String) {
        self.descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(self.descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        precondition(result == 0, "nobody listens at \(path)")
    }

    /// Errors are ignored: a full queue loses the datagram, and nobody misses it.
    func send(_ bytes: [UInt8]) { _ = Glibc.send(self.descriptor, bytes, bytes.count, 0) }
}

/// Gathers the records of one connection, so that no thread waits for another. Sent when it is full.
struct FloorDatagram {
    /// As large as TrafficKit's.
    private static let size = 49_152

    private let socket: FloorSocket
    private var bytes: [UInt8] = []

    init(_ socket: FloorSocket) { self.socket = socket }

    mutating func append(_ record: FloorRecord) {
        if self.bytes.count + MemoryLayout<FloorRecord>.size > Self.size {
            self.socket.send(self.bytes)
            self.bytes.removeAll(keepingCapacity: true)
        }
        withUnsafeBytes(of: record) { self.bytes.append(contentsOf: $0) }
    }
}
