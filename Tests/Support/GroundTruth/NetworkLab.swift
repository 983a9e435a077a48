import Foundation
import TestSupport

/// Two network namespaces and a veth pair between them, with counters of the kernel's packet filter and of the
/// interfaces. The wire bytes of a daemon in the near namespace are compared with these counters.
///
/// All of this exists on this machine only and goes away with this object. Where a run was killed, the next lab removes
/// what is left: the names carry the pid and the start time of the process that made them. RFC 2544 and RFC 5180 set
/// the addresses aside for such tests.
public final class NetworkLab: Sendable {
    /// The lab can't be made here.
    public struct Unavailable: Error, CustomStringConvertible {
        public var description: String

        init(_ reason: String) {
            self.description = "no lab of network namespaces: \(reason)"
        }
    }

    static let interface = "lab0"
    private static let prefix = "trafficd-lab"
    private static let nearAddresses = ["198.18.0.1/30", "2001:2::1/64"]
    private static let peerAddresses = ["198.18.0.2/30", "2001:2::2/64"]

    /// Where the daemon and the clients are.
    public let near: LabNamespace
    /// Where the servers are.
    public let peer: LabNamespace
    /// Stands between the two where offloads are on. This namespace cuts the near side's large packets to the size of
    /// the link, so that each packet can be counted.
    let middle: LabNamespace?

    /// - Parameter offloads: Whether the near interface segments and aggregates packets. The peer's never does.
    /// - Throws: ``Unavailable``
    public init(offloads: Bool = false) async throws {
        NetworkLab.removeLeftovers()
        let base = "\(Self.prefix)-\(Self.maker)-\(UInt16.random(in: .min ... .max))"
        do {
            self.near = try await LabNamespace(name: "\(base)-near")
            self.peer = try await LabNamespace(name: "\(base)-peer")
            self.middle = offloads ? try await LabNamespace(name: "\(base)-middle") : nil
            try await self.connect()
            try await self.count()
        } catch {
            Self.remove(["near", "peer", "middle"].map { "\(base)-\($0)" })
            throw error
        }
    }

    deinit {
        self.remove()
    }

    /// Ends every process in the namespaces and removes the namespaces. A second call is no error.
    public func remove() {
        Self.remove(self.namespaces.map(\.name))
    }

    public var namespaces: [LabNamespace] { [self.near, self.peer] + [self.middle].compactMap(\.self) }

    /// Whether the near interface sends and takes packets larger than the link's.
    public var hasOffloads: Bool { self.middle != nil }

    /// Options with which trafficgen puts its servers into the peer namespace.
    public var generatorArguments: [String] {
        ["--peer-namespace", self.peer.path]
            + Self.peerAddresses.flatMap { ["--address", String($0.prefix { $0 != "/" })] }
    }

    // MARK: Making it

    private func connect() async throws {
        for namespace in [self.near, self.peer] {
            // Addresses must work at once, without the second in which the kernel looks for duplicates.
            for scope in ["all", "default"] {
                try await namespace.set(sysctl: "net/ipv6/conf/\(scope)/accept_dad", "0")
            }
            try await namespace.switchOffloads(false, of: "lo")
        }
        if let middle {
            try await Self.pair(self.near, Self.interface, middle, "near")
            try await Self.pair(self.peer, Self.interface, middle, "peer")
            try await middle.ip("link", "add", "bridge", "type", "bridge", "mcast_snooping", "0")
            try await middle.set(sysctl: "net/ipv6/conf/all/disable_ipv6", "1")
            for port in ["near", "peer"] {
                try await middle.ip("link", "set", port, "master", "bridge", "up")
                try await middle.switchOffloads(false, of: port)
            }
            // The near end takes packets from a ring of 256. If its processor is away for a moment, the ring is full, and
            // what was counted on its way into the bridge would never arrive. With a queue, the packets wait (Linux 6.16).
            try await middle.run("tc", "qdisc", "replace", "dev", "near", "root", "pfifo", "limit", "100000")
            try await middle.ip("link", "set", "bridge", "up")
        } else {
            try await Self.pair(self.near, Self.interface, self.peer, Self.interface)
        }
        for (namespace, addresses) in [(self.near, Self.nearAddresses), (self.peer, Self.peerAddresses)] {
            try await namespace.switchOffloads(
                namespace.name == self.near.name && self.middle != nil,
                of: Self.interface
            )
            for address in addresses { try await namespace.ip("address", "add", address, "dev", Self.interface) }
            try await namespace.ip("link", "set", Self.interface, "up")
        }
        for namespace in [self.near, self.peer] { try await namespace.awaitLink(Self.interface) }
        if let middle { for port in ["near", "peer"] { try await middle.awaitLink(port) } }
    }

