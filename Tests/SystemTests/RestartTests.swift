import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// Daemons that end in whatever way, and later ones that go on with their counts.
    @Suite(.needsBPF, .needs("python3", "bpftool"))
    struct RestartTests {
        @Test("a pinned daemon that is killed again and again counts each byte once")
        func kills() async throws {
            var random = Seeded(17)
            let pinned = try PinnedDaemons()
            let mover = try Mover()
            var daemon = try await pinned.start()
            let since = try await daemon.snapshot().countingSince
            let held = BPFObjects.held(by: daemon.program.pid)
            for round in 1...12 {
                for _ in 0..<Int.random(in: 1...4, using: &random) {
                    try await mover.tellAnything(&random)
                }
                try await Task.sleep(for: .milliseconds(Int.random(in: 0...600, using: &random)))
                // Every third time it ends in an orderly way.
                let code = try await daemon.stop(round % 3 == 0 ? SIGTERM : SIGKILL)
                #expect(code == (round % 3 == 0 ? 0 : 128 + SIGKILL))
                for _ in 0..<Int.random(in: 0...3, using: &random) {
                    try await mover.tellAnything(&random)
                }
                daemon = try await pinned.start()
                #expect(try await daemon.snapshot().countingSince == since)
            }
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.snapshot().capture.loss.isLossy == false)
            // Only the first daemon loaded anything.
            #expect(BPFObjects.held(by: daemon.program.pid).programs.isSubset(of: held.programs))

            let refused = try await Program.run(Machine.programs.daemon, ["unload"] + pinned.arguments)
            #expect(refused.code == 1 && refused.error.contains("in use by a running trafficd"), "\(refused.error)")
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        /// What nftables counted and what the daemon did at a moment in which no packet passed: there was none from one
        /// reading of nftables to the next, and the daemon's is between them.
        private static func quietMoment(
            of daemon: Daemon,
            in namespace: NetworkNamespace
        ) async throws -> (sent: UInt64, received: UInt64, snapshot: Snapshot) {
            let read = {
                (
                    sent: try await self.counter("output", in: namespace),
                    received: try await self.counter("input", in: namespace)
                )
            }
            let moment = try await look(until: { $0.isQuiet }) {
                let before = try await read()
                let snapshot = try await daemon.snapshot()
                return (counters: before, snapshot: snapshot, isQuiet: try await read() == before)
            }
            try #require(moment.isQuiet)
            return (moment.counters.sent, moment.counters.received, moment.snapshot)
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
                let pinned = try PinnedDaemons()
                var daemon = try await pinned.start()
                let mover = try Mover(launcher: namespace.launcher())
                // Open connections only: the last packets of a closed one belong to no socket. And packets that the
                // loopback's MTU has room for, so that nobody has to cut them.
                try await mover.tell("hold 6 0")
                let first = try await Self.quietMoment(of: daemon, in: namespace)
                for round in 1...4 {
                    try await mover.tell("use 6 \(round * 4_001)")
                    #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
                    try await mover.tell("use \(round) 777")
                    daemon = try await pinned.start()
                }
                #expect(try await daemon.counted(mover) == mover.moved)
                let last = try await Self.quietMoment(of: daemon, in: namespace)
                let grown = last.snapshot.bytes(of: mover).growth(since: first.snapshot.bytes(of: mover))
                #expect(grown.wireSent == last.sent - first.sent)
                #expect(grown.wireReceived == last.received - first.received)
                // What calls, TCP and packets say of each socket agrees, though three daemons have counted it.
                let audit = try await Program.run(
                    Machine.programs.client,
                    ["audit"] + pinned.directories.arguments
                )
                #expect(audit.code == 0, "\(String(decoding: audit.output, as: UTF8.self)) \(audit.error)")
                #expect(try await daemon.stop() == 0)
                try await pinned.unload()
            }
        }

        @Test("a daemon without pins says what an earlier one left, and no later one goes on with that")
        func leftBehind() async throws {
            let pinned = try PinnedDaemons()
            let mover = try Mover()
            var daemon = try await pinned.start()
            try await mover.tell("churn 3 1000")
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let other = try await pinned.start(["--pin-directory", "off"])
            let words = other.program.errorText
            #expect(words.contains("sudo trafficd unload --pin-directory \(pinned.path) removes"), "\(words)")
            #expect(try await other.stop() == 0)
            // History has what the other one counted. The capture that was left has it, too.
            daemon = try await pinned.start()
            #expect(daemon.program.errorText.contains("begins at 0"), "\(daemon.program.errorText)")
            let before = mover.moved
            try await mover.tell("churn 2 77")
            let moved = mover.moved.growth(since: before)
            #expect(try await daemon.counted(mover, wanted: moved) == moved)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test("a start that can't go on with what is pinned says why, and begins at 0")
        func refusals() async throws {
            let pinned = try PinnedDaemons()
            let checkpoint = pinned.directories.runtime.appending(path: "checkpoint")
            let mover = try Mover()
            var daemon = try await pinned.start()
            #expect(try await daemon.stop() == 0)
            daemon = try await pinned.start()
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
                daemon = try await pinned.start()
                let words = daemon.program.errorText
                #expect(words.contains("begins at 0") && words.contains(failure.reason), "\(words)")
                let left = try await held.stillThere()
                #expect(left.isEmpty, "left in the kernel: \(left)")
                let before = mover.moved
                try await mover.tell("churn 3 1000")
                let moved = mover.moved.growth(since: before)
                #expect(try await daemon.counted(mover, wanted: moved) == moved)
            }
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test("while there is no room for checkpoints counting goes on, and the log says what a restart would cost")
        func fullDisk() async throws {
            let pinned = try PinnedDaemons()
            let runtime = pinned.directories.runtime.path
            try #require(mkdir(runtime, 0o755) == 0 && mount("tmpfs", runtime, "tmpfs", 0, "size=128k,mode=755") == 0)
            defer { umount2(runtime, Int32(MNT_DETACH)) }
            let mover = try Mover()
            var daemon = try await pinned.start()
            try await mover.tell("churn 3 1000")
            #expect(try await daemon.counted(mover) == mover.moved)
            let filling = pinned.directories.runtime.appending(path: "filling")
            #expect(throws: (any Error).self) { try Data(repeating: 1, count: 256 << 10).write(to: filling) }
            // The daemon gives up a checkpoint only after some attempts, and then its own old one makes room.
            let isGivenUp = try await eventually(every: .milliseconds(100)) {
                try #require(daemon.program.isRunning, "\(daemon.program.errorText)")
                try await mover.tell("churn 1 100")
                return daemon.program.errorText.contains("a restart begins at 0")
            }
            #expect(
                isGivenUp && daemon.program.errorText.contains("can't write a checkpoint"),
                "\(daemon.program.errorText)"
            )
            #expect(try await daemon.counted(mover) == mover.moved)
            try? FileManager.default.removeItem(at: filling)
            let checkpoint = pinned.directories.runtime.appending(path: "checkpoint").path
            let isKept = try await eventually {
                try #require(daemon.program.isRunning, "\(daemon.program.errorText)")
                return FileManager.default.fileExists(atPath: checkpoint)
            }
            #expect(isKept)
            #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
            try await mover.tell("churn 2 500")
            daemon = try await pinned.start()
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test("a directory that can't hold pins is refused before anything is loaded")
        func otherFileSystem() async throws {
            let directories = try DaemonDirectories()
            let plain = directories.root.appending(path: "pins").path
            await #expect(throws: Daemon.Refusal.self) {
                _ = try await Daemon(
                    Machine.programs,
                    method: Machine.method,
                    directories: directories,
                    arguments: ["--pin-directory", plain]
                )
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
