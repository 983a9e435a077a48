import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficConfiguration
import TrafficDocuments
import TrafficModel

extension SurfaceTests {
    /// The configuration file of a daemon, read at its start and again at SIGHUP.
    @Suite(.needsBPF, .needs("python3"))
    struct ConfigurationTests {
        /// A file that is removed with this object.
        private final class File: Sendable {
            let path = temporaryPath("tc", ".yaml")

            init(_ text: String) throws { try self.write(text) }

            deinit { unlink(self.path) }

            func write(_ text: String) throws {
                try text.write(toFile: self.path, atomically: true, encoding: .utf8)
                chmod(self.path, 0o644)
            }
        }

        private static func daemon(_ file: File?, _ arguments: [String] = []) async throws -> Daemon {
            try await Daemon(Machine.programs, configuration: file?.path, arguments: arguments)
        }

        /// Waits until the daemon has logged `count` lines with this text.
        private static func log(of daemon: Daemon, has text: String, times count: Int = 1) async throws -> [Substring] {
            let lines = try await look(every: .milliseconds(10), until: { $0.count >= count }) {
                let lines = daemon.program.errorText.split(separator: "\n").filter { $0.contains(text) }
                try #require(lines.count >= count || daemon.program.isRunning, "\(daemon.program.errorText)")
                return lines
            }
            #expect(lines.count >= count, "the log has no \(text): \(daemon.program.errorText)")
            return lines
        }

        private static func hangUp(_ daemon: Daemon, until text: String, times count: Int = 1) async throws {
            daemon.program.signal(SIGHUP)
            _ = try await Self.log(of: daemon, has: text, times: count)
        }

        private static let read = "SIGHUP: the configuration was read again"

        /// Moves bytes to an address that nobody else uses.
        private struct Place {
            let address = "127.83.\(UInt8.random(in: 1...254)).\(UInt8.random(in: 1...254))"

            private static let program = """
                import socket, sys
                listener = socket.create_server((sys.argv[1], 0))
                client = socket.create_connection(listener.getsockname(), source_address=("127.0.0.1", 0))
                server, _ = listener.accept()
                client.sendall(bytes(int(sys.argv[2])))
                client.close()
                while server.recv(65536): pass
                """

            func move(_ bytes: UInt64) async throws {
                let moved = try await tool("python3", ["-c", Self.program, self.address, "\(bytes)"])
                try #require(moved.code == 0, "\(moved.error)")
            }
        }

        /// By class.
        private static func sent(_ daemon: Daemon) async throws -> [String: UInt64]? {
            try await daemon.snapshot().totals.byClass?.mapValues(\.payload.sent)
        }

        @Test("a file takes effect at the start, and an option wins over it, which the log says")
        func start() async throws {
            let place = Place()
            let file = try File(
                """
                classes: {filed: [\(place.address)]}
                log_level: debug
                keep_exited: 1h
                keep_history: {day: 70d}
                wire: derived
                """
            )
            let first = try await Self.daemon(file)
            try await place.move(1_001)
            #expect(try await Self.sent(first) == ["filed": 1_001])
            #expect(try await first.snapshot().capture.hooks.allSatisfy { !$0.contains("cgroup_skb") })
            #expect(!first.program.errorText.contains("wins over"))
            #expect(try await Self.log(of: first, has: "no state_directory, so keep_history has no effect").count == 1)
            try await finish(first)

            let second = try await Self.daemon(file, ["--class", "given=\(place.address)", "--keep-exited", "1h"])
            try await place.move(77)
            #expect(try await Self.sent(second) == ["given": 77])
            let lines = try await Self.log(of: second, has: "wins over")
            #expect(lines.count == 1)
            #expect(
                lines.first?.hasSuffix(
                    "the option for classes, given=\(place.address), wins over filed=\(place.address) in \(file.path)"
                ) == true,
                "\(lines)"
            )
            try await finish(second)
        }

