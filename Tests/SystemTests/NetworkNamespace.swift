import Foundation
import GroundTruth
import TestSupport
import Testing

/// A network namespace for one test, with a loopback interface. The namespace goes away with the test.
struct NetworkNamespace {
    let name = "trafficd-test-\(NetworkLab.maker)-\(UUID().uuidString.prefix(8))"

    static func with(_ body: (NetworkNamespace) async throws -> Void) async throws {
        let namespace = NetworkNamespace()
        try await self.ip("netns", "add", namespace.name)
        do {
            try await self.ip("-netns", namespace.name, "link", "set", "lo", "up")
            try await body(namespace)
        } catch {
            try? await self.ip("netns", "delete", namespace.name)
            throw error
        }
        try await self.ip("netns", "delete", namespace.name)
    }

    /// The inode number, the kernel's name for the namespace.
    var inode: UInt32 {
        get throws {
            let attributes = try FileManager.default.attributesOfItem(atPath: "/run/netns/\(self.name)")
            return UInt32(truncatingIfNeeded: try #require(attributes[.systemFileNumber] as? UInt64))
        }
    }

    /// Runs a tool in the namespace.
    func run(_ tool: String, _ arguments: String...) async throws {
        try await Self.ip(["netns", "exec", self.name, tool] + arguments)
    }

    func launcher() throws -> (program: URL, arguments: [String]) {
        (try #require(Machine.path(of: "ip")), ["netns", "exec", self.name])
    }

    private static func ip(_ arguments: String...) async throws { try await self.ip(arguments) }

    private static func ip(_ arguments: [String]) async throws {
        let result = try await tool("ip", arguments)
        guard result.code == 0 else {
            throw Program.Failure(description: "ip \(arguments.joined(separator: " ")): \(result.error)")
        }
    }
}
