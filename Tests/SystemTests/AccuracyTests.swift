import GroundTruth
import Testing
import TrafficModel

extension ScenarioTests {
    /// The daemon's counts against the results of the generator's own calls. Tolerance: 0 bytes.
    @Suite(.needsBPF)
    struct AccuracyTests {
        @Test("there are scenarios to run")
        func scenariosExist() {
            #expect(Machine.scenarios.count > 70)
        }

        /// One daemon for all scenarios, as in scripts/accuracy.
        @Suite(.sharesDaemon)
        struct OneDaemonTests {
            @Test("every byte of every process and socket is counted, once", arguments: Machine.scenarios)
            func scenario(_ name: String) async throws {
                let shared = try #require(SharedDaemon.ofSuite)
                let check = try await AccuracyCheck.run(name, daemon: shared.daemon(), programs: Machine.programs)
                // What it lost must not count against the next scenario.
                if case .compared(_, _, let differences, _) = check.outcome, !differences.isEmpty {
                    try await shared.end()
                }
                try expectExact(check)
            }
        }

        @Test("a daemon that starts during a transfer has exactly what came later", arguments: ["tcp", "tcp-unread"])
        func startInTheMiddle(_ name: String) async throws {
            let (check, daemon) = try await AccuracyCheck.runFromTheMiddle(name, programs: Machine.programs) {
                try await Daemon(Machine.programs, method: Machine.method)
            }
            try await finish(daemon)
            try expectExact(check)
        }

        @Test("two daemons count the same bytes side by side")
        func twoDaemons() async throws {
            try await withDaemon { first in
                try await withDaemon { second in
                    let generator = try Generator(Machine.programs, scenario: "tcp")
                    let truth = try await generator.result()
                    for daemon in [first, second] {
                        let snapshot = try await daemon.snapshot()
                        let comparison = Comparison(truth: truth, snapshot: snapshot, socketsHeld: true)
                        #expect(comparison.differences.isEmpty, "\(report(comparison.differences))")
                    }
                    try generator.goOn()
                    try await generator.exit()
                }
            }
        }

        @Test("every one of 5,000 short connections is counted")
        func shortConnections() async throws {
            let check = try await withDaemon { daemon in
                try await AccuracyCheck.run(
                    "churn",
                    daemon: daemon,
                    programs: Machine.programs,
                    arguments: ["--rate", "2500", "--seconds", "2"]
                )
            }
            try expectExact(check)
        }
    }
}

/// Tolerance 0; a scenario that the kernel refuses cancels the test with the reason.
func expectExact(_ check: AccuracyCheck, sourceLocation: SourceLocation = #_sourceLocation) throws {
    switch check.outcome {
    case .skipped(let reason): try Test.cancel("\(reason)", sourceLocation: sourceLocation)
    case .compared(let bytes, _, let differences, _):
        #expect(differences.isEmpty, "\(report(differences))", sourceLocation: sourceLocation)
        #expect(bytes > 0 || check.scenario == "unix", sourceLocation: sourceLocation)
    }
}

func report(_ differences: [Difference]) -> String {
    let shown = differences.prefix(10).map(\.description).joined(separator: "\n")
    return differences.count > 10 ? "\(shown)\nand \(differences.count - 10) more" : shown
}
