import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// A kernel that refuses programs: which bytes count, and what a person sees.
    @Suite(.needsBPF)
    struct RefusalTests {
        /// Scenarios with sockets that no process holds are among them: a sockmap's, in flight, not accepted.
        @Test(
            "without the walks over the elements of maps every byte is counted, once",
            arguments: [
                "tcp", "udp", "sockmap", "sockmap-parser", "scm-rights", "many-owners", "prefork", "io-uring-fixed",
                "packet",
                "short-lived",
            ]
        )
        func withoutWalksOverMaps(_ scenario: String) async throws {
            let launcher = try RefusingKernel.launcher(RefusingKernel.withoutWalksOverMaps)
            try await withDaemon(launcher: launcher) { daemon in
                let capture = try await daemon.latestSnapshot().capture
                #expect(capture.method != .poll)
                #expect(capture.blindSpots.contains { $0.contains("Operation not permitted") })
                try expectExact(try await AccuracyCheck.run(scenario, daemon: daemon, programs: Machine.programs))
            }
        }

        @Test("a program that is refused only when it is attached is refused all the same", arguments: ["tcp", "udp"])
        func atAttaching(_ scenario: String) async throws {
            let launcher = try RefusingKernel.launcher("iter/bpf_sk_storage_map,cgroup/", at: "attach")
            try await withDaemon(launcher: launcher) { daemon in
                let capture = try await daemon.latestSnapshot().capture
                #expect(capture.method != .poll)
                #expect(capture.blindSpots.contains { $0.contains("sweep_sockets: ") })
                try expectExact(try await AccuracyCheck.run(scenario, daemon: daemon, programs: Machine.programs))
            }
        }

        @Test("where only poll is left, the log, doctor and check say at once what is refused, and what to do")
        func onlyPoll() async throws {
            let launcher = try RefusingKernel.launcher("iter/")
            try await withDaemon(method: "auto", launcher: launcher) { daemon in
                #expect(daemon.program.errorText.split(separator: "\n").first?.contains("NOT EXACT") == true)
                let capture = try await daemon.latestSnapshot().capture
                #expect(capture.method == .poll)
                let reason = try #require(capture.reason)
                #expect(reason.contains("sweep_held_sockets: Operation not permitted"))
                let doctor = try await Program.run(
                    Machine.programs.client,
                    ["--runtime-directory", daemon.directories.runtime.path, "doctor"]
                )
                let text = String(decoding: doctor.output, as: UTF8.self)
                #expect(text.hasPrefix("NOT EXACT"))
                #expect(text.contains("sweep_held_sockets: Operation not permitted"))
                #expect(text.contains("trafficd check"))
                let top = try await Program.run(
                    Machine.programs.client,
                    ["--runtime-directory", daemon.directories.runtime.path, "top", "--once"]
                )
                let first = String(decoding: top.output, as: UTF8.self).split(separator: "\n").first
                #expect(first?.contains("NOT EXACT") == true, "\(top.error)")
            }
            let check = try await Program.run(
                launcher.program,
                launcher.arguments + [Machine.programs.daemon.path, "check"]
            )
            let text = String(decoding: check.output, as: UTF8.self)
            #expect(check.code == 1, "\(check.error)")
            #expect(text.contains("poll: trafficd run would use it"))
            #expect(text.contains("tracepoint: refused: sweep_sockets: Operation not permitted"))
        }

        @Test(
            "who keeps the lock of a socket keeps no daemon from starting, counting and ending, and doctor says so",
            .needs("python3")
        )
        func keptLock() async throws {
            let script = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
                .appending(path: "Tools/lockholder/lockholder.py")
            let holder = try Program(URL(filePath: "/usr/bin/python3"), [script.path])
            defer { holder.closeInput() }
            let word = try await holder.line()
            guard word == Data("holds".utf8) else { try Test.cancel("\(holder.errorText)") }
            let launcher = try RefusingKernel.launcher(RefusingKernel.withoutWalksOverMaps)
            let daemon = try await Daemon(Machine.programs, method: Machine.method, launcher: launcher)
            let spots = try await look(until: { $0.contains { $0.contains("the walk waits for it") } }) {
                try await daemon.latestSnapshot().capture.blindSpots
            }
            #expect(spots.contains { $0.contains("the walk waits for it") }, "\(spots)")
            // Of the start: the lists of TCP sockets that are older than the capture.
            #expect(
                spots.contains { $0.contains("adopt_tcp_sockets: a program keeps the lock of a socket") },
                "\(spots)"
            )
            try expectExact(try await AccuracyCheck.run("tcp", daemon: daemon, programs: Machine.programs))
            let held = BPFObjects.held(by: daemon.program.pid)
            let code = try await daemon.stop()
            #expect(code == 0, "\(daemon.program.errorText)")
            holder.closeInput()
            _ = try await holder.exit()
            // The processes that waited for the lock end now, and nothing of the capture stays.
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        @Test("check says what trafficd run would use, and leaves nothing in the kernel")
        func check() async throws {
            let check = try await Program.run(Machine.programs.daemon, ["check"])
            let lines = String(decoding: check.output, as: UTF8.self).split(separator: "\n")
            #expect(check.code == 0, "\(check.error)")
            let used = lines.filter { $0.hasSuffix(": trafficd run would use it") }
            try await withDaemon { daemon in
                let capture = try await daemon.latestSnapshot().capture
                #expect(Machine.method != "auto" || used == ["\(capture.method.rawValue): trafficd run would use it"])
                // Some are said for a moment, as that rows come late.
                let spots = try await look(until: { $0.allSatisfy { lines.contains("  can't see: \($0)") } }) {
                    try await daemon.latestSnapshot().capture.blindSpots
                }
                for spot in spots { #expect(lines.contains("  can't see: \(spot)")) }
            }
        }
    }
}