        @Test("a wrong file prevents the start, with the lines of check-config, which needs no root", .needs("setpriv"))
        func wrong() async throws {
            let file = try File("interval: 2h\n\nmethd: auto\n")
            let wanted = """
                \(file.path):1:11: error: interval is 2h, and must be between 100ms and 1m
                \(file.path):3:1: error: unknown key 'methd' (did you mean method?)

                """
            let run = try await Program.run(Machine.programs.daemon, ["run", "--config", file.path])
            #expect(run.code == 78 && run.error == wanted, "\(run.error)")
            // As nobody, who may not enter the directory of the build.
            let copy = temporaryPath("trafficd")
            try FileManager.default.copyItem(atPath: Machine.programs.daemon.path, toPath: copy)
            defer { unlink(copy) }
            let unprivileged = ["--reuid=65534", "--clear-groups", "--no-new-privs", copy, "check-config", file.path]
            let check = try await tool("setpriv", unprivileged)
            #expect(check.code == 78 && check.error == wanted && check.output.isEmpty, "\(check.error)")
            try file.write("interval: 2s\n")
            let good = try await tool("setpriv", unprivileged)
            #expect(good.code == 0 && good.error.isEmpty)
            #expect(good.output == "\(file.path): no errors, 1 of \(Configuration.settings.all.count) settings given\n")
        }

