import Foundation
import GroundTruth
import Testing

extension SystemTests {
    /// The lab that scripts/accuracy measures in: it must be right itself, and leave nothing behind.
    @Suite(.needsRoot, .needs("ip", "nft", "ethtool"))
    struct NetworkLabTests {
        private func exists(_ namespace: String) -> Bool {
            FileManager.default.fileExists(atPath: "/run/netns/\(namespace)")
        }

        /// Runs a scenario across, without a daemon.
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

        @Test("it takes everything away, and what a killed run has left")
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
            // Headers come on top of payload that is counted at both ends.
            #expect(wire.link.total > truth.bytes / 2)
            #expect(wire.atInterface == wire.link)
        }

        /// Two readings that are equal: a packet in the middle of one (IPv6 announces its addresses by itself) would be in one counter and not
        /// in the other. And what follows the end of a connection is over then.
        private func settled(_ lab: NetworkLab) async throws -> LabCounters {
            var last = try await lab.counters()
            for _ in 0..<20 {
                try await Task.sleep(for: .milliseconds(500))
                let now = try await lab.counters()
                if now == last { break }
                last = now
            }
            return last
        }

        @Test("offloads make the near interface's packets large, and every packet of the link is counted all the same")
        func offloads() async throws {
            func packets(_ lab: NetworkLab) async throws -> UInt64 {
                let before = try await self.settled(lab)
                let result = try await self.run("sendfile", in: lab)
                let after = try await self.settled(lab)
                let truth = WireTruth(from: before, to: after, aggregates: lab.hasOffloads)
                #expect(truth.disagreements == [])
                // A segment over Ethernet has at most 1,448 bytes, and 52 of headers with timestamps: percents more than aggregates
                // with one header each.
                let near = result.processes.filter { $0.networkNamespace == lab.near.inode }
                let payload = near.reduce(0) { $0 + $1.sent }
                #expect(payload > 10_000_000 && truth.link.sent >= payload + payload / 1_448 * 52)
                return after.veth.sentPackets - before.veth.sentPackets
            }
            let off = try await packets(NetworkLab())
            let on = try await packets(NetworkLab(offloads: true))
            #expect(on * 4 < off)
        }

        @Test("servers are in the peer's namespace, clients in the near one, and what can't be split stays near")
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
