import Foundation
import Glibc
import Synchronization

/// TCP ports of loopback for programs that must be told a port.
public enum FreePort {
    /// Ports below the range that the kernel gives to sockets without a chosen port. A port of that range could belong
    /// to another test by the time of its use.
    private static let ports = 10_000..<Self.firstOfAny
    private static let taken = Atomic<Int>(.random(in: 0..<Self.ports.count))

    private static let firstOfAny: Int = {
        let range = try? String(contentsOfFile: "/proc/sys/net/ipv4/ip_local_port_range", encoding: .utf8)
        return max(10_100, range?.split(whereSeparator: \.isWhitespace).first.flatMap { Int($0) } ?? 32_768)
    }()

    /// A port on which no program listens, and which no other caller in this process gets.
    public static func next() throws -> Int {
        for _ in Self.ports {
            let number = Self.taken.add(1, ordering: .relaxed).newValue
            let port = Self.ports.lowerBound + number % Self.ports.count
            if Self.isFree(UInt16(port)) { return port }
        }
        throw CountingProxy.Failure(call: "bind", code: EADDRINUSE)
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        defer { close(descriptor) }
        var address = CountingProxy.loopback(port)
        return withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}
