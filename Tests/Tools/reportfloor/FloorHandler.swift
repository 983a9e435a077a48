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
    private let sink: FloorSink
    private let route: FloorRoute?
    private let options: (any NIOSynchronousChannelOptions)?
    /// Until the kernel has taken them.
    private var written: [IOData] = []
    private var record = FloorRecord()

    init(
        role: Role,
        isHTTP2: Bool = false,
        sink: FloorSink,
        route: FloorRoute? = nil,
        options: (any NIOSynchronousChannelOptions)?
    ) {
        (self.role, self.isHTTP2, self.sink, self.route, self.options) = (role, isHTTP2, sink, route, options)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        self.record.times.0 = FloorSink.now()
        let messages = self.look(at: self.unwrapInboundIn(data))
        if self.role == .client { self.report(messages) }
        context.fireChannelRead(data)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        self.written.append(self.unwrapOutboundIn(data))
        context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        context.flush()
        guard !self.written.isEmpty, (try? self.options?.getOption(.bufferedWritableBytes)) == 0 else { return }
        self.record.times.1 = FloorSink.now()
        var messages = 0
        for case .byteBuffer(let buffer) in self.written { messages += self.look(at: buffer) }
        self.written.removeAll(keepingCapacity: true)
        if self.role == .server { self.report(messages) }
    }

    private func report(_ messages: Int) {
        for _ in 0..<messages {
            self.record.route = UInt64(truncatingIfNeeded: self.route?.take()?.utf8.count ?? 0)
            self.sink.append(self.record)
        }
    }

    /// - Returns: Messages that begin here.
    private func look(at buffer: ByteBuffer) -> Int {
        self.record.bytes += UInt64(buffer.readableBytes)
        return buffer.withUnsafeReadableBytes { self.isHTTP2 ? Self.frames($0) : self.lines($0) }
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

/// As large as the record of an exchange in TrafficKit's datagrams.
struct FloorRecord {
    var times: (UInt64, UInt64) = (0, 0)
    var bytes: UInt64 = 0
    var fields: UInt64 = 0
    var route: UInt64 = 0
    var rest: (UInt64, UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0, 0)
}

/// The router's path of the current request.
final class FloorRoute: Sendable {
    @TaskLocal static var current: FloorRoute?

    private let path = Mutex<String?>(nil)

    func put(_ path: String?) { self.path.withLock { $0 = path } }
    func take() -> String? { self.path.withLock { $0.take() } }
}

/// Sends full datagrams.
final class FloorSink: Sendable {
    private struct Datagram {
        var bytes = [UInt8](repeating: 0, count: FloorSink.size)
        var used = 0
    }

    private static let size = 8_192
    private let datagram = Mutex(Datagram())
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

    func append(_ record: FloorRecord) {
        self.datagram.withLock { datagram in
            withUnsafeBytes(of: record) { bytes in
                if datagram.used + bytes.count > datagram.bytes.count {
                    send(self.descriptor, datagram.bytes, datagram.used, 0)
                    datagram.used = 0
                }
                datagram.bytes.withUnsafeMutableBytes {
                    ($0.baseAddress! + datagram.used).copyMemory(from: bytes.baseAddress!, byteCount: bytes.count)
                }
                datagram.used += bytes.count
            }
        }
    }

    static func now() -> UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }
}
