import ArgumentParser
import Foundation
import GroundTruth
import Synchronization
import TestSupport
import TrafficModel

/// Runs every scenario with every method, in a lab of two network namespaces.
struct Run: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Run scenarios on methods and print a line for each.",
        discussion: """
            The daemon and the generator's clients are in one network namespace, its servers in another, at the ends of a \
            veth pair; scenarios that can't be split stay on loopback. Compared are the payload of each process and \
            socket with the results of the generator's calls, and the wire bytes of the first namespace with the kernel's \
            packet filter and interface counters.

            Prints fields separated by tabs, their names first. Exit code 1 on any difference. A method that this kernel \
            refuses is reported as `not offered` and is no failure unless it was named with --require.
            """
    )

    @Option(help: "Directory with trafficd and trafficgen.")
    var programs = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent().path

    @Option(help: "A method to check; may be repeated. Default: all that count by BPF.")
    var method: [String] = []

    @Option(help: "A method that must be offered; may be repeated.")
    var require: [String] = []

    @Option(help: "A scenario; may be repeated. Default: all.")
    var scenario: [String] = []

    @Flag(help: "Keep the servers in the daemon's namespace, on its loopback.")
    var loopback = false

    @Flag(help: "Let the near interface segment and aggregate packets.")
    var offloads = false

    @Option(
        parsing: .unconditional,
        help: ArgumentHelp("Options for trafficgen, such as '--count 100'.", valueName: "options")
    )
    var generatorOptions = ""

    @Option(
        help:
            "What a hostile user does meanwhile, of `trafficgen flood`; may be repeated: all scenarios without, then beside each."
    )
    var flood: [String] = []

    @Option(help: "How long each flood goes on at least.")
    var floodSeconds = 60

    @Option(
        help: ArgumentHelp(
            "Programs that the kernel is made to refuse, as REFUSE_BPF of Tests/Tools/refuse, with METHOD: only with that method; may be repeated: a run for each, and none without.",
            valueName: "[METHOD:]NAMES"
        )
    )
    var refuse: [String] = []

    @Option(help: "The library of Tests/Tools/refuse, for --refuse.")
    var refuser: String?

    @Option(help: "Seconds between two snapshots of the daemon.")
    var interval = 0.2

    @Flag(help: "Every difference, not only the first of a scenario.")
    var verbose = false

    private func variant(_ refused: String?) -> String {
        let parts = [
            self.offloads ? "offloads on" : nil, self.loopback ? "loopback" : nil, refused.map { "without \($0)" },
        ]
        return parts.compactMap(\.self).joined(separator: ", ")
    }

    func validate() throws {
        let known = ["auto"] + CaptureMethod.allCases.map(\.rawValue)
        if !self.refuse.isEmpty && self.refuser == nil { throw ValidationError("--refuse needs --refuser.") }
        for method in self.method + self.require where !known.contains(method) {
            throw ValidationError("There is no method \(method); there are: \(known.joined(separator: ", ")).")
        }
    }

    func run() async throws {
        let programs = Programs(directory: URL(filePath: self.programs))
        let scenarios = try self.scenario.isEmpty ? Generator.scenarios(programs) : self.scenario
        let lab = try await NetworkLab(offloads: self.offloads)
        let directories = try DaemonDirectories()
        let guardian = SignalGuard { [root = directories.root] in
            lab.remove()
            try? FileManager.default.removeItem(at: root)
        }
        defer { guardian.stop() }
        defer { lab.remove() }
        print(line: AccuracyRow.headerLine)
        var failed = false
        for method in self.method.isEmpty ? ["fexit", "tracepoint", "kprobe"] : self.method {
            var refusals = self.refusals(of: method)
            // A method that this kernel lacks is said once.
            if refusals.count > 1, try await !self.isOffered(method, programs, lab, directories) { refusals = [nil] }
            for refused in refusals {
                let exact = try await self.check(method, refused, scenarios, programs, lab, directories)
                failed = failed || !exact
            }
        }
        if failed { throw ExitCode.failure }
    }

    private func refusals(of method: String) -> [String?] {
        if self.refuse.isEmpty { return [nil] }
        let parts = self.refuse.map { $0.split(separator: ":", maxSplits: 1).map(String.init) }
        return parts.filter { $0.count == 1 || $0[0] == method }.map(\.last)
    }

    private func row(
        _ method: String,
        _ refused: String?,
        _ status: AccuracyRow.Status,
        _ details: String = ""
    ) -> AccuracyRow {
        var row = AccuracyRow(kernel: HostKernel.release, method: method, status: status)
        row.variant = self.variant(refused)
        row.details = details
        return row
    }

    private func start(
        _ method: String,
        _ refused: String?,
        _ programs: Programs,
        _ lab: NetworkLab,
        _ directories: DaemonDirectories
    ) async throws -> Daemon {
        var launcher = lab.near.launcher
        if let refused, let refuser {
            launcher.arguments += ["env", "LD_PRELOAD=\(refuser)", "REFUSE_BPF=\(refused)"]
        }
        // No process's row may leave the list between two comparisons. Packets of no socket are compared, too.
        return try await Daemon(
            programs,
            method: method,
            interval: self.interval,
            directories: directories,
            arguments: ["--keep-exited", "86400"] + (method == "lifecycle" ? [] : ["--wire", "audited"]),
            launcher: launcher
        )
    }

    private func isOffered(
        _ method: String,
        _ programs: Programs,
        _ lab: NetworkLab,
        _ directories: DaemonDirectories
    ) async throws -> Bool {
        do {
            _ = try await self.start(method, nil, programs, lab, directories).stop()
            return true
        } catch is Daemon.Refusal {
            return false
        }
    }

    private func check(
        _ method: String,
        _ refused: String?,
        _ scenarios: [String],
        _ programs: Programs,
        _ lab: NetworkLab,
        _ directories: DaemonDirectories
    ) async throws -> Bool {
        let daemon: Daemon
        do {
            daemon = try await self.start(method, refused, programs, lab, directories)
        } catch let refusal as Daemon.Refusal {
            let isRequired = self.require.contains(method)
            print(line: self.row(method, refused, isRequired ? .failed : .notOffered, refusal.message).line)
            return !isRequired
        }
        let watch = try await WireWatch(lab, daemon)
        let method = try await daemon.latestSnapshot().capture.method.rawValue  // the method that `auto` has chosen
        var exact = true
        // First without a flood: what the scenarios alone make the daemon keep must not count against a flood.
        for kind in [nil] + self.flood.map(Optional.some) {
            let flood = try await kind.asyncMap {
                try await Flood($0, seconds: self.floodSeconds, programs: programs, daemon: daemon)
            }
            for scenario in scenarios {
                let row = await self.check(scenario, method, refused, daemon, programs, watch)
                print(line: row.line)
                exact = exact && row.status != .different && row.status != .failed
            }
            guard let kind, let report = try await flood?.stop() else { continue }
            var row = self.row(method, refused, report.isExact ? .exact : .different, report.description)
            row.scenario = "flood \(kind)"
            row.payloadBytes = report.truth.total
            print(line: row.line)
            exact = exact && report.isExact
        }
        let code = try await daemon.stop()
        if code == 0 { return exact }
        print(
            line: self.row(method, refused, .failed, "trafficd exited with \(code): \(daemon.program.errorText)").line
        )
        return false
    }

    private func check(
        _ scenario: String,
        _ method: String,
        _ refused: String?,
        _ daemon: Daemon,
        _ programs: Programs,
        _ watch: WireWatch
    ) async -> AccuracyRow {
        let start = ContinuousClock.now
        var row = self.row(method, refused, .exact)
        row.scenario = scenario
        let run = {
            try await AccuracyCheck.run(
                scenario,
                daemon: daemon,
                programs: programs,
                arguments: (self.loopback ? [] : watch.lab.generatorArguments)
                    + self.generatorOptions.split(separator: " ").map(String.init),
                in: watch
            )
        }
        do {
            let check: AccuracyCheck
            do {
                check = try await run()
            } catch let stall as Generator.Stall {
                // The first attempt compared nothing, and the row says so.
                check = try await run()
                row.details = "at the second attempt; the first: \(stall)"
            }
            self.fill(&row, from: check, missed: try await daemon.latestSnapshot().capture.loss.missedRuns)
        } catch {
            row.status = .failed
            row.details = "\(error)"
        }
        row.seconds = (ContinuousClock.now - start) / .seconds(1)
        return row
    }

    private func fill(_ row: inout AccuracyRow, from check: AccuracyCheck, missed: UInt64) {
        var differences = check.wire?.differences ?? []
        var remarks = row.details.isEmpty ? [] : [row.details]
        switch check.outcome {
        case .skipped(let reason):
            row.status = .skipped
            remarks.append(reason)
        case .compared(let bytes, let off, let ofPayload, let notes):
            differences = ofPayload + differences
            row.path = check.acrossNamespaces ? "veth" : "loopback"
            row.payloadBytes = bytes
            row.payloadDifference = off
            row.wireBytes = check.wire?.bytes
            row.wireDifference = check.wire?.difference
            remarks += [notes].compactMap(\.self)
        }
        if !differences.isEmpty {
            row.status = .different
            if missed > 0 { remarks.append("BPF programs not run so far: \(missed)") }
        }
        remarks += differences.prefix(self.verbose ? differences.count : 1).map(\.description)
        row.details = remarks.joined(separator: "; ")
    }
}

extension Optional {
    fileprivate func asyncMap<Result>(_ body: (Wrapped) async throws -> Result) async rethrows -> Result? {
        guard let self else { return nil }
        return try await body(self)
    }
}

private func print(line: String) {
    guard !SignalGuard.isEnding.load(ordering: .relaxed) else { return }
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}

enum HostKernel {
    /// As `uname -r` prints it.
    static let release: String = {
        let text = try? String(contentsOfFile: "/proc/sys/kernel/osrelease", encoding: .utf8)
        return text?.trimmingCharacters(in: .whitespacesAndNewlines) ?? "unknown"
    }()
}
