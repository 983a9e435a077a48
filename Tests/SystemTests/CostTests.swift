import Foundation
import Glibc
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficLimits
import TrafficModel

extension SystemTests {
    /// `trafficctl doctor --cost` on the real kernel.
    @Suite(.needsRoot)
    struct CostTests {
        private func doctor(_ daemon: Daemon, _ arguments: [String]) throws -> Program {
            let directory = ["--runtime-directory", daemon.directories.runtime.path]
            return try Program(Machine.programs.client, ["doctor", "--cost"] + arguments + directory)
        }

        private func cost(_ doctor: Program) async throws -> CaptureCost {
            let report = try JSONDecoder().decode(DoctorReport.self, from: try await doctor.rest())
            // The report has the daemon's limits too: limits of the kernel side, of the ledger and of reports.
            let ofKernel = report.capture.method == .poll ? [] : ["closed sockets in the ring"]
            for of in ofKernel + ["ended processes", "claims that wait"] {
                #expect(report.limits?.contains { $0.of.hasPrefix(of) && ($0.user ?? 0) > 0 } == true, "\(of)")
            }
            let code = try await doctor.exit()
            #expect(code == 0, "\(doctor.errorText)")
            return try #require(report.cost)
        }

        /// Whether the daemon keeps the kernel's statistics switched on.
        private func isMeasuring(_ daemon: Daemon) -> Bool {
            let folder = "/proc/\(daemon.program.pid)/fd"
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            return names.contains {
                (try? FileManager.default.destinationOfSymbolicLink(atPath: "\(folder)/\($0)"))
                    == "anon_inode:bpf-stats"
            }
        }

        /// - Returns: `false`: the measurement was over before the test could look.
        private func awaitBegin(of doctor: Program, _ daemon: Daemon) async throws -> Bool {
            let isSeen = try await eventually(every: .milliseconds(5)) {
                self.isMeasuring(daemon) || !doctor.isRunning
            }
            try #require(isSeen)
            return self.isMeasuring(daemon)
        }

        private func awaitEnd(_ daemon: Daemon) async throws {
            try #require(try await eventually(every: .milliseconds(5)) { !self.isMeasuring(daemon) })
        }

        /// The longest measurement, for tests that end it early.
        private static let longest = Duration.seconds(10)

        private func longDoctor(_ daemon: Daemon, _ arguments: String...) throws -> Program {
            try self.doctor(daemon, ["--duration", "\(Self.longest.components.seconds)"] + arguments)
        }

        /// - Returns: How many sends the generator made: one for every request and one for every answer.
        @discardableResult
        private func makeRequests(_ count: UInt64) async throws -> UInt64 {
            let options = ["--address", "127.0.0.1", "--count", "\(count)"]
            let result = try await Program.run(Machine.programs.generator, options + ["tcp-requests"])
            try #require(result.code == 0, "\(result.error)")
            return 2 * count
        }

        /// `run_cnt` of each of the daemon's programs, by the program's id.
        private func runs(_ daemon: Daemon) async throws -> [Int: UInt64] {
            struct Row: Decodable {
                var id: Int
                var run_cnt: UInt64?
            }
            let ours = BPFObjects.held(by: daemon.program.pid).programs
            let listing = try await tool("bpftool", ["-j", "prog", "show"])
            let rows = try JSONDecoder().decode([Row].self, from: Data(listing.output.utf8))
            return Dictionary(
                uniqueKeysWithValues: rows.filter { ours.contains($0.id) }.map { ($0.id, $0.run_cnt ?? 0) }
            )
        }

        /// The kernel has one switch for the whole machine. Another program may have switched the statistics on, so
        /// this tries again.
        private func expectStandstill(_ daemon: Daemon) async throws {
            let standStill = try await eventually(every: .milliseconds(500)) {
                let before = try await self.runs(daemon)
                try #require(!before.isEmpty)
                try await self.makeRequests(100)
                return try await self.runs(daemon) == before
            }
            #expect(standStill, "the programs' runs are still being counted")
        }

        /// Makes as many requests as the machine makes in the time of a measurement.
        ///
        /// - Returns: How many sends were certainly in that time, and the programs' runs before it. Other sends may count
        ///   or not.
        private func measureRequests(
            _ daemon: Daemon
        ) async throws -> (cost: CaptureCost, sends: UInt64, before: [Int: UInt64]) {
            let before = try await self.runs(daemon)
            let asked = ContinuousClock.now
            let doctor = try self.doctor(daemon, ["--duration", "5", "--format", "json"])
            guard try await self.awaitBegin(of: doctor, daemon) else { return (try await self.cost(doctor), 0, before) }
            var batches: [(began: ContinuousClock.Instant, ended: ContinuousClock.Instant, sends: UInt64)] = []
            while batches.count < 100 {
                let began = ContinuousClock.now
                let sends = try await self.makeRequests(20)
                guard self.isMeasuring(daemon) else { break }
                batches.append((began, ContinuousClock.now, sends))
            }
            try await self.awaitEnd(daemon)
            let ended = ContinuousClock.now
            let cost = try await self.cost(doctor)
            // The measurement began some time after this test asked for it, and ended before this test saw that.
            let (begun, over) = (ended - .seconds(cost.seconds), asked + .seconds(cost.seconds))
            let certain = batches.filter { $0.began >= begun && $0.ended <= over }
            return (cost, certain.reduce(0) { $0 + $1.sends }, before)
        }

