import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficModel

extension SurfaceTests {
    /// Programs in cgroups that are named as systemd names them, beside what the programs say that they moved.
    @Suite(.needsBPF, .needs("python3", "setpriv", "curl", "unshare", "mount"))
    struct ProcessGroupTests {
        /// Sends `argv[1]` bytes to itself over a connection on loopback. Prints what its calls returned, and ends with
        /// its input.
        private static let program = """
            import socket, sys
            listener = socket.create_server(("127.0.0.1", 0))
            client = socket.create_connection(listener.getsockname())
            server, _ = listener.accept()
            sent = client.send(bytes(int(sys.argv[1])))
            received = 0
            while received < sent: received += len(server.recv(65536))
            print(sent, received, flush=True)
            sys.stdin.read()
            """

        @Test("a user who gets a name after the first byte, and then another one, has it on the running process")
        func userNames() async throws {
            // The host's users with one more, for the daemon alone.
            let database = URL(filePath: temporaryPath("passwd"))
            let users = try String(contentsOfFile: "/etc/passwd", encoding: .utf8)
            defer { unlink(database.path) }
            func add(_ name: String?) throws {
                let line = name.map { "\($0):x:54321:54321::/nowhere:/bin/false\n" } ?? ""
                // In the same file, because the daemon's /etc/passwd is that file.
                try Data((users + line).utf8).write(to: database)
            }
            try add(nil)
            let launcher = (
                program: try #require(Machine.path(of: "unshare")),
                arguments: [
                    "--mount", "sh", "-c", #"mount --bind "$0" /etc/passwd && exec "$@""#, database.path,
                ]
            )
            try await withDaemon(launcher: launcher) { daemon in
                let script = "exec setpriv --reuid 54321 --clear-groups env PATH=/usr/bin:/bin python3 -c \"$0\" 1000"
                let program = try Program(URL(filePath: "/bin/sh"), ["-c", script, Self.program])
                try #require(try await program.line() != nil, "\(program.errorText)")
                for name in [nil, "first", "second", nil] {
                    try add(name)
                    let user = try await look(until: { $0 == .some(name) }) {
                        try await daemon.snapshot().processes?.first { $0.identity.pid == program.pid }.map(
                            \.details.user
                        )
                    }
                    #expect(user == .some(name))
                }
                program.closeInput()
                #expect(try await program.exit() == 0)
            }
        }

        /// Runs the program in a cgroup, in each hierarchy that a unit's name may come from, until the daemon has read
        /// the name: what ends earlier may have none.
        ///
        /// - Parameter manager: Folders around the unit's own, below a slice.
        private static func run(
            _ bytes: Int,
            in unit: String,
            below manager: String = "",
            as uid: UInt32,
            _ daemon: Daemon
        ) async throws -> UInt64 {
            let roots = ["/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"].filter {
                FileManager.default.fileExists(atPath: $0 + "/cgroup.procs")
            }
            let slice = "trafficd-\(UUID().uuidString).slice"
            let places = roots.map { "\($0)/\(slice)\(manager)/\(unit)" }
            for place in places {
                try FileManager.default.createDirectory(atPath: place, withIntermediateDirectories: true)
            }
            defer {
                for var place in places {
                    while rmdir(place) == 0, place.suffix(slice.count) != slice {
                        place = URL(filePath: place).deletingLastPathComponent().path
                    }
                }
            }
            let enter = places.map { "echo $$ >'\($0)/cgroup.procs'" }.joined(separator: " && ")
            // Another user may not have the python3 that root's PATH finds first.
            let python = "env PATH=/usr/bin:/bin python3 -c \"$0\" \(bytes)"
            let script = "\(enter) && exec setpriv --reuid \(uid) --clear-groups \(python)"
            let program = try Program(URL(filePath: "/bin/sh"), ["-c", script, Self.program])
            let line = try #require(try await program.line(), "\(program.errorText)")
            let moved = String(decoding: line, as: UTF8.self).split(separator: " ").compactMap { UInt64($0) }
            let name = manager.isEmpty ? unit : URL(filePath: manager).pathComponents[1] + "/" + unit
            let known = try await look(until: { $0 == name }) {
                try await daemon.snapshot().processes?.first { $0.identity.pid == program.pid }?.details.systemdUnit
            }
            program.closeInput()
            #expect(try await program.exit() == 0 && known == name, "\(program.errorText)")
            try #require(moved.count == 2 && moved[0] == moved[1])
            return moved[0]
        }

        @Test(
            "ended processes add up by unit and user, to the byte; logins are one unit, and a user sees own rows only"
        )
        func units() async throws {
            try await withDaemon(arguments: ["--keep-exited", "0"]) { daemon in
                var truth: [String: UInt64] = ["session-*.scope": 0]
                for (unit, bytes) in [("session-7.scope", 7_001), ("session-8.scope", 9_003)] {
                    truth["session-*.scope"]! += try await Self.run(bytes, in: unit, as: 0, daemon)
                }
                truth["one.service"] = try await Self.run(1_234, in: "one.service", as: 0, daemon)
                // Any user may name a unit so, below their own service manager.
                truth["user@5301.service/one.service"] = try await Self.run(
                    2_345,
                    in: "one.service",
                    below: "/user@5301.service/app.slice",
                    as: 0,
                    daemon
                )
                truth["two@5.service"] = try await Self.run(4_321, in: "two@5.service", as: Machine.stranger, daemon)
                truth["three.service"] = try await Self.run(3_456, in: "three.service", as: 65_534, daemon)

                let rows = try await look(until: { $0.count == truth.count }) {
                    try await daemon.snapshot().exited?.filter { truth[$0.group.systemdUnit ?? ""] != nil } ?? []
                }
                let counted = Dictionary(rows.map { ($0.group.systemdUnit!, $0.bytes.payload) }, uniquingKeysWith: +)
                #expect(counted == truth.mapValues { PayloadBytes(sent: $0, received: $0) })
                let users = ["two@5.service": Machine.stranger, "three.service": 65_534]
                #expect(rows.allSatisfy { $0.group.uid == users[$0.group.systemdUnit ?? "", default: 0] })
                #expect(rows.map(\.processes).sorted() == [1, 1, 1, 1, 2])

                let socket = daemon.directories.controlSocket
                #expect(chmod(socket.path, 0o666) == 0 && chmod(socket.deletingLastPathComponent().path, 0o755) == 0)
                let curl = [
                    "--reuid", "\(Machine.stranger)", "--clear-groups", "curl", "-s", "--unix-socket", socket.path,
                ]
                let answer = try await Program.run(
                    try #require(Machine.path(of: "setpriv")),
                    curl + ["http://localhost/v1/snapshot"]
                )
                let seen = try JSONDecoder().decode(Snapshot.self, from: answer.output)
                #expect(seen.exited?.map(\.group.uid) == [Machine.stranger])
                let own = truth["two@5.service"]!
                #expect(seen.exited?.map(\.bytes.payload) == [PayloadBytes(sent: own, received: own)])
                // What a filter selects does not become less when a process leaves the list.
                let curlAsRoot = ["-s", "--unix-socket", socket.path]
                let filter = "filter=user:nobody+unit:three.service"
                let filtered = try await Program.run(
                    try #require(Machine.path(of: "curl")),
                    curlAsRoot + ["http://localhost/v1/snapshot?\(filter)"]
                )
                let totals = try JSONDecoder().decode(Snapshot.self, from: filtered.output).totals
                let nobodys = truth["three.service"]!
                #expect(totals.bytes.payload == PayloadBytes(sent: nobodys, received: nobodys))
            }
        }
    }
}
