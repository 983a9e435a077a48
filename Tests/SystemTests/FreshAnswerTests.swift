import Foundation
import Glibc
import GroundTruth
import Testing
import TrafficCapture
import TrafficModel

extension SystemTests {
    /// Requests to a daemon with an interval of a minute, so that only a request causes a sweep.
    @Suite(.needsBPF)
    struct FreshAnswerTests {
        @Test("bytes that moved before a request are in its answer, 50 times in a row")
        func fresh() async throws {
            try await withDaemon(arguments: ["--interval", "60"]) { daemon in
                let pair = try LoopbackPair()
                var moved: UInt64 = 0
                var olderAnswers = 0
                for round in 1...50 {
                    try pair.move(round)
                    moved += UInt64(round)
                    let asked = MonotonicClock.boottimeNanoseconds()
                    var snapshot = try await daemon.latestSnapshot()
                    // A daemon that is too busy for a sweep answers with an older reading, but not before two seconds
                    // have passed. So many such answers take ten minutes.
                    var began = asked
                    while snapshot.takenBoottimeNanoseconds <= asked {
                        let now = MonotonicClock.boottimeNanoseconds()
                        try #require(now - began >= 2_000_000_000, "an older answer came at once")
                        olderAnswers += 1
                        try #require(olderAnswers < 300, "a request causes no sweep")
                        began = now
                        snapshot = try await daemon.latestSnapshot()
                    }
                    let sockets = snapshot.sockets ?? []
                    let client = try #require(sockets.first { $0.cookie == pair.clientCookie })
                    let server = try #require(sockets.first { $0.cookie == pair.serverCookie })
                    #expect(client.bytes.payload == PayloadBytes(sent: moved))
                    #expect(server.bytes.payload == PayloadBytes(received: moved))
                }
            }
        }
    }
}

/// A TCP connection of this process with itself.
private final class LoopbackPair {
    private let listener: Int32
    private let client: Int32
    private let server: Int32

    init() throws {
        self.listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        self.client = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let (listener, client) = (self.listener, self.client)
        let isConnected = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(listener, $0, length) == 0 && listen(listener, 1) == 0
                    && getsockname(listener, $0, &length) == 0 && connect(client, $0, length) == 0
            }
        }
        self.server = isConnected ? accept(listener, nil, nil) : -1
        try #require(self.server >= 0)
    }

    deinit {
        for descriptor in [self.listener, self.client, self.server] { close(descriptor) }
    }

    func move(_ count: Int) throws {
        var buffer = [UInt8](repeating: 7, count: count)
        try #require(send(self.client, buffer, count, 0) == count)
        try #require(recv(self.server, &buffer, count, Int32(MSG_WAITALL)) == count)
    }

    var clientCookie: SocketCookie { Self.cookie(of: self.client) }
    var serverCookie: SocketCookie { Self.cookie(of: self.server) }

    private static func cookie(of descriptor: Int32) -> SocketCookie {
        var cookie: UInt64 = 0
        var length = socklen_t(MemoryLayout<UInt64>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length)
        return SocketCookie(rawValue: cookie)
    }
}