    private static func pair(
        _ one: LabNamespace,
        _ name: String,
        _ other: LabNamespace,
        _ otherName: String
    ) async throws {
        try await one.ip(
            "link",
            "add",
            name,
            "type",
            "veth",
            "peer",
            "name",
            otherName,
            "netns",
            other.name
        )
    }

    private func count() async throws {
        for namespace in [self.near, self.peer] {
            try await namespace.run("nft", "--file", "-", input: LabCounters.rules(for: Self.interface))
        }
        try await self.middle?.run("nft", "--file", "-", input: LabCounters.bridgeRules(for: "peer"))
    }

    // MARK: Taking it away

    /// The pid and the start time of this process, for names of namespaces. With them, scripts/test deletes what a
    /// killed process has left.
    public static var maker: String { "\(getpid())-\(self.startTicks(of: getpid()) ?? 0)" }

    /// Removes what labs of dead processes have left.
    public static func removeLeftovers() {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: "/run/netns")) ?? []
        self.remove(names.filter { self.isLeftover($0, startTicks: self.startTicks(of:)) })
    }

    /// - Parameter startTicks: Returns the start time of a pid; `nil` where there is no such process.
    static func isLeftover(_ name: String, startTicks: (pid_t) -> UInt64?) -> Bool {
        guard name.hasPrefix("\(self.prefix)-") else { return false }
        let words = name.dropFirst(self.prefix.count + 1).split(separator: "-")
        guard words.count == 4, let pid = pid_t(words[0]), let start = UInt64(words[1]) else { return false }
        return startTicks(pid) != start
    }

    /// Field 22 of `/proc/PID/stat`; the name in field 2 may contain anything.
    private static func startTicks(of pid: pid_t) -> UInt64? {
        guard let line = try? String(contentsOfFile: "/proc/\(pid)/stat", encoding: .utf8),
            let end = line.lastIndex(of: ")")
        else { return nil }
        let fields = line[line.index(after: end)...].split(separator: " ")
        return fields.count > 19 ? UInt64(fields[19]) : nil
    }

    /// Blocks until the tools are done, which takes milliseconds, because this must also work while the process ends.
    private static func remove(_ names: [String]) {
        guard let ip = SystemTool.path("ip") else { return }
        for name in names where FileManager.default.fileExists(atPath: "/run/netns/\(name)") {
            for pid in self.output(ip, ["netns", "pids", name]).split(separator: "\n").compactMap({ pid_t($0) }) {
                kill(pid, SIGKILL)
            }
            _ = self.output(ip, ["netns", "delete", name])
        }
    }

    private static func output(_ program: URL, _ arguments: [String]) -> String {
        // A failure is no error, because the namespace may already be gone.
        (try? Tool.wait(for: program.path, arguments, mayFail: true))?.output ?? ""
    }

    /// - Throws: ``Unavailable``, where the tool fails.
    @discardableResult
    static func run(_ program: URL, _ arguments: [String], input: String? = nil) async throws -> Data {
        let result = try await Program.run(program, arguments, input: input)
        guard result.code == 0 else {
            let command = ([program.lastPathComponent] + arguments).joined(separator: " ")
            throw Unavailable("\(command): \(result.error.trimmingCharacters(in: .whitespacesAndNewlines))")
        }
        return result.output
    }
}
