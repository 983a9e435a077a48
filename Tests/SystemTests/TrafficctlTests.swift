import Foundation
import Glibc
import TestSupport
import Testing
import TrafficAudit
import TrafficModel

/// The commands of `trafficctl` against a made-up daemon.
@Suite("trafficctl", .serialized)
struct TrafficctlTests {
    private func withDaemon(_ body: (String) async throws -> Void) async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) { .sample() }
            defer { daemon.stop() }
            try await body(directory)
        }
    }

    private func trafficctl(_ arguments: String..., environment: [String: String] = [:]) throws -> Tool {
        try Tool.wait(
            for: Lab.binary("trafficctl"),
            arguments,
            environment: ["LC_ALL": "C.UTF-8"].merging(environment) { $1 },
            mayFail: true
        )
    }

    @Test("export prints the daemon's bytes unchanged")
    func export() async throws {
        try await self.withDaemon { directory in
            let result = try self.trafficctl("export", "--runtime-directory", directory)
            #expect(result.status == 0 && result.error.isEmpty)
            let snapshot = try JSONDecoder().decode(Snapshot.self, from: Data(result.output.utf8))
            #expect(snapshot.processes?.map(\.identity.pid) == [812, 666, 900])
        }
    }

    @Test("export to a file replaces the file as a whole, or leaves it alone")
    func exportToFile() async throws {
        try await self.withDaemon { directory in
            let path = directory + "/out.json"
            try Data("old".utf8).write(to: URL(filePath: path))
            // Files of at most one block of 1 kB, as if the disk were soon full.
            let full = try Lab.shell(
                "trap '' XFSZ; ulimit -f 1; $ctl export --runtime-directory $dir -o $dir/out.json",
                directory
            )
            #expect(full.status == 1)
            #expect(full.error == "trafficctl: can't write \(path): File too large\n")
            #expect(try String(contentsOfFile: path, encoding: .utf8) == "old")
            #expect(
                try FileManager.default.contentsOfDirectory(atPath: directory).sorted() == ["control.sock", "out.json"]
            )

            let done = try self.trafficctl("export", "--runtime-directory", directory, "--output", path)
            #expect(done.status == 0 && done.output.isEmpty)
            #expect(
                try JSONDecoder().decode(Snapshot.self, from: Data(contentsOf: URL(filePath: path))).schemaVersion == 1
            )

            let pipe = try Lab.shell("$ctl export --runtime-directory $dir -o /dev/stdout | wc -l", directory)
            #expect(pipe.output == "1\n" && pipe.error.isEmpty)

            let nowhere = try self.trafficctl("export", "--runtime-directory", directory, "-o", "/nosuchdir/out")
            #expect(nowhere.status == 1)
            #expect(nowhere.error == "trafficctl: can't write /nosuchdir/out: No such file or directory\n")

            // A link that the kernel refuses to follow is not followed another way, and stays.
            let loop = directory + "/loop"
            try #require(symlink(loop, loop) == 0)
            let refused = try self.trafficctl("export", "--runtime-directory", directory, "-o", loop)
            #expect(refused.status == 1)
            #expect(refused.error == "trafficctl: can't write \(loop): Too many levels of symbolic links\n")
            #expect(try FileManager.default.destinationOfSymbolicLink(atPath: loop) == loop)
        }
    }

    @Test("a full standard output is an error, a closed one is not")
    func closedOutput() async throws {
        try await self.withDaemon { directory in
            let full = try Lab.shell("$ctl export --runtime-directory $dir > /dev/full", directory)
            #expect(full.status == 1 && full.error.contains("No space left on device"))
            for command in ["watch --interval 0.1", "export", "sockets", "processes", "top --once --interval 0.1"] {
                let script = "$ctl \(command) --runtime-directory $dir | true; echo ${PIPESTATUS[0]}"
                let result = try Lab.shell(script, directory)
                #expect(result.output == "0\n" && result.error.isEmpty, "\(command)")
            }
            let watch = try Lab.shell(
                "$ctl watch --interval 0.1 --runtime-directory $dir | head -1 | wc -l",
                directory
            )
            #expect(watch.output == "1\n" && watch.error.isEmpty)
        }
    }

    @Test("watch writes each snapshot as one line when it comes, and stops after --count snapshots")
    func watch() async throws {
        try await self.withDaemon { directory in
            let result = try self.trafficctl(
                "watch",
                "--runtime-directory",
                directory,
                "--interval",
                "0.1",
                "--count",
                "3"
            )
            #expect(result.status == 0)
            let lines = result.output.split(separator: "\n")
            #expect(lines.count == 3)
            for line in lines { _ = try JSONDecoder().decode(Snapshot.self, from: Data(line.utf8)) }
        }
    }

    @Test("a pipe gets the format of --format: plain tables, exact fields, and a hostile name as one cell of one line")
    func tables() async throws {
        try await self.withDaemon { directory in
            let table = try self.trafficctl("processes", "--runtime-directory", directory, "-s", "total")
            let rows = table.output.split(separator: "\n")
            #expect(rows.map { $0.split(separator: " ")[0] } == ["PID", "812", "666", "900"])
            #expect(rows[1].hasSuffix(" 123 kB     7 B") && rows[2].contains("\\x1b[2J\\x1b]0;pwned\\x07\\u{202e}evil"))
            let reversed = try self.trafficctl(
                "processes",
                "--runtime-directory",
                directory,
                "-s",
                "total",
                "-r",
                "-n",
                "1"
            )
            #expect(reversed.output.split(separator: "\n").map { $0.split(separator: " ")[0] } == ["PID", "900"])
            let colored = try self.trafficctl(
                "processes",
                "--runtime-directory",
                directory,
                "--color",
                "always",
                environment: ["TERM": "xterm-256color"]
            )
            #expect(colored.output.hasPrefix("\u{1b}["))
            let result = try self.trafficctl(
                "processes",
                "--runtime-directory",
                directory,
                "-s",
                "total",
                "--format",
                "tsv"
            )
            let lines = result.output.split(separator: "\n").map {
                $0.split(separator: "\t", omittingEmptySubsequences: false)
            }
            let field = { (name: Substring) in lines[0].firstIndex(of: name) ?? 0 }
            #expect(lines.map { $0[field("pid")] } == ["pid", "812", "666", "900"])
            #expect(
                lines[1][field("payload_sent_bytes")] == "123456" && lines[1][field("payload_received_bytes")] == "7"
            )
            #expect(lines[2][field("name")] == "\\x1b[2J\\x1b]0;pwned\\x07\\u202eevil")
            let sockets = try self.trafficctl("sockets", "--runtime-directory", directory, "--limit", "2")
            #expect(sockets.output.split(separator: "\n").count == 3)
            let sorted = try self.trafficctl(
                "processes",
                "--runtime-directory",
                directory,
                "--format",
                "json",
                "--sort",
                "pid",
                "--limit",
                "1"
            )
            let snapshot = try JSONDecoder().decode(Snapshot.self, from: Data(sorted.output.utf8))
            #expect(snapshot.processes?.map(\.identity.pid) == [666])
        }
    }

    @Test("--sort takes the words of filters: the mark of the order is at the same column")
    func sortWords() async throws {
        try await self.withDaemon { directory in
            func heading(_ key: String) throws -> Substring {
                let said = try self.trafficctl("top", "--once", "--runtime-directory", directory, "--sort", key)
                #expect(said.status == 0, "\(said.error)")
                return try #require(said.output.split(separator: "\n").first { $0.contains("PID") })
            }
            #expect(try heading("sent").contains("SENT▼") && heading("received").contains("RECV▼"))
            #expect(try heading("tx") == heading("sent") && heading("rx") == heading("received"))
            #expect(try heading("txrate") == heading("sent-rate") && heading("rxrate") == heading("received-rate"))
            #expect(try heading("txrate") != heading("tx") && heading("txrate") != heading("rxrate"))
            // This daemon has no endpoints: only a word that is not known is wrong usage.
            for (word, code) in [("tx", 1), ("rx", 1), ("up", 64)] {
                let said = try self.trafficctl("endpoints", "--runtime-directory", directory, "--sort", word)
                #expect(said.status == code, "\(said.error)")
            }
        }
    }

    @Test("top --once needs no terminal")
    func once() async throws {
        try await self.withDaemon { directory in
            let result = try self.trafficctl("top", "--once", "--runtime-directory", directory, "--interval", "0.1")
            #expect(result.status == 0 && result.error.isEmpty)
            let lines = result.output.split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines.count == 3 + 1 + 3 + 1)
            #expect(lines.allSatisfy { $0.count <= 80 })
            #expect(result.output.contains("812 www-data ▸ nginx"))
            let wide = try self.trafficctl(
                "top",
                "--once",
                "--runtime-directory",
                directory,
                "--interval",
                "0.1",
                "--limit",
                "1",
                environment: ["COLUMNS": "132"]
            )
            #expect(wide.output.split(separator: "\n").map(\.count).max() ?? 0 > 100)
        }
    }

    @Test("without a terminal top says what is missing and what to do")
    func noTerminal() throws {
        let result = try self.trafficctl("top")
        #expect(result.status == 1)
        #expect(
            result.error
                == "trafficctl: top needs a terminal for its input and output; for one picture as text: trafficctl top --once\n"
        )
    }

    @Test("exit codes: 64 usage, 69 no daemon, 77 no permission")
    func exitCodes() async throws {
        for wrong in [
            ["nosuch"], ["top", "--nosuch"], ["top", "--interval", "0"], ["processes", "--filter", "no:such"],
            ["top", "--width", "9"], ["doctor", "--duration", "1"], ["doctor", "--cost", "--duration", "50ms"],
            ["doctor", "--cost", "--duration", "10.5s"], ["doctor", "--cost", "--duration", "nan"],
        ] {
            let result = try Tool.wait(for: Lab.binary("trafficctl"), wrong, mayFail: true)
            #expect(result.status == 64, "\(wrong)")
            #expect(!result.error.isEmpty)
        }
        try await Lab.withDirectory { directory in
            for command in [["processes"], ["sockets"], ["export"], ["watch"], ["doctor"], ["doctor", "--cost"]] {
                let result = try Tool.wait(
                    for: Lab.binary("trafficctl"),
                    command + ["--runtime-directory", directory],
                    mayFail: true
                )
                #expect(result.status == 69)
                #expect(
                    result.error
                        == "trafficctl: trafficd is not running at \(directory)/control.sock; "
                        + "start it with: sudo trafficd run\n"
                )
            }
            let once = try self.trafficctl("top", "--once", "--runtime-directory", directory)
            #expect(once.status == 69)
        }
        try await self.withDaemon { directory in
            chmod(directory + "/control.sock", 0)
            chmod(directory, 0o755)
            // Root may do everything, so the program runs as another user.
            let result = try Tool.wait(
                for: "setpriv",
                [
                    "--reuid=65534", "--regid=65534", "--clear-groups", Lab.binary("trafficctl"), "processes",
                    "--runtime-directory", directory,
                ],
                mayFail: true
            )
            if getuid() == 0 {
                #expect(result.status == 77)
                #expect(result.error.contains("use sudo"))
                // Nothing creates the group: the advice must work on a machine without the group.
                #expect(result.error.contains("groupadd -f trafficd"))
            }
        }
    }

    @Test("audit has different exit codes for unexplained bytes and for no answer, as diff does")
    func auditExitCodes() async throws {
        var report = AuditReport(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            method: .fexit
        )
        for (unexplained, code) in [(0, 0), (1, 1)] as [(UInt64, Int32)] {
            report.unexplained = unexplained
            try await Lab.withDirectory { [report] directory in
                let daemon = try FakeDaemon(directory: directory, audit: report) { .sample() }
                defer { daemon.stop() }
                for format in ["json", "table"] {
                    let options = ["audit", "--runtime-directory", directory, "--format", format]
                    #expect(try Tool.wait(for: Lab.binary("trafficctl"), options, mayFail: true).status == code)
                    // Also if the reader of the output ends at once.
                    let script = "$ctl audit --runtime-directory $dir --format \(format) | true; echo ${PIPESTATUS[0]}"
                    #expect(try Lab.shell(script, directory).output == "\(code)\n")
                }
                let full = try Lab.shell("$ctl audit --runtime-directory $dir > /dev/full", directory)
                #expect(full.status == 2)
            }
        }
        try await Lab.withDirectory { directory in
            let missing = try self.trafficctl("audit", "--runtime-directory", directory)
            #expect(missing.status == 2 && missing.error.contains("trafficd is not running"))
        }
        // This daemon serves no audit.
        try await self.withDaemon { directory in
            let result = try self.trafficctl("audit", "--runtime-directory", directory)
            #expect(result.status == 2)
        }
        #expect(try self.trafficctl("audit", "--socket", "x").status == 64)
    }

    @Test("sockets prints the cookie that audit takes")
    func cookies() async throws {
        try await self.withDaemon { directory in
            let table = try self.trafficctl("sockets", "--runtime-directory", directory, "--format", "tsv", "-r")
            let lines = table.output.split(separator: "\n").map {
                $0.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
            }
            let column = try #require(lines.first?.firstIndex(of: "cookie"))
            let sample = Set((Snapshot.sample().sockets ?? []).map { "\($0.cookie.rawValue)" })
            #expect(Set(lines.dropFirst().map { $0[column] }) == sample)
        }
    }

    @Test("an audit of a later daemon is refused, and the message names its version")
    func otherAuditSchema() async throws {
        var report = AuditReport(
            takenAt: Timestamp(nanosecondsSinceEpoch: 0),
            countingSince: Timestamp(nanosecondsSinceEpoch: 0),
            method: .fexit
        )
        report.schemaVersion = 2
        try await Lab.withDirectory { [report] directory in
            let daemon = try FakeDaemon(directory: directory, audit: report) { .sample() }
            defer { daemon.stop() }
            let result = try self.trafficctl("audit", "--runtime-directory", directory)
            #expect(result.status == 2 && result.error.contains("schema version 2"))
        }
    }

    @Test("the daemon's refusal is one line")
    func refusal() async throws {
        try await self.withDaemon { directory in
            let result = try self.trafficctl("doctor", "--runtime-directory", directory)
            #expect(result.status == 1)
            #expect(result.error == "trafficctl: There is nothing at /v1/doctor.\n")
        }
    }

    @Test("a daemon with another schema version is refused, and the message names the version")
    func otherSchema() async throws {
        try await Lab.withDirectory { directory in
            let daemon = try FakeDaemon(directory: directory) {
                var snapshot = Snapshot.sample()
                snapshot.schemaVersion = 2
                return snapshot
            }
            defer { daemon.stop() }
            let result = try self.trafficctl("processes", "--runtime-directory", directory)
            #expect(result.status == 1)
            #expect(result.error.contains("schema version 2"))
        }
    }

    @Test("the directory can come from the environment, or stand before the command")
    func directoryOptions() async throws {
        try await self.withDaemon { directory in
            let environment = ["TRAFFICD_RUNTIME_DIRECTORY": directory]
            let fromEnvironment = try self.trafficctl("processes", environment: environment)
            #expect(fromEnvironment.status == 0)
            let beforeCommand = try self.trafficctl("--runtime-directory", directory, "processes")
            #expect(beforeCommand.status == 0)
        }
    }

    @Test("there are completions for every shell", arguments: ["bash", "zsh", "fish"])
    func completions(shell: String) throws {
        let result = try self.trafficctl("--generate-completion-script", shell)
        #expect(result.status == 0 && result.output.contains("trafficctl"))
        if shell == "bash" {
            #expect(try Tool.wait(for: "bash", ["-n", "-c", result.output], mayFail: true).status == 0)
        }
    }

    @Test(
        "help and version",
        arguments: [
            "trafficctl", "trafficctl top", "trafficctl processes", "trafficctl sockets", "trafficctl endpoints",
            "trafficctl exchanges", "trafficctl history", "trafficctl export", "trafficctl record", "trafficctl replay",
            "trafficctl watch", "trafficctl alerts",
            "trafficctl audit", "trafficctl doctor", "trafficd", "trafficd run", "trafficd check",
            "trafficd check-config",
            "trafficd unload",
        ]
    )
    func help(command: String) throws {
        let words = command.split(separator: " ").map(String.init)
        let result = try Tool.wait(
            for: Lab.binary(words[0]),
            ["help"] + words[1...],
            environment: ["COLUMNS": "100"],
            mayFail: true
        )
        #expect(result.status == 0)
        let file = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "Help/\(words.joined(separator: "-")).txt")
        if ProcessInfo.processInfo.environment["UPDATE_FRAMES"] != nil {
            try FileManager.default.createDirectory(
                at: file.deletingLastPathComponent(),
                withIntermediateDirectories: true
            )
            try result.output.write(to: file, atomically: true, encoding: .utf8)
        }
        #expect(try result.output == String(contentsOf: file, encoding: .utf8))
        #expect(try Tool.wait(for: Lab.binary(words[0]), ["--version"]).output == "0.1.0\n")
    }
}