        @Test("what the file and the options say together can be wrong, and a named file must be there")
        func together() async throws {
            let file = try File("wire: audited\n")
            let both = try await Program.run(
                Machine.programs.daemon,
                ["run", "--config", file.path, "--method", "lifecycle"]
            )
            #expect(both.code == 78)
            #expect(
                both.error
                    == "\(file.path): error: with the options of trafficd: method lifecycle counts no packets: leave out wire audited\n"
            )
            // systemctl reload asks so: of the file that the options name, and with all of them.
            let check = try await Program.run(
                Machine.programs.daemon,
                ["run", "--config", file.path, "--method", "lifecycle", "--check-config"]
            )
            #expect(check.code == 78 && check.error == both.error)
            let right = try await Program.run(
                Machine.programs.daemon,
                ["run", "--config", file.path, "--check-config"]
            )
            #expect(
                right.code == 0 && String(decoding: right.output, as: UTF8.self) == "the configuration is right\n"
                    && right.error.isEmpty
            )
            let missing = try await Program.run(Machine.programs.daemon, ["run", "--config", "/nosuchfile.yaml"])
            #expect(missing.code == 78)
            #expect(missing.error == "/nosuchfile.yaml: error: can't read it: No such file or directory\n")
            let history = try await Program.run(
                Machine.programs.daemon,
                ["run", "--config", "off", "--keep-history", "day=62d"]
            )
            #expect(history.code == 64 && history.error.contains("--keep-history needs --state-directory"))
        }

        @Test("SIGHUP while bytes move: no byte is lost, what can change changes, and the rest waits for a restart")
        func reload() async throws {
            let place = Place()
            let before = "classes: {old: [\(place.address)], kept: [203.0.113.0/24]}\ninterval: 200ms\n"
            let file = try File(before)
            let mover = try Mover()
            var random = Seeded(3)
            let daemon = try await Self.daemon(file)
            try await place.move(10_007)
            #expect(try await Self.sent(daemon) == ["old": 10_007, "kept": 0])
            for round in 1...12 {
                // Bytes move before, during and after the change, over connections that stay.
                try await mover.tellAnything(&random)
                let isEven = round % 2 == 0
                try file.write(
                    """
                    classes: {new: [\(place.address)], kept: [203.0.113.0/24]}
                    interval: \(isEven ? "200ms" : "300ms")
                    keep_exited: \(isEven ? "5m" : "1h")
                    log_level: \(isEven ? "info" : "debug")
                    wire: \(isEven ? "exact" : "audited")
                    """
                )
                daemon.program.signal(SIGHUP)
                try await mover.tellAnything(&random)
                _ = try await Self.log(of: daemon, has: Self.read, times: round)
                try await mover.tellAnything(&random)
                if round == 1 {
                    let news = [
                        "classes: ", "interval: 200ms → 300ms", "keep_exited: 5m → 1h", "log_level: info → debug",
                    ]
                    for line in news {
                        #expect(try await Self.log(of: daemon, has: "notice trafficd: [trafficd] \(line)").count == 1)
                    }
                    let restart = "warning trafficd: [trafficd] wire: exact → audited needs a restart"
                    #expect(try await Self.log(of: daemon, has: restart).count == 1)
                    try await place.move(333)
                    #expect(try await Self.sent(daemon) == ["new": 333, "kept": 0])
                }
            }
            try await place.move(4)
            #expect(try await Self.sent(daemon) == ["new": 337, "kept": 0])
            #expect(try await daemon.counted(mover) == mover.moved && mover.moved.sent > 0)
            #expect(try await daemon.snapshot().capture.loss.isLossy == false)
            try await finish(daemon)
        }

        @Test("every byte of a scenario is counted while SIGHUPs come", arguments: ["tcp", "churn", "udp"])
        func scenarios(_ name: String) async throws {
            // No process's row may leave the list between two looks at it.
            let kept = "keep_exited: 1d\n"
            let file = try File("\(kept)interval: 100ms\nclasses: {a: [127.0.0.0/8]}\n")
            let daemon = try await Self.daemon(file)
            let pid = daemon.program.pid
            let hangups = Task {
                for round in 0... {
                    try file.write(
                        kept + "interval: \(100 + round % 3)ms\n"
                            + "classes: {\(round % 2 == 0 ? "b" : "a"): [127.0.0.0/8]}\n"
                    )
                    kill(pid, SIGHUP)
                    try await Task.sleep(for: .milliseconds(20))
                }
            }
            let check = try await AccuracyCheck.run(name, daemon: daemon, programs: Machine.programs)
            hangups.cancel()
            _ = await hangups.result
            _ = try await Self.log(of: daemon, has: Self.read)
            try await finish(daemon)
            try expectExact(check)
        }

        @Test("a class that goes at a SIGHUP keeps in history what it had until then")
        func historyOfClasses() async throws {
            let (place, directories) = (Place(), try DaemonDirectories())
            let state = directories.root.appending(path: "state").path
            let file = try File(
                "classes: {old: [\(place.address)]}\nkeep_history: {minute: 3d}\nstate_directory: \(state)\n"
            )
            let daemon = try await Daemon(Machine.programs, directories: directories, configuration: file.path)
            try await place.move(5_003)
            #expect(try await Self.sent(daemon) == ["old": 5_003])
            try file.write("classes: {new: [\(place.address)]}\nstate_directory: \(state)\n")
            try await Self.hangUp(daemon, until: Self.read)
            #expect(try await Self.log(of: daemon, has: "keep_history.minute: 3d → 2d").count == 1)
            try await place.move(29)
            #expect(try await Self.sent(daemon) == ["new": 29])
            try await finish(daemon)
            let again = try await Daemon(Machine.programs, directories: directories, configuration: file.path)
            let said = try await again.get("/v1/history?by=class")
            let report = try JSONDecoder().decode(HistoryReport.self, from: said.output)
            var sums: [String: UInt64] = [:]
            for row in report.rows { sums[row.name.addressClass ?? "", default: 0] += row.bytes.payload.sent }
            #expect(sums["old"] == 5_003 && sums["new"] == 29, "\(sums)")
            try await finish(again)
        }

        @Test("a file that is wrong at SIGHUP changes nothing, and the log has its lines")
        func wrongReload() async throws {
            let place = Place()
            let file = try File("classes: {old: [\(place.address)]}\n")
            let daemon = try await Self.daemon(file)
            try file.write("classes: {new: [\(place.address)]}\ninterval: 1x\nkeepexited: 1h\n")
            try await Self.hangUp(daemon, until: "SIGHUP: the configuration file is wrong, and nothing changes")
            let lines = [
                "2:11: error: interval is '1x', and must be a time such as 500ms, 10s, 5m, 1h30m or 7d",
                "3:1: error: unknown key 'keepexited' (did you mean keep_exited?)",
            ]
            for line in lines { #expect(try await Self.log(of: daemon, has: "\(file.path):\(line)").count == 1) }
            try await place.move(8)
            #expect(try await Self.sent(daemon) == ["old": 8])
            // Mended, it is taken.
            try file.write("classes: {new: [\(place.address)]}\n")
            try await Self.hangUp(daemon, until: Self.read)
            #expect(try await Self.sent(daemon) == ["new": 0])
            // Gone, it is wrong again.
            unlink(file.path)
            try await Self.hangUp(
                daemon,
                until: "SIGHUP: the configuration file is wrong, and nothing changes",
                times: 2
            )
            #expect(try await Self.sent(daemon) == ["new": 0])
            try await finish(daemon)
        }

        @Test("without a file, SIGHUP changes nothing, however often it comes")
        func noFile() async throws {
            let daemon = try await Self.daemon(nil, ["--log-level", "notice"])
            for _ in 0..<200 { daemon.program.signal(SIGHUP) }
            try await Self.hangUp(daemon, until: "SIGHUP: there is no configuration file, and nothing changes")
            _ = try await daemon.snapshot()
            try await finish(daemon)
        }
    }
}
