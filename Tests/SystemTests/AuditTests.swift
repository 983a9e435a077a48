import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficAudit
import TrafficModel

extension SurfaceTests {
    /// A daemon in a network namespace of its own, where only the generator moves bytes.
    @Suite(.needsBPF, .needs("ip"))
    struct AuditTests {
        private func audit(_ daemon: Daemon, _ arguments: String...) async throws -> (report: AuditReport, code: Int32)
        {
            // A daemon that is too busy for a whole answer is asked again. One that has ended is not.
            let result = try await look(until: { !$0.error.contains(/too busy|connection to trafficd broke/) }) {
                try await Program.run(
                    Machine.programs.client,
                    ["--runtime-directory", daemon.directories.runtime.path, "audit", "--format", "json"] + arguments
                )
            }
            return (try JSONDecoder().decode(AuditReport.self, from: result.output), result.code)
        }

        @Test("every byte of mixed load between 16 threads, sockets that close and datagrams has its line")
        func mixedLoad() async throws {
            try await NetworkNamespace.with { namespace in
                try await withDaemon(arguments: ["--wire", "audited"], launcher: try namespace.launcher()) { daemon in
                    for scenario in [
                        "threads", "tcp-requests", "tcp-nonblocking", "reset", "abort", "connect-reuse", "udp",
                        "udp-refused", "churn",
                    ] {
                        let generator = try Generator(
                            Machine.programs,
                            scenario: scenario,
                            arguments: ["--count", "200"],
                            launcher: try namespace.launcher()
                        )
                        _ = try await generator.result()
                        try generator.goOn()
                        try await generator.exit()
                    }
                    // The daemon needs three readings to separate bytes that are on their way from bytes of no socket.
                    for _ in 0..<4 { _ = try await daemon.snapshot() }
                    let (report, _) = try await self.audit(daemon)
                    let own = try #require(report.sections.first { $0.kind == .interface && $0.name == "lo" })
                    for lines in [own.sent, own.received] {
                        let bytes = Dictionary(lines.map { ($0.line, $0.bytes) }, uniquingKeysWith: { $1 })
                        #expect(bytes[.unexplainedAtInterface] == 0)
                        #expect(bytes[.onItsWay] == nil && bytes[.queues] == nil)
                        #expect((bytes[.interfaceCounter] ?? 0) > 10_000_000)
                    }
                    #expect(report.disputes == [])
                }
            }
        }

        @Test("by default the audit ends at the sockets, and says how to compare the interfaces too")
        func socketsOnly() async throws {
            try await withDaemon { daemon in
                let (report, _) = try await self.audit(daemon)
                #expect(report.sections.map(\.kind) == [.host] && !report.countsInterfaces)
                for lines in [report.sections[0].sent, report.sections[0].received] {
                    #expect(lines.last?.line == .wire && !lines.contains { $0.line == .noSocket })
                }
                let directory = ["--runtime-directory", daemon.directories.runtime.path]
                let table = try await Program.run(Machine.programs.client, directory + ["audit"])
                #expect(String(decoding: table.output, as: UTF8.self).contains("trafficd run --wire audited"))
                let one = try await Program.run(Machine.programs.client, directory + ["audit", "--interface", "lo"])
                #expect(one.code == 2)
                #expect(one.error.contains("trafficd run --wire audited"))
            }
        }

        @Test("audit takes one interface, one process or one socket, and exits with 2 if there is no such thing")
        func subjects() async throws {
            try await withDaemon { daemon in
                let generator = try Generator(Machine.programs, scenario: "tcp")
                let truth = try await generator.result()
                func wireSent(_ pid: pid_t) async throws -> UInt64? {
                    try await daemon.snapshot().processes?.first { $0.identity.pid == pid }?.bytes.wireSent
                }
                for process in truth.processes {
                    // A late acknowledgement may pass between the requests. If the number is the same before and after,
                    // the audit has it too.
                    var (before, after) = (try await wireSent(process.pid), UInt64?.none)
                    for _ in 0..<50 {
                        let (report, code) = try await self.audit(daemon, "--process", "\(process.pid)")
                        #expect(code == 0)
                        #expect(report.sections.first?.sent.first == .init(line: .payload, bytes: Int64(process.sent)))
                        after = try await wireSent(process.pid)
                        if before == after {
                            #expect(report.sections.first?.sent.last?.bytes == after.map(Int64.init))
                            break
                        }
                        before = after
                    }
                    #expect(before == after && after != nil)
                }
                let socket = try #require(truth.sockets.first { $0.sent > 0 })
                let (report, _) = try await self.audit(daemon, "--socket", "\(socket.cookie)")
                #expect(report.sections.map(\.kind) == [.socket])
                #expect(report.sections[0].sent.first?.bytes == Int64(socket.sent))
                try generator.goOn()
                try await generator.exit()
                let absent = try await Program.run(
                    Machine.programs.client,
                    ["--runtime-directory", daemon.directories.runtime.path, "audit", "--interface", "nosuch0"]
                )
                #expect(absent.code == 2)
                #expect(absent.error.contains("no interface nosuch0") && absent.error.contains("lo"))
            }
        }
    }
}
