import CLinux
import Glibc
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

extension LiveCaptureTests {
    /// When sockets connected, against the clock before and after the call.
    @Suite("Connecting")
    struct ConnectTests {
        let method = LiveMethod.probed.method ?? .tracepoint

        private static func now() -> UInt64 {
            var time = timespec()
            clock_gettime(CLOCK_BOOTTIME, &time)
            return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
        }

        private static func makeSocket(isMPTCP: Bool = false) throws -> OwnedDescriptor {
            let number: Int32 = isMPTCP ? 262 : 0
            return OwnedDescriptor(
                owning: try check("socket") {
                    socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), number)
                }
            )
        }

        /// Not every kernel has MPTCP, and not every kernel allows every user to use it.
        private static var hasMPTCP: Bool { (try? Self.makeSocket(isMPTCP: true).descriptor) != nil }

        private static func loopback(family: Int32 = AF_INET) -> sockaddr_in {
            var address = sockaddr_in()
            address.sin_family = sa_family_t(family)
            address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
            return address
        }

        /// - Returns: The error number; 0: none.
        private static func connect(_ socket: borrowing OwnedDescriptor, _ address: sockaddr_in) -> Int32 {
            withUnsafePointer(to: address) { address in
                address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Glibc.connect(socket.descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0 ? 0 : errno
                }
            }
        }

        /// Binds to a free port.
        private static func bind(_ socket: borrowing OwnedDescriptor) throws -> sockaddr_in {
            var address = Self.loopback()
            var length = socklen_t(MemoryLayout<sockaddr_in>.size)
            try withUnsafeMutablePointer(to: &address) { address in
                try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                    try check("bind") { Glibc.bind(socket.descriptor, address, length) }
                    try check("getsockname") { getsockname(socket.descriptor, address, &length) }
                }
            }
            return address
        }

        /// - Parameter bounds: Readings of the clock before and after the call.
        private func expect(_ times: ConnectTimes?, within bounds: ClosedRange<UInt64>) throws {
            let times = try #require(times)
            #expect(bounds.contains(times.beganAt) && bounds.contains(times.endedAt))
            #expect(times.duration > 0)
        }

        @Test("takes a time within the call, though the socket is older; each connection has its own time")
        func times() throws {
            let capture = try BPFCapture(method: self.method)
            let listener = try Self.makeSocket()
            let client = try Self.makeSocket()
            let address = try Self.bind(listener)
            let cookie = SocketPair.cookie(client.descriptor)
            // The sweep finds the socket before it connects.
            #expect(try capture.last(cookie)?.connect == nil)
            // No socket listens.
            #expect(Self.connect(client, address) == ECONNREFUSED)
            #expect(try capture.last(cookie)?.connect == nil)
            try check("listen") { listen(listener.descriptor, 16) }

            let first = Self.now()
            #expect(Self.connect(client, address) == 0)
            let between = Self.now()
            let firstTimes = try capture.last(cookie)?.connect
            try self.expect(firstTimes, within: first...between)
            let accepted = OwnedDescriptor(owning: try check("accept") { accept(listener.descriptor, nil, nil) })
            #expect(send(client.descriptor, [1], 1, 0) == 1)
            var byte: UInt8 = 0
            #expect(recv(accepted.descriptor, &byte, 1, 0) == 1)
            let server = try #require(try capture.last(SocketPair.cookie(accepted.descriptor)))
            #expect(server.role == .server && server.connect == nil)

            // A dissolved connection keeps its time until the socket connects again.
            #expect(Self.connect(client, Self.loopback(family: AF_UNSPEC)) == 0)
            #expect(try capture.last(cookie)?.connect == firstTimes)
            let second = Self.now()
            #expect(Self.connect(client, address) == 0)
            try self.expect(try capture.last(cookie)?.connect, within: second...Self.now())
        }

        @Test("ends at both ends at once where two clients meet: a socket that connects to itself")
        func simultaneousOpen() throws {
            let capture = try BPFCapture(method: self.method)
            let client = try Self.makeSocket()
            let address = try Self.bind(client)
            let start = Self.now()
            #expect(Self.connect(client, address) == 0)
            try self.expect(
                try capture.last(SocketPair.cookie(client.descriptor))?.connect,
                within: start...Self.now()
            )
        }

        @Test(
            "has a time for the process's own socket, with MPTCP and where MPTCP falls back to TCP",
            .enabled(if: Self.hasMPTCP, "no MPTCP"),
            arguments: [true, false]
        )
        func multipath(peerHasIt: Bool) throws {
            let capture = try BPFCapture(method: self.method)
            let listener = try Self.makeSocket(isMPTCP: peerHasIt)
            let client = try Self.makeSocket(isMPTCP: true)
            let address = try Self.bind(listener)
            try check("listen") { listen(listener.descriptor, 16) }
            let start = Self.now()
            #expect(Self.connect(client, address) == 0)
            let end = Self.now()
            let accepted = OwnedDescriptor(owning: try check("accept") { accept(listener.descriptor, nil, nil) })
            #expect(send(client.descriptor, [1], 1, 0) == 1)
            var byte: UInt8 = 0
            #expect(recv(accepted.descriptor, &byte, 1, 0) == 1)
            try self.expect(
                try capture.last(SocketPair.cookie(client.descriptor))?.connect,
                within: start...end
            )
        }

        @Test("has no time for a connection that is older than the capture")
        func preexisting() throws {
            let pair = try SocketPair()
            let capture = try BPFCapture(method: self.method)
            try pair.transfer(1)
            let seen = try #require(try capture.last(pair.cookies[0]))
            #expect(seen.preexisting && seen.connect == nil)
        }
    }
}
