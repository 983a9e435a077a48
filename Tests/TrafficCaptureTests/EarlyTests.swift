import CLinux
import Foundation
import Glibc
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// Sends segments with payload to a listener, without a connection. The map of early segments has room for 64 here.
    @Test(
        "after a flood that may have displaced early segments, a new connection's early bytes are unknown",
        arguments: [0, 20, 200]
    )
    func strayToListener(segments: Int) throws {
        let capture = try BPFCapture(method: self.method, mapElements: 64)
        let (_, cookies) = try OwnNamespace.run {
            let listener = OwnedDescriptor(
                owning: try check("socket") { socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0) }
            )
            try Self.sendStrays(segments, to: try Self.listen(listener.descriptor))
            let pair = try SocketPair()
            try pair.transfer(1_000)
            let seen = try capture.look()
            return pair.cookies.compactMap { seen[$0] }
        }
        #expect(cookies.map(\.role) == [.client, .server])
        #expect(cookies.map(\.stream?.isEarlyUnknown) == [nil, segments > 32 ? true : nil])
    }

    /// A client that does not acknowledge at once (TCP_QUICKACK is 0) sends its first byte with the last segment of the
    /// handshake. That byte counts for the listener, and then the connection takes it.
    @Test("connections that took their early segments leave no later one in doubt")
    func takenEarlySegments() throws {
        let connections = 100
        let capture = try BPFCapture(method: self.method, mapElements: 64)
        let (_, seen) = try OwnNamespace.run {
            let program = """
                import socket, sys
                listener = socket.create_server(("127.0.0.1", 0), backlog=8)
                kept = []
                for _ in range(\(connections)):
                    client = socket.socket()
                    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
                    client.connect(listener.getsockname())
                    client.send(b"x")
                    server, _ = listener.accept()
                    assert server.recv(1) == b"x"
                    kept.append((client, server))
                print("done", flush=True)
                sys.stdin.readline()
                """
            let (process, input, output) = try LiveCaptureTests.python(program)
            defer {
                try? input.fileHandleForWriting.close()
                process.waitUntilExit()
            }
            try #require(try output.nextLine() == "done")
            let own = try #require(ProcessDirectory.networkNamespace(task: "thread-self"))
            return try capture.look().byCookie.values.filter { $0.networkNamespace == own && $0.role == .server }
        }
        #expect(seen.count == connections)
        // After a pause of 40 ms the kernel acknowledges first. More than half of the map proves the point.
        try #require(seen.count { $0.stream?.early == 1 } > 32)
        #expect(seen.allSatisfy { $0.stream?.isEarlyUnknown == nil })
    }

    private static let loopback = UInt32(0x7f00_0001)

    /// - Returns: The port.
    private static func listen(_ descriptor: Int32) throws -> UInt16 {
        try check("listen") { Glibc.listen(descriptor, 1) }
        var address = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        try withUnsafeMutablePointer(to: &address) { address in
            try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                _ = try check("getsockname") { getsockname(descriptor, address, &length) }
            }
        }
        return UInt16(bigEndian: address.sin_port)
    }

    /// Acknowledgements without a connection, each from another port (RFC 9293 section 3.1).
    private static func sendStrays(_ count: Int, to port: UInt16) throws {
        let raw = OwnedDescriptor(
            owning: try check("socket") {
                socket(AF_INET, Int32(SOCK_RAW.rawValue | SOCK_CLOEXEC.rawValue), Int32(IPPROTO_TCP))
            }
        )
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = Self.loopback.bigEndian
        for number in 0..<count {
            let from = UInt16(10_000 + number)
            var segment: [UInt8] = [UInt8(from >> 8), UInt8(from & 0xff), UInt8(port >> 8), UInt8(port & 0xff)]
            segment += [0, 0, 0, 1, 0, 0, 0, 1, 5 << 4, 0x10, 1, 0, 0, 0, 0, 0, 0x55, 0x55]
            let pseudo: [UInt8] = [127, 0, 0, 1, 127, 0, 0, 1, 0, 6, 0, UInt8(segment.count)]
            let sum = Self.checksum(pseudo + segment)
            (segment[16], segment[17]) = (UInt8(sum >> 8), UInt8(sum & 0xff))
            let bytes = segment
            try withUnsafeMutablePointer(to: &address) { address in
                try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    _ = try check("sendto") {
                        sendto(
                            raw.descriptor,
                            bytes,
                            bytes.count,
                            0,
                            address,
                            socklen_t(MemoryLayout<sockaddr_in>.size)
                        )
                    }
                }
            }
        }
    }

    /// RFC 1071, of an even number of bytes.
    private static func checksum(_ bytes: [UInt8]) -> UInt16 {
        var sum: UInt32 = 0
        for index in stride(from: 0, to: bytes.count, by: 2) {
            sum += UInt32(bytes[index]) << 8 | UInt32(bytes[index + 1])
        }
        while sum > 0xffff { sum = (sum & 0xffff) + (sum >> 16) }
        return ~UInt16(sum)
    }
}
