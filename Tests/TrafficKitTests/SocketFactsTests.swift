import Glibc
import Testing

@testable import TrafficKit

@Suite("What the kernel reports about a socket's streams")
struct SocketFactsTests {
    /// Two ends of a TCP connection on loopback.
    ///
    /// - Parameter number: The number of the protocol. 0 is TCP.
    private static func connection(_ number: Int32 = 0) throws -> (client: Int32, server: Int32) {
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), number)
        defer { close(listener) }
        let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), number)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0 && getsockname(listener, $0, &length) == 0
                    && connect(client, $0, length) == 0
            }
        }
        try #require(result)
        return (client, accept(listener, nil, nil))
    }

    private static func read(_ socket: Int32, _ count: Int) {
        var buffer = [UInt8](repeating: 0, count: count)
        recv(socket, &buffer, count, Int32(MSG_WAITALL))
    }

    @Test("bytes that were sent, and arrived bytes that were read; the end of a stream is no byte")
    func bytes() throws {
        let (client, server) = try Self.connection()
        defer { for socket in [client, server] { close(socket) } }
        let none = SocketFacts(of: client, isConnected: true)
        #expect(none.cookie != 0 && none.sentBytes == 0 && none.receivedBytes == 0 && none.isFresh)
        #expect(write(client, [UInt8](repeating: 1, count: 1_000), 1_000) == 1_000)
        let written = SocketFacts(of: client, isConnected: true)
        #expect(written.sentBytes == 1_000 && !written.isFresh)
        Self.read(server, 300)
        #expect(SocketFacts(of: server, isConnected: true).receivedBytes == 300)
        Self.read(server, 700)
        #expect(write(client, [2], 1) == 1)
        shutdown(client, Int32(SHUT_WR))
        Self.read(server, 2)  // until the end
        let facts = SocketFacts(of: server, isConnected: true)
        #expect(facts.receivedBytes == 1_001 && facts.sentBytes == 0 && facts.isFresh)
        #expect(facts.cookie != none.cookie)
        #expect(SocketFacts(of: client, isConnected: true).sentBytes == 1_001)
    }

    @Test("bytes for which the other side has no room count as sent")
    func full() throws {
        let (client, server) = try Self.connection()
        defer { for socket in [client, server] { close(socket) } }
        let flags = fcntl(client, F_GETFL)
        try #require(fcntl(client, F_SETFL, flags | O_NONBLOCK) == 0)
        let piece = [UInt8](repeating: 1, count: 65_536)
        var taken = 0
        while true {
            let size = write(client, piece, piece.count)
            guard size > 0 else { break }
            taken += size
        }
        #expect(taken > 0 && SocketFacts(of: client, isConnected: true).sentBytes == UInt64(taken))
        #expect(SocketFacts(of: server, isConnected: true).receivedBytes == 0)
    }

    @Test("counters that contradict each other give no position, and no number that makes a sum trap")
    func contradiction() {
        #expect(SocketFacts.bytes(of: 10, without: 10) == 0)
        #expect(SocketFacts.bytes(of: 10, without: 11) == nil)
        #expect(SocketFacts.bytes(of: 0, without: 1) == nil)
        #expect(SocketFacts.bytes(of: 10, and: 5, without: 12) == 3)
        #expect(SocketFacts.bytes(of: 10, and: 5, without: 16) == nil)
        #expect(SocketFacts.bytes(of: 1 << 62 - 1, and: 1 << 32 - 1, without: 0) == 1 << 62 + 1 << 32 - 2)
        for count in [1 << 62, 1 << 63, UInt64.max] { #expect(SocketFacts.bytes(of: count, without: 0) == nil) }
        #expect(SocketFacts.bytes(of: 0, and: .max, without: 0) == nil)
    }

    private static let multipath: Int32 = 262
    /// The kernel supports such sockets.
    private static let hasMultipath: Bool = {
        let probe = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), Self.multipath)
        close(probe)
        return probe >= 0
    }()

    @Test(
        "for Multipath TCP the kernel reports one subflow, so received bytes are at most those of that subflow",
        .enabled(if: Self.hasMultipath)
    )
    func multipath() throws {
        let (client, server) = try Self.connection(Self.multipath)
        defer { for socket in [client, server] { close(socket) } }
        #expect(write(client, [UInt8](repeating: 1, count: 1_000), 1_000) == 1_000)
        shutdown(client, Int32(SHUT_WR))
        Self.read(server, 300)
        let facts = SocketFacts(of: server, isConnected: true)
        #expect(facts.receivedBytes <= 1_000 && facts.sentBytes == 0)
    }

    @Test("other sockets than TCP have no known byte counts, and sockets that the daemon does not count have no cookie")
    func others() {
        let datagrams = socket(AF_INET6, Int32(SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        let local = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { for socket in [datagrams, local] { close(socket) } }
        for isConnected in [false, true] {
            let facts = SocketFacts(of: local, isConnected: isConnected)
            #expect(facts.cookie == 0 && facts.isSocket && facts.isFresh == !isConnected)
        }
        let facts = SocketFacts(of: datagrams, isConnected: true)
        #expect(facts.cookie != 0 && facts.sentBytes == 0 && facts.receivedBytes == 0 && !facts.isFresh)
        let unconnected = SocketFacts(of: datagrams, isConnected: false)
        #expect(unconnected.cookie == facts.cookie && unconnected.sentBytes == 0 && unconnected.isFresh)
        #expect(SocketFacts(of: -1, isConnected: true) == SocketFacts())
    }
}
