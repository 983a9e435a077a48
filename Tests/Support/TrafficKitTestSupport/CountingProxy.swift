import Dispatch
import Foundation
import Glibc
import Synchronization

/// Forwards TCP connections unchanged and counts their bytes. This witness shares no code with what it checks.
public final class CountingProxy: Sendable {
    public struct Bytes: Hashable, Sendable {
        public var toServer: UInt64 = 0
        public var toClient: UInt64 = 0

        public init(toServer: UInt64 = 0, toClient: UInt64 = 0) {
            (self.toServer, self.toClient) = (toServer, toClient)
        }
    }

    struct Failure: Error {
        let call: String
        let code: Int32
    }

    public let port: Int
    private let listener: Int32
    private let target: UInt16
    /// The connection is cut after so many bytes to the client.
    private let cut: UInt64?
    /// Whether the cut is a reset, without an end of the stream, as when a server crashes.
    private let resets: Bool
    private let bytes = Mutex<[Bytes]>([])
    private let connections = DispatchGroup()
    private let queue = DispatchQueue(label: "counting proxy", attributes: .concurrent)

    public init(to target: Int, cutAfter cut: UInt64? = nil, byReset resets: Bool = false) throws {
        (self.listener, self.port) = try Self.listen()
        (self.target, self.cut, self.resets) = (UInt16(target), cut, resets)
        Thread.detachNewThread { self.accept() }
    }

    static func connect(_ descriptor: Int32, to port: UInt16) -> Bool {
        var address = Self.loopback(port)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }

    /// Bytes go out in the pieces in which they are written (TCP_NODELAY).
    static func sendAtOnce(_ descriptor: Int32) {
        var isOn: Int32 = 1
        setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
    }

    static func listen() throws -> (listener: Int32, port: Int) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = Self.loopback(0)
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && Glibc.listen(listener, 64) == 0
                    && getsockname(listener, $0, &length) == 0
            }
        }
        guard result else { throw Failure(call: "bind", code: errno) }
        return (listener, Int(UInt16(bigEndian: address.sin_port)))
    }

    /// The bytes of each connection, in the order in which connections came. Returns once all connections are over.
    public func stop() async -> [Bytes] {
        shutdown(self.listener, Int32(SHUT_RDWR))
        await withCheckedContinuation { continuation in
            self.connections.notify(queue: self.queue) { continuation.resume() }
        }
        return self.bytes.withLock { $0 }
    }

    private func accept() {
        while true {
            let client = Glibc.accept(self.listener, nil, nil)
            guard client >= 0 else { break }
            _ = fcntl(client, F_SETFD, FD_CLOEXEC)
            let server = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
            guard Self.connect(server, to: self.target) else {
                close(client)
                close(server)
                continue
            }
            for descriptor in [client, server] { Self.sendAtOnce(descriptor) }
            self.forward(client, server)
        }
        close(self.listener)
    }

    private func forward(_ client: Int32, _ server: Int32) {
        let index = self.bytes.withLock { bytes in
            bytes.append(Bytes())
            return bytes.count - 1
        }
        let open = Ends(client, server)
        for isToServer in [true, false] {
            self.connections.enter()
            Thread.detachNewThread {
                self.pump(isToServer ? client : server, isToServer ? server : client) { count in
                    self.bytes.withLock { bytes in
                        if isToServer { bytes[index].toServer += count } else { bytes[index].toClient += count }
                        return !isToServer && bytes[index].toClient >= self.cut ?? .max
                    }
                }
                open.leave()
                self.connections.leave()
            }
        }
    }

    private func pump(_ from: Int32, _ to: Int32, _ count: (UInt64) -> Bool) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let size = read(from, &buffer, buffer.count)
            guard size > 0 else { break }
            let isCut = count(UInt64(size))
            var sent = 0
            while sent < size {
                let result = buffer[sent..<size].withUnsafeBytes {
                    send(to, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
                }
                guard result > 0 else { break }
                sent += result
            }
            if isCut || sent < size {
                shutdown(from, Int32(SHUT_RDWR))
                if isCut && self.resets { return Self.reset(to) }
                break
            }
        }
        shutdown(to, Int32(SHUT_WR))
    }

    /// Makes the later close a reset. Waits before that until the other side's kernel has everything that was counted,
    /// because a reset drops what is not there yet.
    private static func reset(_ descriptor: Int32) {
        var unsent: Int32 = 0
        while ioctl(descriptor, UInt(TIOCOUTQ), &unsent) == 0 && unsent > 0 { usleep(1_000) }
        var option = linger(l_onoff: 1, l_linger: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        // This sends nothing. A thread that reads from the descriptor returns.
        shutdown(descriptor, Int32(SHUT_RD))
    }

    static func loopback(_ port: UInt16) -> sockaddr_in {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        return address
    }
}

/// Closes both ends of a connection when both directions are done.
private final class Ends: Sendable {
    private let descriptors: [Int32]
    private let left = Mutex(2)

    init(_ client: Int32, _ server: Int32) {
        self.descriptors = [client, server]
    }

    func leave() {
        let isLast = self.left.withLock { left in
            left -= 1
            return left == 0
        }
        if isLast { for descriptor in self.descriptors { close(descriptor) } }
    }
}
