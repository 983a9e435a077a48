import Foundation
import GroundTruth
import Testing
import TrafficModel

extension SystemTests {
    /// Two unprivileged processes use up all the room they can get. The bytes of all processes stay exact, theirs too.
    @Suite
    struct FloodTests {
        @Test(
            "a flood costs no process a byte",
            .needsBPF,
            arguments: ["empty", "byte", "tcp", "process", "held"]
        )
        func beside(_ kind: String) async throws {
            try await withDaemon(arguments: ["--keep-exited", "86400"]) { daemon in
                // A debug build takes a second for ten thousand records.
                let flood = try await Flood(kind, seconds: 2, held: 1_500, programs: Machine.programs, daemon: daemon)
                for scenario in ["tcp-requests", "udp"] {
                    let check = try await AccuracyCheck.run(
                        scenario,
                        daemon: daemon,
                        programs: Machine.programs,
                        arguments: ["--count", "100"]
                    )
                    guard case .compared(let bytes, let off, let differences, _) = check.outcome else {
                        Issue.record("\(scenario) was not compared")
                        continue
                    }
                    #expect(bytes > 0 && off == 0)
                    #expect(differences.isEmpty, "\(differences)")
                }
                let report = try await flood.stop()
                #expect(report.sockets > 0 && report.oldestSnapshot != nil && !report.loss.isLossy)
                #expect(report.isExactButForHiddenEnds, "\(report.description); \(report.loss)")
            }
        }
    }
}
