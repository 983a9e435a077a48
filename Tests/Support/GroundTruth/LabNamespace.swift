public import Foundation
import TestSupport

/// A network namespace with a name (ip-netns(8)). ``NetworkLab`` owns the namespace.
public struct LabNamespace: Sendable {
    public let name: String
    /// Inode number of `/proc/PID/ns/net` of a process in the namespace. The daemon and the generator use this number.
    public let inode: UInt32
    private let ip: URL

    /// Makes the namespace, with its loopback interface up.
    ///
    /// - Throws: ``NetworkLab/Unavailable``, where that is not possible here.
    init(name: String) async throws {
        guard let ip = SystemTool.path("ip") else { throw NetworkLab.Unavailable("ip is not installed (iproute2)") }
        self.name = name
        self.ip = ip
        try await NetworkLab.run(ip, ["netns", "add", name])
        let attributes = try FileManager.default.attributesOfItem(atPath: "/run/netns/\(name)")
        self.inode = UInt32(truncatingIfNeeded: attributes[.systemFileNumber] as? UInt64 ?? 0)
        try await self.ip("link", "set", "lo", "up")
    }

    public var path: String { "/run/netns/\(self.name)" }

    /// A program and its arguments to put before a command that must run in this namespace.
    public var launcher: (program: URL, arguments: [String]) { (self.ip, ["netns", "exec", self.name]) }

    /// - Returns: Standard output.
    @discardableResult
    func ip(_ arguments: String...) async throws -> Data {
        try await NetworkLab.run(self.ip, ["-netns", self.name] + arguments)
    }

    /// Runs a tool in this namespace.
    ///
    /// - Returns: Standard output.
    @discardableResult
    public func run(_ tool: String, _ arguments: String..., input: String? = nil) async throws -> Data {
        guard let program = SystemTool.path(tool) else { throw NetworkLab.Unavailable("\(tool) is not installed") }
        return try await NetworkLab.run(self.ip, ["netns", "exec", self.name, program.path] + arguments, input: input)
    }

    /// Waits until the interface sends. The first end of a pair that is brought up silently drops what it should send,
    /// until a thread of the kernel has noticed that the other end is up (`linkwatch_event()`, `noop_qdisc`).
    func awaitLink(_ interface: String) async throws {
        let seen = try await look(until: { $0.contains("state UP") }) {
            String(decoding: try await self.ip("-o", "link", "show", interface), as: UTF8.self)
        }
        guard seen.contains("state UP") else { throw NetworkLab.Unavailable("\(interface) does not come up: \(seen)") }
        // That thread shows the state before it is done. The next change waits for the lock that it holds (RTNL).
        try await self.ip("link", "set", interface, "up")
    }

    /// - Parameter path: Below `/proc/sys`.
    func set(sysctl path: String, _ value: String) async throws {
        try await self.run("sh", "-c", "echo \(value) >/proc/sys/\(path)")
    }

    /// Switches segmentation and aggregation of packets by an interface.
    func switchOffloads(_ on: Bool, of interface: String) async throws {
        // UDP's own feature stays on when generic segmentation goes off, and lets large datagrams through in one piece.
        let features = ["tso", "gso", "gro", "tx-udp-segmentation"].flatMap { [$0, on ? "on" : "off"] }
        try await NetworkLab.run(
            self.ip,
            ["netns", "exec", self.name, "ethtool", "--features", interface] + features
        )
    }
}