        @Test(
            "doctor counts at least the calls of the meantime, at most those that bpftool shows, and stops",
            .needsBPF,
            .needs("bpftool")
        )
        func counts() async throws {
            try await withDaemon(arguments: ["--keep-sys-admin"]) { daemon in
                try await self.expectStandstill(daemon)
                let (cost, sends, before) = try await look(every: .zero, until: { $0.sends > 0 }) {
                    try await self.measureRequests(daemon)
                }
                #expect(sends > 0)
                #expect(!self.isMeasuring(daemon))
                let after = try await self.runs(daemon)

                #expect(cost.seconds >= 5)
                let counted = cost.programs.filter { $0.name.contains("send") }.reduce(0) { $0 + $1.calls }
                #expect(counted >= sends)
                let all = cost.programs.reduce(0) { $0 + $1.calls }
                let grown = after.reduce(0) { $0 + $1.value - before[$1.key, default: 0] }
                #expect(all <= grown, "counted \(all), the kernel \(grown)")
                #expect(cost.programs.allSatisfy { $0.missed == 0 || $0.calls > 0 })
                #expect(cost.cpuPercent > 0)
                try await self.expectStandstill(daemon)
            }
        }

        @Test(
            "the statistics go off when the last client goes away or has its report, and not before",
            .needsBPF,
            .needs("bpftool")
        )
        func gone() async throws {
            try await withDaemon(arguments: ["--keep-sys-admin"]) { daemon in
                // On a very busy machine a measurement may be over before the test looks. Then it looks at another one.
                let endsEarly = try await eventually {
                    let start = ContinuousClock.now
                    let doctor = try self.longDoctor(daemon)
                    guard try await self.awaitBegin(of: doctor, daemon) else { return false }
                    doctor.signal(SIGINT)
                    try await doctor.exit()
                    try await self.awaitEnd(daemon)
                    return ContinuousClock.now - start < Self.longest
                }
                #expect(endsEarly, "the client is gone")
                let hasSeen = try await eventually {
                    let start = ContinuousClock.now
                    let other = try self.longDoctor(daemon, "--format", "json")
                    let isInTime = try await self.awaitBegin(of: other, daemon)
                    let doctor = try self.longDoctor(daemon)
                    // Until it measures, too. A test of the control server has the same without a clock.
                    try await Task.sleep(for: .seconds(1))
                    doctor.signal(SIGINT)
                    try await doctor.exit()
                    try await Task.sleep(for: .milliseconds(500))  // until the daemon has noticed
                    let isMeasuring = self.isMeasuring(daemon)
                    let isJudged = isInTime && ContinuousClock.now - start < Self.longest
                    if isJudged { #expect(isMeasuring, "the other is still at it") }
                    let cost = try await self.cost(other)
                    #expect(cost.seconds >= Self.longest / .seconds(1))
                    return isJudged
                }
                #expect(hasSeen)
                try await self.awaitEnd(daemon)
                try await self.expectStandstill(daemon)
            }
        }

        @Test("the table has a line for each program and the total, and the daemon goes on counting", .needsBPF)
        func table() async throws {
            try await withDaemon(arguments: ["--keep-sys-admin"]) { daemon in
                let goesOn = try await eventually {
                    let other = try self.longDoctor(daemon)
                    guard try await self.awaitBegin(of: other, daemon) else { return false }
                    let first = try await daemon.snapshot().takenBoottimeNanoseconds
                    let second = try await daemon.snapshot().takenBoottimeNanoseconds
                    #expect(second > first)
                    let isMeasuring = self.isMeasuring(daemon)
                    other.signal(SIGINT)
                    try await other.exit()
                    return isMeasuring
                }
                #expect(goesOn, "no two snapshots while it measures")
                // A machine that is busy during the calibration may find no difference, and then doctor says none.
                let isComplete = { (text: String, _: Duration) in
                    text.contains("ns longer; it is over") || text.contains("were on before")
                }
                let (text, taken) = try await look(until: isComplete) {
                    let start = ContinuousClock.now
                    let doctor = try self.doctor(daemon, ["--duration", "1"])
                    let text = String(decoding: try await doctor.rest(), as: UTF8.self)
                    try await doctor.exit()
                    #expect(doctor.errorText.isEmpty, "no terminal, no progress")
                    return (text, ContinuousClock.now - start)
                }
                #expect(isComplete(text, taken))
                let lines = text.split(separator: "\n")
                let title = try #require(lines.firstIndex { $0.hasPrefix("PROGRAM ") })
                let total = try #require(lines[title...].firstIndex { $0.hasPrefix("total ") })
                // The second column, whose long words are cut. Which iterators there are depends on the kernel.
                let hooks = lines[(title + 1)..<total].map { line in
                    line.split(separator: " ").dropFirst().first.map { $0.prefix { $0 != "…" } } ?? ""
                }
                let capture = try await daemon.latestSnapshot().capture
                let events = hooks.prefix(capture.hooks.count)
                #expect(events.count == capture.hooks.count, "\(text)")
                #expect(zip(events, capture.hooks).allSatisfy { !$0.isEmpty && $1.hasPrefix($0) }, "\(text)")
                let iterators = hooks.dropFirst(events.count)
                #expect(!iterators.isEmpty && iterators.allSatisfy { $0.hasPrefix("iter/") }, "\(text)")
                let measured = text.firstMatch(of: /of one processor, in the kernel, measured for ([0-9.]+) s/)
                // At least the second that was asked for, and at most what the program took, rounded to a tenth.
                let seconds = try #require(measured.flatMap { Double($0.output.1) })
                #expect(seconds >= 1 && seconds <= taken / .seconds(1) + 0.05)
            }
        }

        @Test("on a terminal doctor says that it measures, and then removes the message", .needsBPF, .needs("tmux"))
        func progress() async throws {
            try await withDaemon(arguments: ["--keep-sys-admin"]) { daemon in
                let command =
                    "'\(Machine.programs.client.path)' doctor --cost --duration 5 --runtime-directory "
                    + "'\(daemon.directories.runtime.path)'"
                // A daemon that is too busy for a whole answer is asked again.
                let screen = try await look(until: { !$0.contains("too busy to answer") }) {
                    try await Lab.withDirectory { directory in
                        let terminal = try Terminal(width: 100, height: 60, directory: directory, command: command)
                        // All that was sent, because on a slow machine the message may be gone before the test looks.
                        let progress = /measuring: [0-4]\.[0-9] of 5\.0 s/
                        let sent = try await look(until: { $0.firstMatch(of: progress) != nil }) {
                            String(decoding: terminal.bytes, as: UTF8.self)
                        }
                        #expect(sent.firstMatch(of: progress) != nil)
                        // Not for "over", which the report itself says before the program has ended.
                        return try await terminal.wait(for: "exit status")
                    }
                }
                #expect(screen.contains("NS/CALL") && screen.contains("exit status 0"), "\(screen)")
                #expect(!screen.contains("measuring:"))
            }
        }

        @Test("a user without permission gets exit code 77", .needsBPF, .needs("setpriv"))
        func stranger() async throws {
            try await withDaemon { daemon in
                chmod(daemon.directories.controlSocket.path, 0o666)
                let stranger = ["--reuid=65534", "--regid=65534", "--clear-groups", Machine.programs.client.path]
                let place = ["--runtime-directory", daemon.directories.runtime.path]
                let refused = try await tool("setpriv", stranger + ["doctor", "--cost"] + place)
                #expect(refused.code == 77)
                #expect(refused.error.contains("root") && refused.output.isEmpty)
                let plain = try await tool("setpriv", stranger + ["doctor"] + place)
                #expect(plain.code == 0, "\(plain.error)")
            }
        }

        @Test("a daemon without CAP_SYS_ADMIN says what to do, and measures while the statistics are on", .needsBPF)
        func withoutRight() async throws {
            try await withDaemon { daemon in
                // Another test may have the statistics on.
                let text = try await look(until: { $0 != "" }) {
                    let refused = try self.doctor(daemon, ["--duration", "100ms"])
                    _ = try await refused.rest()
                    let code = try await refused.exit()
                    return code == 0 ? "" : refused.errorText
                }
                #expect(text.contains("sudo sysctl kernel.bpf_stats_enabled=1"), "\(text)")
                #expect(text.contains("--keep-sys-admin"))
                try await withDaemon(arguments: ["--keep-sys-admin"]) { other in
                    let isMeasured = try await eventually {
                        let switchedOn = try self.longDoctor(other)
                        guard try await self.awaitBegin(of: switchedOn, other) else { return false }
                        let doctor = try self.doctor(daemon, ["--duration", "1", "--format", "json"])
                        let output = try await doctor.rest()
                        let code = try await doctor.exit()
                        switchedOn.signal(SIGINT)
                        try await switchedOn.exit()
                        guard code == 0 else { return false }
                        let cost = try #require(try JSONDecoder().decode(DoctorReport.self, from: output).cost)
                        #expect(cost.statisticsWereOn == true && !cost.programs.isEmpty && cost.seconds >= 1)
                        return true
                    }
                    #expect(isMeasured)
                }
            }
        }

        @Test("with the method poll there is nothing to measure, and no wait")
        func poll() async throws {
            try await withDaemon(method: "poll") { daemon in
                // 0 seconds: there was no wait.
                let cost = try await self.cost(try self.doctor(daemon, ["--duration", "10", "--format", "json"]))
                #expect(cost == CaptureCost(seconds: 0, programs: []))
                let doctor = try self.doctor(daemon, [])
                let text = String(decoding: try await doctor.rest(), as: UTF8.self)
                #expect(text.contains("cost       none in the kernel"))
            }
        }
    }
}
