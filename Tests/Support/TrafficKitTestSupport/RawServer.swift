import Foundation
import Glibc

/// A server that knows no protocol. The test decides what happens on a connection.
public final class RawServer: Sendable {
    public let port: Int
    private let listener: Int32

    /// - Parameter serve: Runs on a thread of its own for each connection. The connection is closed afterwards.
    public init(_ serve: @escaping @Sendable (RawConnection) -> Void) throws {
        let (listener, port) = try CountingProxy.listen()
        (self.listener, self.port) = (listener, port)
        Thread.detachNewThread {
            while true {
                let descriptor = accept(listener, nil, nil)
                guard descriptor >= 0 else { break }
                _ = fcntl(descriptor, F_SETFD, FD_CLOEXEC)
                Thread.detachNewThread {
                    serve(RawConnection(descriptor: descriptor))
                    close(descriptor)
                }
            }
            close(listener)
        }
    }

    public func stop() {
        shutdown(self.listener, Int32(SHUT_RDWR))
    }
}

/// A TCP connection. Each call blocks its thread.
public struct RawConnection: Sendable {
    let descriptor: Int32

    /// Connects to a port of loopback, and closes the connection when `body` is done. Runs on a thread of its own.
    public static func open<Result: Sendable>(
        to port: Int,
        _ body: @escaping @Sendable (RawConnection) -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
                defer { close(descriptor) }
                guard CountingProxy.connect(descriptor, to: UInt16(port)) else {
                    return continuation.resume(throwing: CountingProxy.Failure(call: "connect", code: errno))
                }
                CountingProxy.sendAtOnce(descriptor)
                continuation.resume(returning: body(RawConnection(descriptor: descriptor)))
            }
        }
    }

    /// - Returns: Whether the kernel took all bytes.
    @discardableResult
    public func send(_ bytes: some Sequence<UInt8>) -> Bool {
        let bytes = Array(bytes)
        var sent = 0
        while sent < bytes.count {
            let size = bytes[sent...].withUnsafeBytes {
                Glibc.send(self.descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
            }
            guard size > 0 else { return false }
            sent += size
        }
        return true
    }

    /// Reads up to the blank line of a message's head, and nothing of what follows.
    public func readHead() -> String {
        var head: [UInt8] = []
        var byte: UInt8 = 0
        while !head.suffix(4).elementsEqual("\r\n\r\n".utf8), recv(self.descriptor, &byte, 1, 0) == 1 {
            head.append(byte)
        }
        return String(decoding: head, as: UTF8.self)
    }

    /// Reads `count` bytes, or up to the end.
    public func read(_ count: Int) {
        var bytes = [UInt8](repeating: 0, count: count)
        _ = recv(self.descriptor, &bytes, count, Int32(MSG_WAITALL))
    }

    /// Reads until the other side has closed.
    @discardableResult
    public func readToEnd() -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let size = recv(self.descriptor, &buffer, buffer.count, 0)
            guard size > 0 else { return bytes }
            bytes += buffer[..<size]
        }
    }
}
