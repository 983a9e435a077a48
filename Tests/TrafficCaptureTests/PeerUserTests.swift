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
}
