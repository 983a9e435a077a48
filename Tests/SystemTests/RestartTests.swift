import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    @Suite(.needs("python3", "bpftool"))
    struct RestartTests {
        private static func daemon(_ directories: DaemonDirectories, _ arguments: [String]) async throws -> Daemon {
            try await Daemon(Machine.programs, method: Machine.method, directories: directories, arguments: arguments)
        }

        /// The payload that the daemon has for the program, when it is what the program says, or after a while.
        private static func counted(_ mover: Mover, by daemon: Daemon) async throws -> PayloadBytes {
            var counted = PayloadBytes()
            for _ in 0..<300 where counted != mover.moved {
                counted = try await daemon.snapshot().payload(of: mover)
                if counted != mover.moved { try await Task.sleep(for: .milliseconds(50)) }
            }
            return counted
        }

        @Test("a pinned daemon that is killed again and again counts each byte once", .needsBPF)
        func kills() async throws {
            var random = Seeded(17)
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            let since = try await daemon.snapshot().countingSince
            let held = BPFObjects.held(by: daemon.program.pid)
            for round in 1...12 {
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    try await mover.tellAnything(&random, shares: true)
                }
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...600, using: &random)))
                // Every third time it ends in an orderly way.
                let code = try await daemon.stop(round % 3 == 0 ? SIGTERM : SIGKILL)
                #expect(code == (round % 3 == 0 ? 0 : 128 + SIGKILL))
                for _ in 0..<Int.random(in: 0...3, using: &random) {
                    try await mover.tellAnything(&random, shares: true)
                }
                daemon = try await Self.daemon(directories, arguments)
                #expect(try await daemon.snapshot().countingSince == since)
            }
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.snapshot().capture.loss.isLossy == false)
            // Only the first daemon loaded anything.
            #expect(BPFObjects.held(by: daemon.program.pid).programs.isSubset(of: held.programs))

            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            let refused = try await Program.run(Machine.programs.daemon, unload)
            #expect(refused.code == 1 && refused.error.contains("in use by a running trafficd"), "\(refused.error)")
            #expect(try await daemon.stop() == 0)
            let unloaded = try await Program.run(Machine.programs.daemon, unload)
            #expect(unloaded.code == 0 && unloaded.error.isEmpty, "\(unloaded.error)")
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        /// Bytes of the IP packets that passed a chain of the namespace.
        private static func counter(_ chain: String, in namespace: NetworkNamespace) async throws -> UInt64 {
            let said = try await tool(
                "ip",
                ["netns", "exec", namespace.name, "nft", "list", "chain", "inet", "count", chain]
            )
            let bytes = try #require(said.output.firstMatch(of: /counter packets [0-9]+ bytes ([0-9]+)/)?.output.1)
            return try #require(UInt64(bytes))
        }

        @Test(
            "packets that passed while daemons were killed are those that nftables counted",
            .needsBPF,
            .needs("ip", "nft")
        )
        func packets() async throws {
            try await NetworkNamespace.with { namespace in
                try await namespace.run("nft", "add table inet count")
                for chain in ["input", "output"] {
                    let hook = "{ type filter hook \(chain) priority 0; }"
                    try await namespace.run("nft", "add chain inet count \(chain) \(hook)")
                    try await namespace.run("nft", "add rule inet count \(chain) counter")
                }
                let files = try BPFFileSystem()
                let directories = try DaemonDirectories()
                let arguments = ["--pin-directory", "\(files.path)/trafficd"]
                var daemon = try await Self.daemon(directories, arguments)
                let mover = try Mover(launcher: namespace.launcher())
                // Open connections only: the last packets of a closed one belong to no socket. And packets that the
                // loopback's MTU has room for, so that nobody has to cut them.
                try await mover.tell("hold 6 0")
                try await Task.sleep(for: .milliseconds(500))  // until the last acknowledgement
                let before = try await daemon.snapshot().bytes(of: mover)
                let (sent, received) = (
                    try await Self.counter("output", in: namespace), try await Self.counter("input", in: namespace)
                )
                for round in 1...4 {
                    try await mover.tell("use 6 \(round * 4_001)")
                    #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
                    try await mover.tell("use \(round) 777")
                    daemon = try await Self.daemon(directories, arguments)
                }
                #expect(try await Self.counted(mover, by: daemon) == mover.moved)
                try await Task.sleep(for: .milliseconds(500))
                let after = try await daemon.snapshot()
                let grown = after.bytes(of: mover).growth(since: before)
                #expect(try await grown.wireSent == Self.counter("output", in: namespace) - sent)
                #expect(try await grown.wireReceived == Self.counter("input", in: namespace) - received)
                // What calls, TCP and packets say of each socket agrees, though three daemons have counted it.
                let audit = try await Program.run(
                    Machine.programs.client,
                    ["audit"] + directories.arguments
                )
                #expect(audit.code == 0, "\(String(decoding: audit.output, as: UTF8.self)) \(audit.error)")
                #expect(try await daemon.stop() == 0)
                let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
                #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
            }
        }

        @Test("what moved with and without a daemon is in history once", .needsBPF)
        func history() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let state = directories.root.appending(path: "state").path
            let arguments = ["--pin-directory", "\(files.path)/trafficd", "--state-directory", state]
            let mover = try Mover()
            for _ in 1...3 {
                let daemon = try await Self.daemon(directories, arguments)
                try await mover.tell("churn 7 1001")
                #expect(try await Self.counted(mover, by: daemon) == mover.moved)
                #expect(try await daemon.stop() == 0)
                try await mover.tell("churn 5 77")
            }
            let daemon = try await Self.daemon(directories, arguments)
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let last = try await Self.daemon(directories, arguments)
            let said = try await Program.run(
                Machine.programs.client,
                ["history", "--since", "1h", "--format", "json"] + directories.arguments
            )
            let report = try JSONDecoder().decode(HistoryReport.self, from: said.output)
            let rows = report.rows.filter { $0.name.process == mover.name }
            #expect(rows.reduce(PayloadBytes()) { $0 + $1.bytes.payload } == mover.moved)
            #expect(try await last.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test(
            "with other options the totals go on, though daemons are killed while they replace the programs",
            .needsBPF
        )
        func otherOptions() async throws {
            var random = Seeded(71)
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let pins = ["--pin-directory", "\(files.path)/trafficd"]
            let mover = try Mover()
            try await mover.tell("hold 5 0")
            var daemon = try await Self.daemon(directories, pins)
            let since = try await daemon.snapshot().countingSince
            try await mover.tell("use 5 3001")
            for round in 1...10 {
                #expect(try await daemon.stop(round % 2 == 0 ? SIGKILL : SIGTERM) >= 0)
                try await mover.tell("use 3 77")
                try await mover.tell("churn 20 1001")
                // Nothing moves while these start, so nothing moves between two captures.
                for _ in 0..<Int.random(in: 0...2, using: &random) {
                    let wire = ["exact", "estimated"].randomElement(using: &random) ?? "exact"
                    let starting = try Program(
                        Machine.programs.daemon,
                        ["run", "--method", Machine.method, "--wire", wire] + directories.arguments + pins
                    )
                    try await Task.sleep(for: .milliseconds(Int.random(in: 0...900, using: &random)))
                    starting.signal(SIGKILL)
                    try await starting.exit()
                }
                let wire = round % 2 == 0 ? "exact" : "estimated"
                daemon = try await Self.daemon(directories, pins + ["--wire", wire])
                #expect(try await Self.counted(mover, by: daemon) == mover.moved, "round \(round)")
                try await mover.tell("use 5 3001")
            }
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            let snapshot = try await daemon.snapshot()
            #expect(snapshot.countingSince == since && snapshot.capture.loss.uncountedNanoseconds > 0)
            #expect(!snapshot.capture.loss.isLossy)
            // What is still open is listed once, as it is now.
            let processes = (snapshot.processes ?? []).filter { $0.details.name == mover.name }.map(\.identity)
            let open = (snapshot.sockets ?? []).filter { socket in
                socket.state == .established && socket.owners.contains { processes.contains($0.identity) }
            }
            #expect(open.count == 10 && open.allSatisfy(\.preexisting))
            let held = BPFObjects.held(by: daemon.program.pid)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        @Test(
            "a daemon of another version goes on with the totals, and says of which time nothing is counted",
            .needsBPF,
            // Perhaps after a change of the options, too.
            arguments: [[], ["--wire", "estimated"]]
        )
        func otherVersion(options: [String]) async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let checkpoint = directories.runtime.appending(path: "checkpoint")
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            let since = try await daemon.snapshot().countingSince
            try await mover.tell("churn 20 1001")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            let held = BPFObjects.held(by: daemon.program.pid)
            #expect(try await daemon.stop() == 0)
            // As the daemon of another version would have written it.
            let text = try Data(contentsOf: checkpoint)
            let layout = try #require(String(decoding: text, as: UTF8.self).firstMatch(of: /"layout":[0-9]+/)?.output)
            let range = try #require(text.range(of: Data(layout.utf8)))
            try (text[..<range.lowerBound] + Data("\"layout\":17".utf8) + text[range.upperBound...]).write(
                to: checkpoint
            )
            let before = mover.moved
            try await mover.tell("churn 7 1001")
            let uncounted = mover.moved.growth(since: before)
            daemon = try await Self.daemon(directories, arguments + options)
            #expect(daemon.program.errorText.contains("another version of trafficd"), "\(daemon.program.errorText)")
            try await mover.tell("churn 5 1001")
            let counted = mover.moved.growth(since: uncounted)
            var seen = PayloadBytes()
            for _ in 0..<100 where seen != counted {
                seen = try await daemon.snapshot().payload(of: mover)
                if seen != counted { try await Task.sleep(for: .milliseconds(50)) }
            }
            #expect(seen == counted)
            let snapshot = try await daemon.snapshot()
            #expect(snapshot.countingSince == since && snapshot.capture.loss.uncountedNanoseconds > 0)
            let doctor = try await Program.run(Machine.programs.client, ["doctor"] + directories.arguments)
            let words = String(decoding: doctor.output, as: UTF8.self).split(whereSeparator: \.isWhitespace)
            #expect(words.joined(separator: " ").contains("s in which other counting programs took over"))
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        /// Another process has the database, so the daemon can't write history.
        ///
        /// - Parameter mode: `EXCLUSIVE`: nor can it read.
        private static func lock(_ database: String, mode: String = "NORMAL") async throws -> Program {
            let program = """
                import sqlite3, sys
                connection = sqlite3.connect(sys.argv[1], isolation_level=None)
                connection.execute("PRAGMA locking_mode = " + sys.argv[2])
                connection.execute("BEGIN EXCLUSIVE")
                print("locked", flush=True)
                sys.stdin.read()
                """
            let locker = try Program(URL(filePath: "/usr/bin/python3"), ["-c", program, database, mode])
            _ = try #require(try await locker.line())
            return locker
        }

        @Test("history has each byte once, whenever the daemon is killed", .needsBPF)
        func killedHistory() async throws {
            var random = Seeded(23)
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let state = directories.root.appending(path: "state").path
            let file = directories.root.appending(path: "trafficd.yaml")
            let arguments =
                ["--pin-directory", "\(files.path)/trafficd", "--state-directory", state]
                + ["--config", file.path]
            // Other classes of addresses end a minute.
            func configure(_ round: Int) throws {
                try Data("classes: {c\(round): [10.0.0.0/8]}\n".utf8).write(to: file)
                #expect(chmod(file.path, 0o600) == 0)
            }
            let mover = try Mover()
            try configure(0)
            for round in 1...14 {
                let daemon = try await Self.daemon(directories, arguments)
                try await mover.tell("churn 5 1001")
                #expect(try await Self.counted(mover, by: daemon) == mover.moved)
                // The first daemon is killed in its first minute. Of the others, some end minutes, and some then can't
                // write.
                let isLocked = round > 1 && round % 4 == 0
                let minutes = isLocked ? 3 : round > 1 ? Int.random(in: 0...3, using: &random) : 0
                var locker: Program?
                for minute in 0..<minutes {
                    if isLocked, minute > 0, locker == nil { locker = try await Self.lock(state + "/history.sqlite") }
                    try configure(round * 10 + minute)
                    daemon.program.signal(SIGHUP)
                    try await mover.tell("churn 3 77")
                    let rest = isLocked ? 700 : Int.random(in: 0...300, using: &random)
                    try await Task.sleep(for: .milliseconds(rest))
                }
                // Until a checkpoint has what was counted.
                if round == 1 { try await Task.sleep(for: .seconds(1)) }
                #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
                locker?.signal(SIGKILL)
                _ = try await locker?.exit()
                try await mover.tell("churn 2 5")
            }
            var daemon = try await Self.daemon(directories, arguments)
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            daemon = try await Self.daemon(directories, arguments)
            let said = try await Program.run(
                Machine.programs.client,
                ["history", "--since", "1h", "--format", "json"] + directories.arguments
            )
            let report = try JSONDecoder().decode(HistoryReport.self, from: said.output)
            let rows = report.rows.filter { $0.name.process == mover.name }
            #expect(rows.reduce(PayloadBytes()) { $0 + $1.bytes.payload } == mover.moved)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test("history has no byte twice if it can't be read at a start, and the log says what it may lack", .needsBPF)
        func unreadableHistory() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let state = directories.root.appending(path: "state").path
            let arguments = ["--pin-directory", "\(files.path)/trafficd", "--state-directory", state]
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            try await mover.tell("churn 5 1001")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let locker = try await Self.lock(state + "/history.sqlite", mode: "EXCLUSIVE")
            daemon = try await Self.daemon(directories, arguments)
            #expect(
                daemon.program.errorText.contains("history can't be read at present"),
                "\(daemon.program.errorText)"
            )
            locker.signal(SIGKILL)
            try await locker.exit()
            try await mover.tell("churn 3 77")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            daemon = try await Self.daemon(directories, arguments)
            let said = try await Program.run(
                Machine.programs.client,
                ["history", "--since", "1h", "--format", "json"] + directories.arguments
            )
            let rows = try JSONDecoder().decode(HistoryReport.self, from: said.output).rows
            let kept = rows.filter { $0.name.process == mover.name }.reduce(PayloadBytes()) { $0 + $1.bytes.payload }
            #expect(kept == mover.moved)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test("a daemon without pins says what an earlier one left, and no later one goes on with that", .needsBPF)
        func leftBehind() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            try await mover.tell("churn 3 1000")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let other = try await Self.daemon(directories, [])
            let words = other.program.errorText
            #expect(words.contains("sudo trafficd unload --pin-directory \(files.path)/trafficd removes"), "\(words)")
            #expect(try await other.stop() == 0)
            // History has what the other one counted. The capture that was left has it, too.
            daemon = try await Self.daemon(directories, arguments)
            #expect(daemon.program.errorText.contains("begins at 0"), "\(daemon.program.errorText)")
            let before = mover.moved
            try await mover.tell("churn 2 77")
            let moved = mover.moved.growth(since: before)
            var counted = PayloadBytes()
            for _ in 0..<100 where counted != moved {
                counted = try await daemon.snapshot().payload(of: mover)
                if counted != moved { try await Task.sleep(for: .milliseconds(50)) }
            }
            #expect(counted == moved)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test("a start that can't go on with what is pinned says why, and begins at 0", .needsBPF)
        func refusals() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let checkpoint = directories.runtime.appending(path: "checkpoint")
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            #expect(try await daemon.stop() == 0)
            daemon = try await Self.daemon(directories, arguments)
            #expect(!daemon.program.errorText.contains("begins at 0"))
            let failures: [(reason: String, cause: () throws -> Void)] = [
                ("there is no checkpoint of it", { try FileManager.default.removeItem(at: checkpoint) }),
                ("not a checkpoint of trafficd", { try Data("{}".utf8).write(to: checkpoint) }),
                (
                    "a damaged checkpoint",
                    {
                        var bytes = try Data(contentsOf: checkpoint)
                        bytes[bytes.count - 1] ^= 1
                        try bytes.write(to: checkpoint)
                    }
                ),
            ]
            for failure in failures {
                let held = BPFObjects.held(by: daemon.program.pid)
                #expect(try await daemon.stop() == 0)
                try failure.cause()
                daemon = try await Self.daemon(directories, arguments)
                let words = daemon.program.errorText
                #expect(words.contains("begins at 0") && words.contains(failure.reason), "\(words)")
                let left = try await held.stillThere()
                #expect(left.isEmpty, "left in the kernel: \(left)")
                let before = mover.moved
                try await mover.tell("churn 3 1000")
                var counted = PayloadBytes()
                for _ in 0..<100 where counted.isBehind(mover.moved.growth(since: before)) {
                    counted = try await daemon.snapshot().payload(of: mover)
                }
                #expect(counted == mover.moved.growth(since: before))
            }
            #expect(try await daemon.stop() == 0)
            #expect(
                try await Program.run(
                    Machine.programs.daemon,
                    ["unload", "--pin-directory", "\(files.path)/trafficd"]
                ).code == 0
            )
        }

        @Test(
            "while there is no room for checkpoints counting goes on, and the log says what a restart would cost",
            .needsBPF
        )
        func fullDisk() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let runtime = directories.runtime.path
            try #require(mkdir(runtime, 0o755) == 0 && mount("tmpfs", runtime, "tmpfs", 0, "size=128k,mode=755") == 0)
            defer { umount2(runtime, Int32(MNT_DETACH)) }
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            try await mover.tell("churn 3 1000")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            let filling = directories.runtime.appending(path: "filling")
            #expect(throws: (any Error).self) { try Data(repeating: 1, count: 256 << 10).write(to: filling) }
            // The daemon gives up a checkpoint only after some attempts, and then its own old one makes room.
            for _ in 0..<300 where !daemon.program.errorText.contains("a restart begins at 0") {
                try await mover.tell("churn 1 100")
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(daemon.program.errorText.contains("can't write a checkpoint"), "\(daemon.program.errorText)")
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            try? FileManager.default.removeItem(at: filling)
            let checkpoint = directories.runtime.appending(path: "checkpoint").path
            for _ in 0..<100 where !FileManager.default.fileExists(atPath: checkpoint) {
                try await Task.sleep(for: .milliseconds(100))
            }
            #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
            try await mover.tell("churn 2 500")
            daemon = try await Self.daemon(directories, arguments)
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test(
            "a start that can't write its checkpoint leaves the last capture, and the next one goes on with it",
            .needsBPF
        )
        func fullAtStart() async throws {
            let files = try BPFFileSystem()
            let directories = try DaemonDirectories()
            let runtime = directories.runtime.path
            try #require(mkdir(runtime, 0o755) == 0 && mount("tmpfs", runtime, "tmpfs", 0, "size=128k,mode=755") == 0)
            defer { umount2(runtime, Int32(MNT_DETACH)) }
            let arguments = ["--pin-directory", "\(files.path)/trafficd"]
            let mover = try Mover()
            var daemon = try await Self.daemon(directories, arguments)
            try await mover.tell("churn 3 1000")
            #expect(try await daemon.stop() == 0)
            let filling = directories.runtime.appending(path: "filling")
            #expect(throws: (any Error).self) { try Data(repeating: 1, count: 256 << 10).write(to: filling) }
            for _ in 1...3 {
                let refused = try await Program.run(
                    Machine.programs.daemon,
                    ["run", "--method", Machine.method, "--wire", "estimated"] + directories.arguments + arguments
                )
                #expect(refused.code == 1 && refused.error.contains("No space left"), "\(refused.error)")
                #expect(try FileManager.default.contentsOfDirectory(atPath: "\(files.path)/trafficd").count == 1)
                try await mover.tell("churn 2 77")
            }
            try? FileManager.default.removeItem(at: filling)
            daemon = try await Self.daemon(directories, arguments + ["--wire", "estimated"])
            #expect(try await Self.counted(mover, by: daemon) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            #expect(try await Program.run(Machine.programs.daemon, unload).code == 0)
        }

        @Test("a directory that can't hold pins is refused before anything is loaded", .needsBPF)
        func otherFileSystem() async throws {
            let directories = try DaemonDirectories()
            let plain = directories.root.appending(path: "pins").path
            await #expect(throws: Daemon.Refusal.self) {
                _ = try await Self.daemon(directories, ["--pin-directory", plain])
            }
            let said = try await Program.run(
                Machine.programs.daemon,
                ["run", "--pin-directory", plain] + directories.arguments
            )
            #expect(said.code == 1 && said.error.contains("mount -t bpf -o mode=700 bpf /sys/fs/bpf"), "\(said.error)")
            #expect(!FileManager.default.fileExists(atPath: plain))
        }
    }
}
