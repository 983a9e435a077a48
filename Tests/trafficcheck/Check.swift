import ArgumentParser
import Foundation
import GroundTruth
import TrafficModel

/// Generator against daemon, every scenario on every rung. Prints a table; the tests and the kernel lab share its comparison.
@main
struct Check: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "trafficcheck",
        abstract: "Compare what trafficd counts with what trafficgen's calls returned.",
        discussion: """
            Prints one line for each rung and scenario: RUNG, SCENARIO, BYTES moved, DIFFERENCE in bytes (or `skipped`), \
            and details, separated by tabs; `!` marks a row with anything wrong. Exit code 1 on any difference. A rung that this kernel refuses is reported as \
            `not offered` and is no failure unless it was named with --require.
            """
    )

    @Option(help: "Directory with trafficd and trafficgen.")
    var programs = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path

    @Option(help: "A rung to check; may be repeated. Default: fexit and tracepoint.")
    var rung: [String] = []

    @Option(help: "A rung that must be offered; may be repeated.")
    var require: [String] = []

    @Option(help: "A scenario; may be repeated. Default: all.")
    var scenario: [String] = []

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Options for trafficgen, such as '--count 100'.", valueName: "options")
    )
    var generatorOptions = ""

    @Flag(help: "Every difference, not only the first of a scenario.")
    var verbose = false

    func run() async throws {
        let programs = Programs(directory: URL(filePath: self.programs))
        let scenarios = try self.scenario.isEmpty ? Generator.scenarios(programs) : self.scenario
        var failed = false
        for rung in self.rung.isEmpty ? ["fexit", "tracepoint"] : self.rung {
            let exact = try await self.check(rung, scenarios, programs)
            failed = failed || !exact
        }
        if failed { throw ExitCode.failure }
    }

    private func check(_ rung: String, _ scenarios: [String], _ programs: Programs) async throws -> Bool {
        let daemon: Daemon
        do {
            daemon = try await Daemon(programs, rung: rung)
        } catch let refusal as Daemon.Refusal {
            report(rung, "-", "-", self.require.contains(rung) ? "REFUSED" : "not offered", refusal.message)
            return !self.require.contains(rung)
        }
        var exact = true
        for scenario in scenarios {
            let right = await self.check(scenario, rung, daemon, programs)
            exact = right && exact
        }
        let code = try await daemon.stop()
        if code != 0 { report(rung, "-", "-", "FAILED", "trafficd exited with \(code): \(daemon.program.errorText)") }
        return exact && code == 0
    }

    private func check(_ scenario: String, _ rung: String, _ daemon: Daemon, _ programs: Programs) async -> Bool {
        do {
            let arguments = self.generatorOptions.split(separator: " ").map(String.init)
            let check = try await AccuracyCheck.run(scenario, daemon: daemon, programs: programs, arguments: arguments)
            switch check.outcome {
            case .skipped(let reason):
                report(rung, scenario, "-", "skipped", reason)
                return true
            case .compared(let bytes, let off, let differences, let notes):
                let shown = differences.prefix(self.verbose ? differences.count : 1).map(\.description)
                let mark = differences.isEmpty ? "" : " !"
                let missed = daemon.missedCalls()
                let blame = differences.isEmpty || missed == 0 ? [] : ["BPF programs not run so far: \(missed)"]
                let details = ([notes].compactMap(\.self) + blame + shown).joined(separator: "; ")
                report(rung, scenario, String(bytes), "\(off)\(mark)", details)
                return differences.isEmpty
            }
        } catch {
            report(rung, scenario, "-", "FAILED", "\(error)")
            return false
        }
    }
}

private func report(_ columns: String...) {
    let line = columns.map { $0.replacing("\n", with: " | ") }.joined(separator: "\t") + "\n"
    FileHandle.standardOutput.write(Data(line.utf8))
}
