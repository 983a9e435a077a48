import CUnixSocket
import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

@testable import TrafficLedger

extension SystemTests {
    /// Daemons that go on with the totals of an earlier one, and with other counting programs.
    @Suite(.needsBPF, .needs("python3", "bpftool"))
    struct ReplacementTests {
        /// `CLOCK_BOOTTIME`, nanoseconds.
        private static var boottime: UInt64 {
            var time = timespec()
            clock_gettime(CLOCK_BOOTTIME, &time)
            return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
        }

        @Test("with other options the totals go on, though daemons are killed while they replace the programs")
        func otherOptions() async throws {
            var random = Seeded(71)
            let pinned = try PinnedDaemons()
            let mover = try Mover()
            try await mover.tell("hold 5 0")
            var daemon = try await pinned.start()
            let since = try await daemon.snapshot().countingSince
            try await mover.tell("use 5 3001")
            for round in 1...10 {
                #expect(try await daemon.stop(round % 2 == 0 ? SIGKILL : SIGTERM) >= 0)
                try await mover.tell("use 3 77")
                try await mover.tell("churn 20 1001")
                // Nothing moves while these start, so nothing moves between two captures.
                for _ in 0..<Int.random(in: 0...2, using: &random) {
                    let wire = ["exact", "derived"].randomElement(using: &random) ?? "exact"
                    let starting = try Program(
                        Machine.programs.daemon,
                        ["run", "--method", Machine.method, "--wire", wire] + pinned.directories.arguments
                            + pinned.arguments
                    )
                    try await Task.sleep(for: .milliseconds(Int.random(in: 0...900, using: &random)))
                    starting.signal(SIGKILL)
                    try await starting.exit()
                }
                let wire = round % 2 == 0 ? "exact" : "derived"
                daemon = try await pinned.start(["--wire", wire])
                #expect(try await daemon.counted(mover) == mover.moved, "round \(round)")
                try await mover.tell("use 5 3001")
            }
            #expect(try await daemon.counted(mover) == mover.moved)
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
            try await pinned.unload()
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        /// What a daemon of another version would have left.
        enum OtherVersion: CaseIterable {
            case programs
            /// The state of the ledger means something else.
            case state
            /// It lacks what this program needs.
            case values

            fileprivate var cause: String {
                switch self {
                case .programs: "another version of trafficd"
                case .state: "a checkpoint of version 99"
                case .values: "a checkpoint with values that this program does not know"
                }
            }

            fileprivate func change(_ checkpoint: URL) throws {
                var bytes = try Data(contentsOf: checkpoint)
                switch self {
                case .programs:
                    let text = String(decoding: bytes, as: UTF8.self)
                    let layout = try #require(text.firstMatch(of: /"layout":[0-9]+/)?.output)
                    let range = try #require(bytes.range(of: Data(layout.utf8)))
                    bytes.replaceSubrange(range, with: Data("\"layout\":17".utf8))
                case .state:
                    // After the first line come 8 letters and the version.
                    let start = try #require(bytes.firstIndex(of: UInt8(ascii: "\n"))) + 9
                    try #require(bytes[(start - 8)..<start] == Data("trafficd".utf8))
                    bytes.replaceSubrange(start..<start + 4, with: [99, 0, 0, 0])
                case .values:
                    let start = try #require(bytes.firstIndex(of: UInt8(ascii: "\n"))) + 1
                    var ledger = [UInt8](bytes[start...])
                    // A field that no socket can be without gets another name. The files of history have no sockets.
                    if let name = ledger.firstRange(of: Array("transport".utf8)) {
                        ledger.replaceSubrange(name, with: Array("otherwise".utf8))
                        CheckpointHeader.seal(&ledger)
                    }
                    bytes.replaceSubrange(start..., with: ledger)
                }
                try bytes.write(to: checkpoint)
            }
        }

        @Test(
            "a daemon of another version goes on with the totals, and says of which time nothing is counted",
            // Perhaps after a change of the options, too.
            arguments: OtherVersion.allCases,
            [[], ["--wire", "derived"]]
        )
        func otherVersion(_ version: OtherVersion, options: [String]) async throws {
            let pinned = try PinnedDaemons()
            let options = options + ["--state-directory", pinned.state]
            let mover = try Mover()
            var daemon = try await pinned.start(["--state-directory", pinned.state])
            let since = try await daemon.snapshot().countingSince
            try await mover.tell("churn 20 1001")
            #expect(try await daemon.counted(mover) == mover.moved)
            let held = BPFObjects.held(by: daemon.program.pid)
            let lastTaken = try await daemon.snapshot().takenBoottimeNanoseconds
            #expect(try await daemon.stop() == 0)
            let stopped = Self.boottime
            for name in ["checkpoint", "checkpoint.handed", "checkpoint.written"] {
                let file = pinned.directories.runtime.appending(path: name)
                if name == "checkpoint" || FileManager.default.fileExists(atPath: file.path) {
                    try version.change(file)
                }
            }
            let before = mover.moved
            try await mover.tell("churn 7 1001")
            let uncounted = mover.moved.growth(since: before)
            let starting = Self.boottime
            daemon = try await pinned.start(options)
            let started = Self.boottime
            #expect(daemon.program.errorText.contains("goes on with the same totals and other counting programs"))
            #expect(daemon.program.errorText.contains(version.cause), "\(daemon.program.errorText)")
            try await mover.tell("churn 5 1001")
            let counted = mover.moved.growth(since: uncounted)
            #expect(try await daemon.counted(mover, wanted: counted) == counted)
            let snapshot = try await daemon.snapshot()
            #expect(snapshot.countingSince == since)
            // From the last tick of the one daemon until the other one counts.
            let gap = snapshot.capture.loss.uncountedNanoseconds
            #expect(gap >= starting - stopped && gap <= started - lastTaken)
            let doctor = try await Program.run(Machine.programs.client, ["doctor"] + pinned.directories.arguments)
            let words = String(decoding: doctor.output, as: UTF8.self).split(whereSeparator: \.isWhitespace)
            #expect(words.joined(separator: " ").contains("s in which other counting programs took over"))
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
            #expect(try await daemon.stop() == 0)
            // Each byte is in history once.
            daemon = try await pinned.start(options)
            #expect(try await pinned.inHistory(mover) == counted)
            #expect(try await daemon.counted(mover, wanted: counted) == counted)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }

        @Test("a start that can't write its checkpoint leaves the last capture, and the next one goes on with it")
        func fullAtStart() async throws {
            let pinned = try PinnedDaemons()
            let runtime = pinned.directories.runtime.path
            try #require(mkdir(runtime, 0o755) == 0 && mount("tmpfs", runtime, "tmpfs", 0, "size=2m,mode=755") == 0)
            defer { umount2(runtime, Int32(MNT_DETACH)) }
            let mover = try Mover()
            var daemon = try await pinned.start()
            try await mover.tell("churn 3 1000")
            #expect(try await daemon.stop() == 0)
            let filling = pinned.directories.runtime.appending(path: "filling")
            #expect(throws: (any Error).self) { try Data(repeating: 1, count: 4 << 20).write(to: filling) }
            for _ in 1...3 {
                let refused = try await Program.run(
                    Machine.programs.daemon,
                    ["run", "--method", Machine.method, "--wire", "derived"] + pinned.directories.arguments
                        + pinned.arguments
                )
                #expect(refused.code == 1 && refused.error.contains("No space left"), "\(refused.error)")
                #expect(try FileManager.default.contentsOfDirectory(atPath: "\(pinned.path)").count == 1)
                try await mover.tell("churn 2 77")
            }
            try? FileManager.default.removeItem(at: filling)
            daemon = try await pinned.start(["--wire", "derived"])
            #expect(try await daemon.counted(mover) == mover.moved)
            #expect(try await daemon.stop() == 0)
            try await pinned.unload()
        }
    }
}
