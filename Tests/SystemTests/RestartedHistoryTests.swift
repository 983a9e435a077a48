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
                connection = sqlite3.connect(sys.argv[1], timeout=600, isolation_level=None)
                connection.execute("PRAGMA locking_mode = " + sys.argv[2])
                connection.execute("BEGIN EXCLUSIVE")
                print("locked", flush=True)
                sys.stdin.read()
                """
            let locker = try Program(URL(filePath: "/usr/bin/python3"), ["-c", program, database, mode])
            _ = try #require(try await locker.line())
            return locker
        }

        /// Of the clock. At its end, the daemon ends a minute of history without a SIGHUP.
        private static var minute: Int { Int(Date().timeIntervalSince1970) / 60 }

        @Test("history has each byte once, whenever the daemon is killed")
        func killedHistory() async throws {
            var random = Seeded(23)
            let pinned = try PinnedDaemons()
            let arguments = ["--state-directory", pinned.state, "--config", pinned.configuration.path]
            let mover = try Mover()
            var classes = 0
            try pinned.configure(classes)
            /// Ends a minute of history.
            func hangUp(_ daemon: Daemon) throws {
                classes += 1
                try pinned.configure(classes)
                daemon.program.signal(SIGHUP)
            }
            /// The same. Returns when history has written the minute, or can't.
            func endMinute(_ daemon: Daemon) async throws {
                try hangUp(daemon)
                // The daemon counts by the new classes after it has handed the minute over.
                try #require(try await eventually { try await daemon.snapshot().totals.byClass?["c\(classes)"] != nil })
                // History writes first, and then answers.
                try #require(try await eventually { try await daemon.get("/v1/history").code == 0 })
            }
            /// Returns when no minute is on its way to history.
            ///
            /// - Returns: The minute of the clock. While it lasts, only a SIGHUP ends another minute of history.
            func settle(_ daemon: Daemon) async throws -> Int {
                try await look(every: .zero, until: { $0 == Self.minute }) {
                    let minute = Self.minute
                    try await endMinute(daemon)
                    return minute
                }
            }
            for round in 1...14 {
                var settled = Self.minute
                let daemon = try await pinned.start(arguments)
                try await mover.tell("churn 5 1001")
                #expect(try await daemon.counted(mover) == mover.moved)
                // The first daemon is killed in its first minute. Of the others, some end minutes, and some then can't
                // write. Of two minutes on their way, history may have only one when the daemon is killed, and the next
                // daemon says so. So the others are in history before one is on its way.
                var locker: Program?
                if round > 1, round % 4 == 0 {
                    _ = try await settle(daemon)
                    try await mover.tell("churn 3 77")
                    locker = try await Self.lock(pinned.state + "/history.sqlite")
                    for _ in 1...2 {
                        try await endMinute(daemon)
                        try await mover.tell("churn 3 77")
                    }
                } else if round > 1 {
                    for _ in 0..<Int.random(in: 0...3, using: &random) {
                        settled = try await settle(daemon)
                        try hangUp(daemon)
                        try await mover.tell("churn 3 77")
                        try await Task.sleep(for: .milliseconds(Int.random(in: 0...300, using: &random)))
                    }
                }
                if round == 1 { #expect(try await daemon.waitForCheckpoint(), "no checkpoint") }
                try await daemon.program.halt()
                // The minute of the clock is on its way, too.
                while locker == nil, settled != Self.minute {
                    daemon.program.signal(SIGCONT)
                    settled = try await settle(daemon)
                    try await daemon.program.halt()
                }
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
