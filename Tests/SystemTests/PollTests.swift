import GroundTruth
import Testing
import TrafficModel

extension SystemTests {
    /// The rung without BPF. What it promises is less: TCP connections that live longer than its interval, each with one owner.
    @Suite(.needsRoot)
    struct PollTests {
        /// Plain TCP connections between two processes, held open until they were looked at. Not `splice-in`: there both ends
        /// shut down, and a connection that has ended is gone from sock_diag though its descriptors are open.
        @Test("open TCP connections are exact", arguments: ["tcp", "tcp-requests", "writev", "sendfile"])
        func openConnections(_ name: String) async throws {
            try await withDaemon(rung: "poll") { daemon in
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

        @Test("the snapshot says which bytes this rung cannot see")
        func blindSpots() async throws {
            try await withDaemon(rung: "poll") { daemon in
                let capture = try await daemon.snapshot().capture
                #expect(capture.rung == .poll)
                #expect(!capture.blindSpots.isEmpty)
                #expect(BPFObjects.held(by: daemon.program.pid).programs.isEmpty)
            }
        }
    }
}
