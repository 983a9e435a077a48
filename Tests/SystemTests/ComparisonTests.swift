import Foundation
import GroundTruth
import Testing
import TrafficModel

extension SystemTests {
    /// The comparison itself. A comparison that lets a wrong count pass is worth nothing.
    @Suite(.needsBPF)
    struct ComparisonTests {
        @Test("a comparison notices one byte, a missing socket, a wrong name and a foreign socket")
        func noticesMistakes() async throws {
            let (truth, snapshot) = try await withDaemon { daemon in
                let generator = try Generator(Machine.programs, scenario: "tcp")
                let truth = try await generator.result()
                let snapshot = try await daemon.snapshot()
                try generator.goOn()
                try await generator.exit()
                return (truth, snapshot)
            }
            #expect(self.differences(truth, snapshot) == [])

            // Those that the generator has closed may have left the list.
            let held = truth.sockets.filter(\.open)
            var wrong = snapshot
            let index = try #require(wrong.sockets?.firstIndex { $0.cookie.rawValue == held.last?.cookie })
            wrong.sockets?[index].owners[0].payload.sent += 1
            #expect(self.differences(truth, wrong).count == 1)

            wrong = snapshot
            wrong.sockets?.remove(at: index)
            #expect(self.differences(truth, wrong).count == 1)

            wrong = snapshot
            let process = try #require(
                wrong.processes?.firstIndex { $0.identity.pid == truth.processes[0].pid && $0.bytes.payload.total > 0 }
            )
            wrong.processes?[process].bytes.payload.received -= 1
            wrong.processes?[process].details.name = "unknown"
            #expect(self.differences(truth, wrong).count == 2)

            wrong = snapshot
            wrong.processes?[process].identity.startBoottimeNanoseconds += 1_000_000_000
            #expect(self.differences(truth, wrong).count >= 1)

            // No program reported. So one explained byte is wrong, for the socket and for its process.
            wrong = snapshot
            wrong.sockets?[index].explained = 1
            wrong.processes?[process].explained = 1
            #expect(self.differences(truth, wrong).count == 2)

            // One end has connected, in at most the time of its call. The other end has not connected.
            for (role, times) in [("client", [nil, 3_600_000_000]), ("server", [0])] as [(String, [UInt64?])] {
                let cookie = held.first { $0.role == role }?.cookie
                let end = try #require(snapshot.sockets?.firstIndex { $0.cookie.rawValue == cookie })
                for time in times {
                    wrong = snapshot
                    wrong.sockets?[end].connectMicroseconds = time
                    #expect(self.differences(truth, wrong).count == 1)
                }
            }

            wrong = snapshot
            wrong.capture.reports.foreign = 1
            #expect(
                self.differences(truth, wrong) == [
                    "reports foreign: expected 0, counted 1", "reports rejected: expected 0, counted 1",
                ]
            )

            var other = truth
            other.excluded = [held[0].cookie]
            #expect(self.differences(other, snapshot).count == 1)
        }

        private func differences(_ truth: GeneratorResult, _ snapshot: Snapshot) -> [String] {
            Comparison(truth: truth, snapshot: snapshot, socketsHeld: true).differences.map(\.description)
        }
    }
}
