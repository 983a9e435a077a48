import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// The capture method without BPF. This method promises less: TCP connections that live longer than its interval,
    /// each with one owner.
    @Suite(.needsRoot)
    struct PollTests {
        /// Plain TCP connections between two processes, held open until the daemon has read them. Not `splice-in`:
        /// there both ends
        /// shut down, and a connection that has ended is gone from sock_diag though its descriptors are open.
        @Test("open TCP connections are exact", arguments: ["tcp", "tcp-requests", "writev", "sendfile"])
        func openConnections(_ name: String) async throws {
            try await withDaemon(method: "poll") { daemon in
                let generator = try Generator(Machine.programs, scenario: name)
                let truth = try await generator.result()
                let snapshot = try await daemon.snapshot()
                try generator.goOn()
                try await generator.exit()
                let listed = Dictionary(
                    (snapshot.sockets ?? []).map { ($0.cookie.rawValue, $0.bytes.payload) },
                    uniquingKeysWith: { first, _ in first }
                )
                for tally in truth.sockets where tally.sent + tally.received > 0 {
                    let expected = PayloadBytes(sent: tally.sent, received: tally.received)
                    #expect(listed[tally.cookie] == expected, "socket \(tally.cookie)")
                }
            }
        }

        private func expectExact(_ namespace: NetworkNamespace, by daemon: Daemon) async throws {
            let generator = try Generator(Machine.programs, scenario: "tcp", launcher: try namespace.launcher())
            let truth = try await generator.result()
            let sockets = try await daemon.snapshot().sockets ?? []
            let listed = Dictionary(sockets.map { ($0.cookie.rawValue, $0) }) { first, _ in first }
            for tally in truth.sockets where tally.sent + tally.received > 0 {
                let found = try #require(listed[tally.cookie])
                #expect(found.bytes.payload == PayloadBytes(sent: tally.sent, received: tally.received))
                let inode = try namespace.inode
                #expect(found.networkNamespace == inode)
            }
            try generator.goOn()
            try await generator.exit()
        }

        @Test("a network namespace made after the start is counted, and released when it goes away", .needs("ip"))
        func comingAndGoing() async throws {
            let interface = "tv\(UUID().uuidString.prefix(8))"
            let daemon = try await self.startBeside(interface)
            // The kernel deletes the pair once nothing keeps the namespace of its other end.
            #expect(
                try await eventually { !FileManager.default.fileExists(atPath: "/sys/class/net/\(interface)") }
            )
            try await finish(daemon)
        }

        /// A daemon that started beside a namespace. The namespace is deleted afterwards.
        private func startBeside(_ interface: String) async throws -> Daemon {
            var started: Daemon?
            try await NetworkNamespace.with { early in
                let peer = ["type", "veth", "peer", "name", "peer", "netns", early.name]
                let result = try await tool("ip", ["link", "add", interface] + peer)
                #expect(result.code == 0, "\(result.error)")
                let generator = try Generator(Machine.programs, scenario: "tcp", launcher: try early.launcher())
                _ = try await generator.result()
                let daemon = try await Daemon(Machine.programs, method: "poll")
                started = daemon
                try await NetworkNamespace.with { later in try await self.expectExact(later, by: daemon) }
                try generator.goOn()
                try await generator.exit()
            }
            return try #require(started)
        }

        @Test("the snapshot says which bytes this method cannot see")
        func blindSpots() async throws {
            try await withDaemon(method: "poll") { daemon in
                let capture = try await daemon.snapshot().capture
                #expect(capture.method == .poll)
                #expect(!capture.blindSpots.isEmpty)
                #expect(BPFObjects.held(by: daemon.program.pid).programs.isEmpty)
            }
        }
    }
}
