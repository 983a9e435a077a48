import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// Faults around the daemon, and the messages that the user then gets.
    @Suite
    struct FaultTests {
        /// The message has one line, so that it fits a log and a terminal.
        private func expectOneLine(_ text: String, sourceLocation: SourceLocation = #_sourceLocation) {
            let lines = text.split(separator: "\n").filter { !$0.isEmpty }
            #expect(lines.count == 1, "\(text)", sourceLocation: sourceLocation)
        }

        private func refusal(
            method: String = Machine.method,
            directories: DaemonDirectories? = nil,
            arguments: [String] = []
        ) async throws -> Daemon.Refusal? {
            do {
                let daemon = try await Daemon(
                    Machine.programs,
                    method: method,
                    directories: directories,
                    arguments: arguments
                )
                try await finish(daemon)
                return nil
            } catch let refusal as Daemon.Refusal {
                return refusal
            }
        }

        @Test("without root the daemon says what is missing and exits with 77", .needsRoot, .needs("setpriv"))
        func noRoot() async throws {
            let directories = try DaemonDirectories()
            let daemon = Machine.programs.daemon.path
            let arguments = ["--reuid=65534", "--regid=65534", "--clear-groups", daemon, "run", "--listen", "off"]
            let result = try await tool("setpriv", arguments + directories.arguments)
            #expect(result.code == 77)
            self.expectOneLine(result.error)
            #expect(result.error.contains("sudo") || result.error.contains("root"))
        }

        @Test("unload succeeds where nothing is left, says so, and makes nothing", .needsRoot)
        func nothingToUnload() async throws {
            let path = try DaemonDirectories().root.appending(path: "none").path
            let said = try await Program.run(Machine.programs.daemon, ["unload", "--pin-directory", path])
            #expect(said.code == 0 && said.error.isEmpty, "\(said.error)")
            #expect(String(decoding: said.output, as: UTF8.self) == "nothing is pinned in \(path)\n")
            #expect(access(path, F_OK) == -1 && errno == ENOENT)
        }

        @Test(
            "unknown flags and methods are bad usage: 64",
            arguments: [
                ["--no-such-flag"], ["--method", "guess"], ["--listen"], ["--keep-exited", "20000000000"],
                ["--keep-exited", "9223372036854775807"], ["--keep-exited", "-1"],
            ]
        )
        func badUsage(_ arguments: [String]) async throws {
            let result = try await Program.run(Machine.programs.daemon, ["run"] + arguments)
            #expect(result.code == 64)
            #expect(!result.error.isEmpty)
        }

        @Test(
            "invalid classes are bad usage: 64, and the message says what is wrong",
            arguments: [
                (["a=10.0.0.1/8"], "10.0.0.1/8 goes on beyond its prefix: write 10.0.0.0/8"),
                (["a=10.0.0.0/33"], "no prefix length of 0 to 32"), (["=::1"], "'' is not a name"),
                (["a=::1", "a=::2"], "class 'a' is given twice"), (["a=::1", "b=::1"], "::1 is in class 'a' already"),
            ]
        )
        func badClasses(_ definitions: [String], _ message: String) async throws {
            let arguments = ["run"] + definitions.flatMap { ["--class", $0] }
            let result = try await Program.run(Machine.programs.daemon, arguments)
            #expect(result.code == 64)
            #expect(result.error.contains(message))
        }

        @Test("a daemon does not take over the runtime directory of a running daemon", .needsRoot)
        func runtimeDirectoryTaken() async throws {
            try await withDaemon { first in
                let refusal = try #require(try await self.refusal(directories: first.directories))
                #expect(refusal.code == 1)
                self.expectOneLine(refusal.message)
                #expect(refusal.message.contains(first.directories.runtime.path))
                let pid = try await first.latestSnapshot().daemon.pid
                #expect(pid == first.program.pid)
            }
        }

        @Test("a killed daemon's leftovers do not stop the next daemon, and nothing stays in the kernel", .needsRoot)
        func killed() async throws {
            let directories = try DaemonDirectories()
            let first = try await Daemon(Machine.programs, method: Machine.method, directories: directories)
            let held = BPFObjects.held(by: first.program.pid)
            let code = try await first.stop(SIGKILL)
            #expect(code == 128 + SIGKILL)
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
            #expect(FileManager.default.fileExists(atPath: directories.controlSocket.path))
            try await withDaemon(directories: directories) { second in
                let pid = try await second.latestSnapshot().daemon.pid
                #expect(pid == second.program.pid)
            }
        }

        @Test("a message names a directory that the daemon can't write", .needsRoot)
        func unwritableDirectory() async throws {
            // Root may write everywhere except in kernel file systems and below a plain file.
            for path in ["/proc/trafficd", "/dev/null/trafficd"] {
                let result = try await Program.run(
                    Machine.programs.daemon,
                    ["run", "--listen", "off", "--runtime-directory", path]
                )
                #expect(result.code == 1)
                self.expectOneLine(result.error)
                #expect(result.error.contains(path))
            }
        }

        @Test("a million open files on the machine neither stop a daemon nor change its capture method", .needsBPF)
        func manyDescriptors() async throws {
            try await withDaemon { daemon in
                let first = try await daemon.snapshot().capture
                let generator = try Generator(Machine.programs, scenario: "descriptors")
                let truth = try await generator.result()
                try await self.expect(truth, from: daemon, afterSweeps: 3)
                try await withDaemon { second in
                    let found = try await second.snapshot().capture
                    #expect(found.method == first.method && found.reason == first.reason)
                }
                try generator.goOn()
                try await generator.exit()
            }
        }

        @Test(
            "a daemon that can open no more files goes on counting, says what it can't read, and reads it later",
            .needsBPF,
            .needs("prlimit")
        )
        func noDescriptorLeft() async throws {
            try await withDaemon { daemon in
                let before = try await daemon.snapshot().capture
                let limit = { (files: String) async throws in
                    let result = try await tool("prlimit", ["--pid", "\(daemon.program.pid)", "--nofile=\(files):"])
                    try #require(result.code == 0, "\(result.error)")
                }
                try await limit("3")
                let generator = try Generator(Machine.programs, scenario: "tcp")
                let truth = try await generator.result()
                #expect(
                    try await eventually { daemon.program.errorText.contains("can't read sweep_") },
                    "\(daemon.program.errorText)"
                )
                try #require(daemon.program.isRunning, "\(daemon.program.errorText)")
                try await limit("10000")
                try await self.expect(truth, from: daemon, afterSweeps: 2)
                var after = try await daemon.snapshot().capture
                #expect(after.loss.readsFailed > before.loss.readsFailed)
                // Within about a second the daemon watches again the processes for which it had no descriptor.
                after = try await look(until: { $0.blindSpots == before.blindSpots }) {
                    try await daemon.snapshot().capture
                }
                #expect(after.blindSpots == before.blindSpots)
                try generator.goOn()
                try await generator.exit()
            }
        }

        /// The payload of sockets that are still open.
        private func expect(_ truth: GeneratorResult, from daemon: Daemon, afterSweeps count: Int) async throws {
            for _ in 1..<count { _ = try await daemon.snapshot() }
            let sockets = try await daemon.snapshot().sockets ?? []
            let listed = Dictionary(sockets.map { ($0.cookie.rawValue, $0.bytes.payload) }) { first, _ in first }
            for tally in truth.sockets where tally.sent + tally.received > 0 {
                #expect(listed[tally.cookie] == PayloadBytes(sent: tally.sent, received: tally.received))
            }
        }

        @Test("SIGINT stops the daemon as SIGTERM does", .needsRoot)
        func interrupt() async throws {
            let daemon = try await Daemon(Machine.programs, method: Machine.method)
            let code = try await daemon.stop(SIGINT)
            #expect(code == 0)
        }

        @Test(
            "a running daemon holds the BPF programs that the check for leftovers looks for",
            .needsBPF,
            .needs("bpftool")
        )
        func leftoverCheckWorks() async throws {
            try await withDaemon { daemon in
                let held = BPFObjects.held(by: daemon.program.pid)
                #expect(!held.programs.isEmpty)
                #expect(!held.maps.isEmpty)
            }
        }
    }
}
