import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// History over daemons that end in whatever way.
    @Suite(.needsBPF, .needs("python3", "bpftool"))
    struct RestartedHistoryTests {
        @Test("what moved with and without a daemon is in history once")
        func history() async throws {
            let pinned = try PinnedDaemons()
            let arguments = ["--state-directory", pinned.state]
            let mover = try Mover()
            for _ in 1...3 {
                let daemon = try await pinned.start(arguments)
                try await mover.tell("churn 7 1001")
                #expect(try await daemon.counted(mover) == mover.moved)
                #expect(try await daemon.stop() == 0)
                try await mover.tell("churn 5 77")
            }
            let daemon = try await pinned.start(arguments)
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let last = try await pinned.start(arguments)
            #expect(try await pinned.inHistory(mover) == mover.moved)
            #expect(try await last.stop() == 0)
            try await pinned.unload()
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

        @Test("history has each byte once, whenever the daemon is killed")
        func killedHistory() async throws {
            var random = Seeded(23)
            let pinned = try PinnedDaemons()
            let arguments = ["--state-directory", pinned.state, "--config", pinned.configuration.path]
            let mover = try Mover()
            try pinned.configure(0)
            for round in 1...14 {
                let daemon = try await pinned.start(arguments)
                try await mover.tell("churn 5 1001")
                #expect(try await daemon.counted(mover) == mover.moved)
                // The first daemon is killed in its first minute. Of the others, some end minutes, and some then can't
                // write.
                let isLocked = round > 1 && round % 4 == 0
                let minutes = isLocked ? 3 : round > 1 ? Int.random(in: 0...3, using: &random) : 0
                var locker: Program?
                for minute in 0..<minutes {
                    if isLocked, minute > 0, locker == nil {
                        locker = try await Self.lock(pinned.state + "/history.sqlite")
                    }
                    try pinned.configure(round * 10 + minute)
                    daemon.program.signal(SIGHUP)
                    try await mover.tell("churn 3 77")
                    let rest = isLocked ? 700 : Int.random(in: 0...300, using: &random)
                    try await Task.sleep(for: .milliseconds(rest))
                }
                if round == 1 { #expect(try await daemon.waitForCheckpoint(), "no checkpoint") }
                #expect(try await daemon.stop(SIGKILL) == 128 + SIGKILL)
                locker?.signal(SIGKILL)
                _ = try await locker?.exit()
                try await mover.tell("churn 2 5")
            }
            var daemon = try await pinned.start(arguments)
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            daemon = try await pinned.start(arguments)
            #expect(try await pinned.inHistory(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test("history has no byte twice if it can't be read at a start, and the log says what it may lack")
        func unreadableHistory() async throws {
            let pinned = try PinnedDaemons()
            let arguments = ["--state-directory", pinned.state]
            let mover = try Mover()
            var daemon = try await pinned.start(arguments)
            try await mover.tell("churn 5 1001")
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            let locker = try await Self.lock(pinned.state + "/history.sqlite", mode: "EXCLUSIVE")
            daemon = try await pinned.start(arguments)
            #expect(
                daemon.program.errorText.contains("history can't be read at present"),
                "\(daemon.program.errorText)"
            )
            locker.signal(SIGKILL)
            try await locker.exit()
            try await mover.tell("churn 3 77")
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            daemon = try await pinned.start(arguments)
            #expect(try await pinned.inHistory(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }
    }
}
