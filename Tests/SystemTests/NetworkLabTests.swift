import Foundation
import GroundTruth
import TestSupport
import Testing

extension SystemTests {
    /// The lab in which scripts/accuracy measures. The lab must itself be right, and leave nothing behind.
    @Suite(.needsRoot, .needs("ip", "nft", "ethtool", "tc"))
    struct NetworkLabTests {
        private func exists(_ namespace: String) -> Bool {
            FileManager.default.fileExists(atPath: "/run/netns/\(namespace)")
        }

        /// Runs a scenario between the lab's namespaces, without a daemon.
        private func run(
            _ scenario: String,
            in lab: NetworkLab,
            _ arguments: [String] = []
        ) async throws -> GeneratorResult {
            let generator = try Generator(
                Machine.programs,
                scenario: scenario,
                arguments: lab.generatorArguments + arguments,
                launcher: lab.near.launcher
            )
            let truth = try await generator.result()
            try generator.goOn()
            try await generator.exit()
            return truth
        }

        @Test("the lab removes everything that it made, and the leftovers of a killed run")
        func leavesNothing() async throws {
            let dead = "trafficd-lab-\(pid_t.max)-1-1-near"
            #expect(try await tool("ip", ["netns", "add", dead]).code == 0)
            var names = [dead]
            do {
                let lab = try await NetworkLab(offloads: true)
                #expect(!self.exists(dead))
                names += lab.namespaces.map(\.name)
                #expect(names.dropFirst().allSatisfy(self.exists))
            }
            #expect(names.count == 4)
            #expect(!names.contains(where: self.exists))
        }

        @Test("packet filter and interface agree on every byte", arguments: ["tcp", "udp", "udp-segments", "ping"])
        func agree(scenario: String) async throws {
            let lab = try await NetworkLab()
            let before = try await self.settled(lab)
            let truth = try await self.run(scenario, in: lab)
            let wire = WireTruth(from: before, to: try await self.settled(lab))
            #expect(truth.acrossNamespaces)
            #expect(wire.disagreements == [])
            // Both ends count the payload; the link counts the packets once, with headers.
            #expect(wire.link.total > truth.bytes / 2)
            #expect(wire.atInterface == wire.link)
        }

        /// Two equal readings. A packet during a reading (IPv6 announces its addresses by itself) could be in one
        /// counter and not in
        /// another. After two equal readings, the packets that end connections have passed, too.
        private func settled(_ lab: NetworkLab) async throws -> LabCounters {
            var last = try await lab.counters()
            return try await look(every: .zero, until: { $0.areStill }) {
                try await Task.sleep(for: .milliseconds(500))
                let now = try await lab.counters()
                defer { last = now }
                return (counters: now, areStill: now == last)
            }.counters
        }

        @Test("offloads make the near interface's packets large, and every packet of the link still counts")
        func offloads() async throws {
            func packets(_ lab: NetworkLab) async throws -> UInt64 {
                let before = try await self.settled(lab)
                let result = try await self.run("sendfile", in: lab)
                let after = try await self.settled(lab)
                let truth = WireTruth(from: before, to: after, aggregates: lab.hasOffloads)
                #expect(truth.disagreements == [])
                // A segment over Ethernet has at most 1,448 bytes of payload, and 52 bytes of headers with timestamps:
                // some percent more
                // than aggregates with one header each.
                let near = result.processes.filter { $0.networkNamespace == lab.near.inode }
                let payload = near.reduce(0) { $0 + $1.sent }
                #expect(payload > 10_000_000 && truth.link.sent >= payload + payload / 1_448 * 52)
                return after.veth.sentPackets - before.veth.sentPackets
            }
            let off = try await packets(NetworkLab())
            let on = try await packets(NetworkLab(offloads: true))
            #expect(on * 4 < off)
        }

        @Test("servers are in the peer's namespace, clients in the near one; scenarios that can't be split stay near")
        func whereabouts() async throws {
            let lab = try await NetworkLab()
            let across = try await self.run("tcp", in: lab)
            for process in across.processes {
                let expected = process.name == "tg-server" ? lab.peer.inode : lab.near.inode
                #expect(process.networkNamespace == expected, "\(process.name)")
            }
            let alone = try await self.run("udp-refused", in: lab)
            #expect(!alone.acrossNamespaces)
            #expect(alone.processes.allSatisfy { $0.networkNamespace == lab.near.inode })
        }
    }
}
