import CUnixSocket
import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SystemTests {
    /// The daemon as a service: what the packaged unit allows, and what the daemon reports to systemd.
    @Suite(.needsBPF)
    struct ServiceTests {
        private static let package = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        private static let unit = Self.package.appending(path: "packaging/systemd/trafficd.service").path

        /// CAP_BPF, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH (linux/capability.h).
        private static let lasting: UInt64 = 1 << 39 | 1 << 19 | 1 << 2
        private static let sysAdmin: UInt64 = 1 << 21

        /// The socket comes first. The daemon then gives up its rights, perhaps after its first answer, and then
        /// notifies systemd.
        private func awaitFewRights(of daemon: Daemon) async throws {
            let areFew = try await eventually {
                let rights = try self.rights(of: daemon)
                return rights.count > 5 && rights.allSatisfy { ($0 ?? .max) & ~Self.lasting == 0 }
            }
            #expect(areFew)
        }

        private func rights(of daemon: Daemon) throws -> [UInt64?] {
            try daemon.program.threads("CapPrm").map { UInt64($0, radix: 16) }
        }

        private func expectFewRights(of daemon: Daemon) throws {
            let rights = try self.rights(of: daemon)
            #expect(rights.count > 5 && rights.allSatisfy { $0 == Self.lasting }, "\(rights)")
            #expect(try daemon.program.threads("CapEff").allSatisfy { UInt64($0, radix: 16) == Self.lasting })
            #expect(try daemon.program.threads("NoNewPrivs").allSatisfy { $0 == "1" })
        }

        @Test(
            "once the daemon counts, no thread has more rights than counting needs, and counting goes on",
            arguments: ["tcp", "churn"]
        )
        func rights(scenario: String) async throws {
            let listener = try Listener()
            let check = try await self.withNotified(listener) { daemon in
                try await listener.wait(for: "READY=1", times: 1)
                try self.expectFewRights(of: daemon)
                return try await AccuracyCheck.run(scenario, daemon: daemon, programs: Machine.programs)
            }
            try expectExact(check)
        }

        @Test("CAP_SYS_ADMIN stays where a setting says so, and with poll, which enters namespaces itself")
        func keptRight() async throws {
            for (method, arguments) in [(Machine.method, ["--keep-sys-admin"]), ("poll", [])] {
                try await withDaemon(method: method, arguments: arguments) { daemon in
                    let areTheseAlone = try await eventually {
                        let rights = try self.rights(of: daemon)
                        return rights.count > 5 && rights.allSatisfy { $0 == Self.lasting | Self.sysAdmin }
                    }
                    #expect(areTheseAlone, "\(method)")
                }
            }
        }

        @Test(
            "without CAP_BPF the daemon keeps CAP_SYS_ADMIN, which does the same, and goes on counting",
            .needs("setpriv")
        )
        func withoutBPFRight() async throws {
            let launcher = (program: URL(filePath: "/usr/bin/env"), arguments: ["setpriv", "--bounding-set", "-bpf"])
            try await withDaemon(launcher: launcher) { daemon in
                let areTheseAlone = try await eventually {
                    let rights = try self.rights(of: daemon)
                    return rights.count > 5 && rights.allSatisfy { $0 == 1 << 21 | 1 << 19 | 1 << 2 }
                }
                #expect(areTheseAlone)
                try expectExact(try await AccuracyCheck.run("tcp", daemon: daemon, programs: Machine.programs))
            }
        }

        @Test("the process that walks through namespaces keeps what it needs for that, and the daemon does not")
        func rightsOfWalk() async throws {
            let launcher = try RefusingKernel.launcher(RefusingKernel.withoutWalksOverMaps)
            try await withDaemon(launcher: launcher) { daemon in
                try await self.awaitFewRights(of: daemon)
                let threads = "/proc/\(daemon.program.pid)/task"
                let pids = try FileManager.default.contentsOfDirectory(atPath: threads).flatMap { thread in
                    try String(contentsOfFile: "\(threads)/\(thread)/children", encoding: .utf8)
                        .split(separator: " ").compactMap { pid_t($0) }
                }
                #expect(!pids.isEmpty)
                for pid in pids {
                    let status = try String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)
                    #expect(status.hasPrefix("Name:\ttrafficd-walk\n"))
                    // CAP_BPF, CAP_SYS_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH.
                    #expect(status.contains("CapPrm:\t0000008000280004\n"), "\(status)")
                    #expect(status.contains("NoNewPrivs:\t1\n"))
                }
                // It still enters the namespaces of the scenario.
                try expectExact(try await AccuracyCheck.run("scm-rights", daemon: daemon, programs: Machine.programs))
            }
        }

        @Test(
            "systemd rates the units 2.5 or better",
            .needs("systemd-analyze"),
            arguments: ["trafficd.service", "trafficd-webhook.service"]
        )
        func exposure(unit: String) async throws {
            let path = Self.package.appending(path: "packaging/systemd/\(unit)").path
            let tool = try await Tool.run("systemd-analyze", ["security", "--offline=true", path])
            let line = try #require(tool.output.split(separator: "\n").last { $0.contains("exposure level") })
            let rating = line.split(separator: ":").last?.split(separator: " ").first.flatMap { Double($0) }
            #expect(try #require(rating) <= 2.5, "\(line)")
        }

        /// Starts the program under the unit's restrictions, as the user nobody.
        private static func confined(_ directories: DaemonDirectories, _ files: BPFFileSystem) -> [String] {
            let confine = Self.package.appending(path: "Tests/Tools/confine/confine.py").path
            return ["/usr/bin/python3", confine, Self.unit, "nobody", directories.root.path, files.path]
        }

        @Test(
            "under the unit's restrictions, as a user other than root, the daemon counts every byte",
            .needs("systemd-analyze", "setpriv"),
            arguments: ["tcp", "udp", "churn", "short-lived"]
        )
        func confined(scenario: String) async throws {
            let (directories, files) = (try DaemonDirectories(), try BPFFileSystem())
            let launcher = Self.confined(directories, files)
            let check = try await withDaemon(
                directories: directories,
                launcher: (program: URL(filePath: launcher[0]), arguments: Array(launcher.dropFirst()))
            ) { daemon in
                try await self.awaitFewRights(of: daemon)
                try self.expectFewRights(of: daemon)
                #expect(try daemon.program.threads("Uid").allSatisfy { $0.hasPrefix("65534\t") })
                #expect(try daemon.program.threads("Seccomp").allSatisfy { $0 == "2" })
                // The runtime logs it if the unit refuses a call that it makes.
                let words = daemon.program.errorText
                #expect(!words.contains("Failed to"), "\(words)")
                return try await AccuracyCheck.run(scenario, daemon: daemon, programs: Machine.programs)
            }
            try expectExact(check)
        }

        @Test(
            "under the unit's restrictions, counting goes on when the daemon is killed, and root can end it",
            .needs("systemd-analyze", "setpriv", "bpftool")
        )
        func outlived() async throws {
            let (directories, files) = (try DaemonDirectories(), try BPFFileSystem())
            let launcher = Self.confined(directories, files)
            let mover = try Mover()
            var since: Timestamp?
            var held = BPFObjects()
            for signal in [SIGKILL, SIGTERM, SIGTERM] {
                let daemon = try await Daemon(
                    Machine.programs,
                    method: Machine.method,
                    directories: directories,
                    arguments: ["--pin-directory", "\(files.path)/trafficd"],
                    launcher: (program: URL(filePath: launcher[0]), arguments: Array(launcher.dropFirst()))
                )
                #expect(try daemon.program.threads("Uid").allSatisfy { $0.hasPrefix("65534\t") })
                let snapshot = try await daemon.snapshot()
                #expect(snapshot.countingSince == since ?? snapshot.countingSince)
                since = snapshot.countingSince
                try await mover.tell("churn 50 1001")
                #expect(try await daemon.counted(mover) == mover.moved)
                held = BPFObjects.held(by: daemon.program.pid)
                _ = try await daemon.stop(signal)
                try await mover.tell("churn 50 77")
            }
            let unload = ["unload", "--pin-directory", "\(files.path)/trafficd"]
            let unloaded = try await Program.run(Machine.programs.daemon, unload)
            #expect(unloaded.code == 0 && unloaded.error.isEmpty, "\(unloaded.error)")
            #expect(access("\(files.path)/trafficd", F_OK) != 0)
            let left = try await held.stillThere()
            #expect(left.isEmpty, "left in the kernel: \(left)")
        }

        @Test(
            "a service that can't set the length of report.sock's queue uses the host's length",
            .needs("setpriv", "unshare")
        )
        func reportQueue() async throws {
            let (directories, files) = (try DaemonDirectories(), try BPFFileSystem())
            // A new network namespace stands for a host on which systemd has raised the length.
            let script = "echo 100 >/proc/sys/net/unix/max_dgram_qlen && exec \"$@\""
            let launcher = (
                program: URL(filePath: "/usr/bin/unshare"),
                arguments: ["--net", "sh", "-c", script, "sh"] + Self.confined(directories, files)
            )
            try await withDaemon(directories: directories, launcher: launcher) { daemon in
                let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue | SOCK_NONBLOCK.rawValue), 0)
                defer { close(socket) }
                defer { daemon.program.signal(SIGCONT) }
                // A thread that goes on would take datagrams.
                try await daemon.program.halt()
                var queued = 0
                while queued < 1_000, unix_socket_send(socket, "x", 1, 0, directories.reportSocket.path) == 1 {
                    queued += 1
                }
                // The kernel takes a datagram while the queue is not longer than its length (unix_recvq_full()).
                #expect(queued == 101)
            }
        }

        /// systemd's end of notifications (sd_notify(3)).
        private final class Listener {
            private let path = temporaryPath("tn")
            private let socket = Glibc.socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue), 0)
            /// All that came.
            private(set) var heard: [String] = []

            init() throws { try #require(unix_socket_bind(self.socket, self.path) == 0) }

            deinit {
                close(self.socket)
                unlink(self.path)
            }

            var environment: [String: String] { ["NOTIFY_SOCKET": self.path] }

            func count(_ message: String) -> Int { self.heard.count { $0 == message } }

            func wait(for message: String, times: Int) async throws {
                let isHeard = try await eventually(every: .milliseconds(10)) {
                    self.listen()
                    return self.count(message) >= times
                }
                #expect(isHeard, "not \(times) times \(message): \(self.heard)")
            }

            func listen() {
                var buffer = [UInt8](repeating: 0, count: 256)
                while true {
                    let count = recv(self.socket, &buffer, buffer.count, Int32(MSG_DONTWAIT))
                    guard count >= 0 else { return }
                    let text = String(decoding: buffer[..<count], as: UTF8.self)
                    self.heard.append(text.trimmingCharacters(in: .newlines))
                }
            }
        }

        /// - Parameter interval: The daemon notifies at each interval, and does not wait where the listener's queue is full:
        ///   eleven notifications. Only with a long interval none of the others can be lost, however late the test listens.
        private func withNotified<Result>(
            _ listener: Listener,
            interval: Double = 60,
            _ body: (Daemon) async throws -> Result
        ) async throws -> Result {
            let variables = listener.environment.map { "\($0)=\($1)" }
            return try await withDaemon(
                arguments: ["--interval", "\(interval)"],
                launcher: (program: URL(filePath: "/usr/bin/env"), arguments: variables),
                body
            )
        }

        @Test("the daemon notifies systemd when it is ready, at every interval, and when it stops")
        func notifications() async throws {
            var listener = try Listener()
            try await self.withNotified(listener) { _ in try await listener.wait(for: "READY=1", times: 1) }
            listener.listen()
            #expect(listener.count("READY=1") == 1 && listener.heard.last == "STOPPING=1")
            listener = try Listener()
            try await self.withNotified(listener, interval: 0.2) { _ in
                try await listener.wait(for: "WATCHDOG=1", times: 3)
                #expect(listener.count("READY=1") <= 1)
            }
        }

        @Test("systemctl reload makes the daemon read its configuration again, and systemd hears when it has")
        func reload() async throws {
            let unit = try String(contentsOfFile: Self.unit, encoding: .utf8)
            let commands = unit.split(separator: "\n").filter { $0.hasPrefix("ExecReload=") }
                .map { $0.dropFirst("ExecReload=".count) }
            let start = unit.split(separator: "\n").first { $0.hasPrefix("ExecStart=") }
            // A reload checks what the start reads: another file than the usual one, and options that contradict it.
            try #require(
                commands.count == 2 && start.map { commands[0] == $0.dropFirst(10) + " --check-config" } == true
            )
            let listener = try Listener()
            try await self.withNotified(listener) { daemon in
                try await listener.wait(for: "READY=1", times: 1)
                var began = timespec()
                clock_gettime(CLOCK_MONOTONIC, &began)
                let command = commands[1].replacing("$MAINPID", with: "\(daemon.program.pid)")
                _ = try await Tool.run("sh", ["-c", String(command)])
                try await listener.wait(for: "READY=1", times: 2)
                let heard = listener.heard.filter { $0 != "WATCHDOG=1" }
                try #require(heard.count == 3, "\(heard)")
                let time = try #require(heard[1].wholeMatch(of: /RELOADING=1\nMONOTONIC_USEC=([0-9]+)/)?.output.1)
                #expect(Int(time) ?? 0 >= began.tv_sec * 1_000_000 + began.tv_nsec / 1_000)
            }
        }

        @Test("a SIGHUP during the start waits until the daemon is ready")
        func earlyReload() async throws {
            let (listener, directories) = (try Listener(), try DaemonDirectories())
            let daemon = try Program(
                Machine.programs.daemon,
                ["run", "--config", "off", "--method", Machine.method, "--interval", "60"] + directories.arguments,
                environment: listener.environment
            )
            // Once the daemon catches SIGHUP, which is before it has loaded its programs.
            let catches = try await eventually(every: .milliseconds(1)) {
                let caught = try daemon.threads("SigCgt").compactMap { UInt64($0, radix: 16) }
                return caught.contains { $0 & 1 << UInt64(SIGHUP - 1) != 0 }
            }
            #expect(catches)
            daemon.signal(SIGHUP)
            try await listener.wait(for: "READY=1", times: 2)
            let heard = listener.heard.filter { $0 != "WATCHDOG=1" }
            #expect(heard.first == "READY=1" && heard.count == 3, "\(heard)")
            daemon.signal(SIGTERM)
            #expect(try await daemon.exit() == 0)
        }

        @Test("the packaged file of options names every option of the daemon, and no other option")
        func options() async throws {
            let help = try await Tool.run(Machine.programs.daemon.path, ["run", "--help"]).output
            let file = Self.package.appending(path: "packaging/trafficd.default")
            let text = try String(contentsOf: file, encoding: .utf8)
            func options(_ text: String) -> Set<String> {
                Set(text.matches(of: /--[a-z][a-z-]+/).map { String($0.output) })
            }
            #expect(options(text) == options(help).subtracting(["--help", "--version", "--check-config"]))
        }
    }
}
