import CLinux
import Glibc
import TestSupport
import Testing
import TrafficEvents
import TrafficModel

@testable import TrafficCapture

/// Two connected TCP sockets of this process on loopback. Programs that other tests start meanwhile do not inherit them:
/// such a program would keep them open.
struct SocketPair: ~Copyable {
    let client: OwnedDescriptor
    let server: OwnedDescriptor

    init() throws {
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let listener = OwnedDescriptor(owning: try check("socket") { socket(AF_INET, type, 0) })
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let client = OwnedDescriptor(owning: try check("socket") { socket(AF_INET, type, 0) })
        let accepted = try withUnsafeMutablePointer(to: &address) { address in
            try address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                try check("bind") { bind(listener.descriptor, address, length) }
                try check("listen") { listen(listener.descriptor, 16) }
                try check("getsockname") { getsockname(listener.descriptor, address, &length) }
                try check("connect") { connect(client.descriptor, address, length) }
                let accepted = try check("accept") { accept(listener.descriptor, nil, nil) }
                try check("fcntl") { fcntl(accepted, F_SETFD, FD_CLOEXEC) }  // Glibc's module has no accept4()
                return accepted
            }
        }
        self.client = client
        self.server = OwnedDescriptor(owning: accepted)
    }

    /// Sends `count` bytes and reads all of them.
    func transfer(_ count: Int) throws {
        var bytes = [UInt8](repeating: 7, count: count)
        let sent = try check("send") { send(self.client.descriptor, bytes, count, 0) }
        try #require(sent == count)
        let received = try check("recv") { recv(self.server.descriptor, &bytes, count, Int32(MSG_WAITALL)) }
        try #require(received == count)
    }

    /// Waits until all that the client sent is acknowledged: then neither socket sees another packet.
    func settle() throws {
        let left = try blockingLook(until: { $0 == 0 }) {
            var unacknowledged: Int32 = 0
            try check("SIOCOUTQ") { ioctl(self.client.descriptor, UInt(TIOCOUTQ), &unacknowledged) }
            return unacknowledged
        }
        try #require(left == 0, "not acknowledged")
    }

    var cookies: [UInt64] { [Self.cookie(self.client.descriptor), Self.cookie(self.server.descriptor)] }

    static func cookie(_ descriptor: Int32) -> UInt64 {
        var cookie: UInt64 = 0
        var length = socklen_t(MemoryLayout<UInt64>.size)
        getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &cookie, &length)
        return cookie
    }
}

extension SocketObservation {
    /// What its owners moved.
    var ownedPayload: PayloadBytes { self.owners.reduce(PayloadBytes()) { $0 + $1.payload } }
}

/// The latest record of each socket. A sweep may bring an older record after a newer one: what the walk over the network
/// namespaces has put into the ring comes last.
struct LatestRecords {
    private(set) var byCookie: [UInt64: SocketObservation] = [:]

    subscript(_ cookie: UInt64) -> SocketObservation? { self.byCookie[cookie] }

    mutating func absorb(_ event: CaptureEvent) {
        guard case .socket(let socket) = event else { return }
        let known = self.byCookie[socket.cookie.rawValue]?.record ?? 0
        if socket.record.map({ $0 > known }) ?? true { self.byCookie[socket.cookie.rawValue] = socket }
    }
}

extension BPFCapture {
    /// The latest record of each socket that changed since the last look.
    ///
    /// Two sweeps: while the walk over the network namespaces writes a record of a socket, a sweep passes over that
    /// socket, and the next sweep has the record.
    func look() throws -> LatestRecords {
        var latest = LatestRecords()
        for _ in 1...2 { try self.sweep { latest.absorb($0) } }
        return latest
    }

    /// The latest record of a socket, if the socket changed since the last look.
    func last(_ cookie: UInt64) throws -> SocketObservation? { try self.look()[cookie] }

    /// The socket's final record. TCP ends a socket some time after close(2); this function waits for the record.
    ///
    /// - Returns: `nil` where none came.
    func lastWord(on cookie: UInt64) throws -> SocketObservation? {
        try blockingLook(until: { $0 != nil }) {
            let last = try self.last(cookie)
            return last?.closedBoottimeNanoseconds == nil ? nil : last
        }
    }
}
