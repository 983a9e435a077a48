import Foundation
import Glibc
import TrafficKit
import TrafficReport

/// Finds sockets of this process by itself, because URLSession does not say which socket a task uses.
enum OwnSockets {
    /// Descriptors of a process that are looked at, at most: with a system call each, twice for an exchange. A server
    /// may have a hundred thousand descriptors.
    static let mostDescriptors = 1_024

    /// The sockets that are connected to a remote port, by cookie. The address may be any, because libcurl looks up the
    /// host's name.
    ///
    /// - Returns: `nil`: the process has too many descriptors to look at.
    static func connected(to port: UInt16) -> [UInt64: SocketFacts]? {
        guard let descriptors = self.numbers(in: "/proc/self/fd", atMost: self.mostDescriptors) else { return nil }
        var found: [UInt64: SocketFacts] = [:]
        for descriptor in descriptors where self.remotePort(of: descriptor) == port {
            let facts = SocketFacts(of: descriptor, isConnected: true)
            if facts.cookie != 0 { found[facts.cookie] = facts }
        }
        return found
    }

    /// The entries of a directory that are numbers. For `/proc/self/fd` this includes the descriptor that reads the
    /// directory, which is closed when this returns.
    ///
    /// - Returns: `nil`: there are more entries than `limit`. Reading stops at the first entry beyond it.
    static func numbers(in path: String, atMost limit: Int) -> [CInt]? {
        guard let directory = opendir(path) else { return [] }
        defer { closedir(directory) }
        var numbers: [CInt] = []
        while let entry = readdir(directory) {
            let number = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 1) { CInt(String(cString: $0)) }
            }
            guard let number else { continue }
            if numbers.count == limit { return nil }
            numbers.append(number)
        }
        return numbers
    }

    /// `nil` if the descriptor is not a socket of IPv4 or IPv6, or is not connected.
    private static func remotePort(of descriptor: CInt) -> UInt16? {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
        }
        guard result == 0, [AF_INET, AF_INET6].contains(CInt(address.sin6_family)) else { return nil }
        // `sockaddr_in` has the port at the same place.
        return UInt16(bigEndian: address.sin6_port)
    }
}

/// The bytes that one socket moved between two looks at it.
struct SocketGrowth: Hashable {
    let cookie: UInt64
    let sent: Report.Interval
    let received: Report.Interval

    init(cookie: UInt64, sent: Report.Interval, received: Report.Interval) {
        (self.cookie, self.sent, self.received) = (cookie, sent, received)
    }

    /// - Returns: `nil` unless exactly one socket has grown. A socket that was not there before has grown from 0.
    init?(from before: [UInt64: SocketFacts], to after: [UInt64: SocketFacts]) {
        let grown = after.values.filter { facts in
            let old = before[facts.cookie] ?? SocketFacts()
            return facts.sentBytes > old.sentBytes || facts.receivedBytes > old.receivedBytes
        }
        guard grown.count == 1, let facts = grown.first else { return nil }
        let old = before[facts.cookie] ?? SocketFacts()
        self.init(
            cookie: facts.cookie,
            sent: .init(from: old.sentBytes, to: facts.sentBytes),
            received: .init(from: old.receivedBytes, to: facts.receivedBytes)
        )
    }
}
