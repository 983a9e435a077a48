import Foundation
import Glibc
import TrafficKit
import TrafficReport

/// Sockets of this process, found without anyone's help: URLSession does not say which one a task uses.
enum OwnSockets {
    /// Descriptors of a process that are looked at, a system call each, twice for an exchange. A server's may be a hundred thousand.
    static let mostDescriptors = 1_024

    /// By cookie, those that are connected to a port, at whatever address: names are libcurl's to look up.
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

    /// Entries of a directory that are numbers. That of the directory's own descriptor is among them, and closed by now.
    ///
    /// - Returns: `nil`: there are more. Then no more of them are read than that takes.
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

    /// `nil` where it is no socket, or connected to nobody.
    private static func remotePort(of descriptor: CInt) -> UInt16? {
        var address = sockaddr_in6()
        var length = socklen_t(MemoryLayout<sockaddr_in6>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { getpeername(descriptor, $0, &length) }
        }
        guard result == 0, [AF_INET, AF_INET6].contains(CInt(address.sin6_family)) else { return nil }
        // IPv4 has it at the same place.
        return UInt16(bigEndian: address.sin6_port)
    }
}

/// What one socket moved between two looks at it.
struct SocketGrowth: Hashable {
    let cookie: UInt64
    let sent: Report.Interval
    let received: Report.Interval

    init(cookie: UInt64, sent: Report.Interval, received: Report.Interval) {
        (self.cookie, self.sent, self.received) = (cookie, sent, received)
    }

    /// - Returns: `nil` where not exactly one has grown. One that was not there before has grown from nothing.
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
