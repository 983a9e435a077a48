import CLinux
import Foundation
import Glibc
import TestSupport
import Testing
import TrafficModel

@testable import TrafficCapture

@Suite("Who has the other end of a TCP connection")
struct PeerUserTests {
    /// Connects to itself as a user of its own, and says both ends of the connection, and where it listens.
    private static let client = """
        import os, socket, sys
        family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
        listener = socket.create_server((sys.argv[1], 0), family=family, dualstack_ipv6=sys.argv[1] == "::")
        if os.getuid() == 0: os.setuid(65534)
        port = listener.getsockname()[1]
        peer = socket.socket(family if sys.argv[1] != "::" else socket.AF_INET)
        if sys.argv[3] == "bound": peer.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo")
        peer.connect((sys.argv[2], port))
        accepted, _ = listener.accept()
        print(peer.getsockname()[0], peer.getsockname()[1], peer.getpeername()[0], port, flush=True)
        sys.stdin.readline()
        peer.close()
        print("closed", flush=True)
        sys.stdin.readline()
        """

    @Test(
        "it is the user of the process, as long as the process has the connection open",
        arguments: [
            ("127.0.0.1", "127.0.0.1", ""), ("::1", "::1", ""), ("::", "127.0.0.1", ""),
            ("127.0.0.1", "127.0.0.1", "bound"),
            ("::1", "::1", "bound"),
        ]
    )
    func user(listening: String, connecting: String, device: String) async throws {
        let python = URL(filePath: "/usr/bin/python3")
        let program = try Program(python, ["-c", Self.client, listening, connecting, device])
        let line = String(decoding: try #require(try await program.line(), "\(program.errorText)"), as: UTF8.self)
        let words = line.split(separator: " ").map(String.init)
        try #require(words.count == 4)
        func address(_ text: String, _ port: String) throws -> SocketAddress {
            SocketAddress(address: try #require(InternetAddress(text)), port: try #require(UInt16(port)))
        }
        let (peer, own) = (try address(words[0], words[1]), try address(words[2], words[3]))
        let uid = getuid() == 0 ? 65_534 : getuid()
        #expect(SocketDiagnostics.user(ofPeer: peer, connectedTo: own) == uid)
        // A socket that listens is no end of a connection, although its port is the peer's.
        #expect(SocketDiagnostics.user(ofPeer: own, connectedTo: SocketAddress(address: peer.address, port: 9)) == nil)
        // A host elsewhere.
        let elsewhere = SocketAddress(address: try #require(InternetAddress("192.0.2.1")), port: own.port)
        #expect(SocketDiagnostics.user(ofPeer: elsewhere, connectedTo: own) == nil)
        try program.writeLine()
        #expect(try await program.line() == Data("closed".utf8))
        #expect(SocketDiagnostics.user(ofPeer: peer, connectedTo: own) == nil)
    }

    @Test(
        "a socket that claims a foreign address, and waits there for an answer, is not the other end",
        .enabled(if: getuid() == 0)
    )
    func claimed() throws {
        let claimed = try #require(InternetAddress("2001:db8::99"))
        let own = try #require(InternetAddress("::1"))
        let (_, users) = try OwnNamespace.run {
            let listener = try Self.socket()
            _ = try Self.with(own, port: 0) { address, length in
                try check("bind") { bind(listener.descriptor, address, length) }
                try check("listen") { listen(listener.descriptor, 1) }
            }
            let client = try Self.socket()
            var on: Int32 = 1
            let freeBind: Int32 = 78  // IPV6_FREEBIND, which Glibc's module lacks
            try check("IPV6_FREEBIND") {
                setsockopt(client.descriptor, Int32(IPPROTO_IPV6), freeBind, &on, socklen_t(MemoryLayout<Int32>.size))
            }
            _ = try Self.with(claimed, port: 4_000) { address, length in
                try check("bind") { bind(client.descriptor, address, length) }
            }
            let port = try Self.port(of: listener.descriptor)
            let result = Self.with(own, port: port) { address, length in connect(client.descriptor, address, length) }
            try #require(result < 0 && errno == EINPROGRESS)
            let request = try Tool.wait(for: "ss", ["-Htn", "state", "syn-sent"])
            let (peer, end) = (SocketAddress(address: claimed, port: 4_000), SocketAddress(address: own, port: port))
            return (waiting: request.output, user: SocketDiagnostics.user(ofPeer: peer, connectedTo: end))
        }
        #expect(users.waiting.contains("[2001:db8::99]:4000"))
        #expect(users.user == nil)
    }

    private static func socket() throws -> OwnedDescriptor {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue)
        return OwnedDescriptor(owning: try check("socket") { Glibc.socket(AF_INET6, type, 0) })
    }

    private static func port(of descriptor: Int32) throws -> UInt16 {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        try withUnsafeMutablePointer(to: &address) { address in
            _ = try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                try check("getsockname") { getsockname(descriptor, address, &length) }
            }
        }
        return UInt16(bigEndian: address.sin6_port)
    }

    private static func with<Result>(
        _ address: InternetAddress,
        port: UInt16,
        _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result
    ) rethrows -> Result {
        var end = sockaddr_in6()
        end.sin6_family = sa_family_t(AF_INET6)
        end.sin6_port = port.bigEndian
        withUnsafeMutableBytes(of: &end.sin6_addr) { bytes in
            for index in bytes.indices { bytes[index] = address.bytes[index] }
        }
        return try withUnsafePointer(to: end) { end in
            try end.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                try body($0, socklen_t(MemoryLayout<sockaddr_in6>.size))
            }
        }
    }
}
