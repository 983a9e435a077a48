import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

extension SurfaceTests {
    /// Who holds a socket, beside what ss(8) says.
    @Suite(.needsBPF, .needs("nginx", "ss", "curl", "python3"))
    struct HolderTests {
        /// Pids, as `ss` has them.
        private static func holders(ofPort port: UInt16) async throws -> Set<Int32> {
            let lines = try await Tool.run("ss", ["-H", "-lntp", "sport = :\(port)"]).output
            return Set(lines.matches(of: /pid=([0-9]+)/).compactMap { Int32($0.output.1) })
        }

        private static func listener(_ port: UInt16, in snapshot: Snapshot) -> SocketUsage? {
            snapshot.sockets?.first { $0.local.port == port && $0.role == .listener }
        }

        @Test("the listener of a server that went into the background is its processes', and not the one's that ended")
        func background() async throws {
            let folder = temporaryPath("nginx")
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
            defer { try? FileManager.default.removeItem(atPath: folder) }
            let port = UInt16(try FreePort.next())
            let configuration = """
                worker_processes 2; pid \(folder)/pid; error_log \(folder)/error;
                events { worker_connections 64; }
                http { access_log off; server { listen 127.0.0.1:\(port); location / { return 200 'hello'; } } }
                """
            try Data(configuration.utf8).write(to: URL(filePath: folder + "/nginx.conf"))
            try await withDaemon { daemon in
                // It returns when the server runs on without it.
                _ = try await Tool.run("nginx", ["-c", folder + "/nginx.conf"])
                defer {
                    let pid = (try? String(contentsOfFile: folder + "/pid", encoding: .utf8)).flatMap {
                        Int32($0.split(separator: "\n")[0])
                    }
                    if let pid { kill(pid, SIGTERM) }
                }
                let truth = try await Self.holders(ofPort: port)
                try #require(truth.count == 3)
                func holders(_ snapshot: Snapshot) -> Set<Int32> {
                    let owners = Self.listener(port, in: snapshot)?.owners ?? []
                    return Set(owners.filter { !$0.isFormer }.map(\.identity.pid))
                }
                let snapshot = try await look(until: { holders($0) == truth }) { try await daemon.snapshot() }
                #expect(holders(snapshot) == truth)
                // Each of the three has the socket in its row, and the one that ended has none.
                let rows = (snapshot.processes ?? []).filter { truth.contains($0.identity.pid) }
                #expect(rows.map(\.socketsOpen) == [1, 1, 1] && rows.allSatisfy { $0.details.name == "nginx" })
                let former = Self.listener(port, in: snapshot)?.owners.filter(\.isFormer).map(\.identity) ?? []
                #expect(former.count == 1)
                for process in snapshot.processes ?? [] where former.contains(process.identity) {
                    #expect(process.state == .exited && process.socketsOpen == 0)
                }
                // Whoever moves bytes has those, and no holder gets any.
                _ = try await Tool.run("curl", ["-s", "http://127.0.0.1:\(port)/"])
                let later = try await daemon.snapshot()
                let moved = (later.processes ?? []).filter { truth.contains($0.identity.pid) }.map(\.bytes.payload)
                #expect(moved.count { $0.total > 0 } == 1)
            }
        }

        @Test("a descriptor that was passed on is the receiver's when the maker has closed its own")
        func passedOn() async throws {
            let script = """
                import os, socket, sys
                ours, theirs = socket.socketpair()
                listener = socket.create_server(("127.0.0.1", 0))
                print(listener.getsockname()[1], os.getpid(), flush=True)
                child = os.fork()
                if not child:
                    # Only what comes through the message is left.
                    listener.close(); ours.close()
                    _, [descriptor], _, _ = socket.recv_fds(theirs, 1, 1)
                    print(os.getpid(), flush=True)
                    sys.stdin.read()
                    os._exit(0)
                socket.send_fds(ours, [b"x"], [listener.fileno()])
                listener.close()
                os.waitpid(child, 0)
                """
            try await withDaemon { daemon in
                let program = try Program(try #require(Machine.path(of: "python3")), ["-c", script])
                let first = try #require(try await program.line(), "\(program.errorText)")
                let numbers = String(decoding: first, as: UTF8.self).split(separator: " ").compactMap { Int32($0) }
                try #require(numbers.count == 2)
                let port = UInt16(numbers[0])
                let second = try #require(try await program.line(), "\(program.errorText)")
                let child = try #require(Int32(String(decoding: second, as: UTF8.self)))
                #expect(try await Self.holders(ofPort: port) == [child])
                func isRight(_ snapshot: Snapshot) -> Bool {
                    let owners = Self.listener(port, in: snapshot)?.owners ?? []
                    return owners.filter { !$0.isFormer }.map(\.identity.pid) == [child]
                        && owners.filter(\.isFormer).map(\.identity.pid) == [numbers[1]]
                }
                let snapshot = try await look(until: isRight) { try await daemon.snapshot() }
                #expect(isRight(snapshot))
                // The maker lives, and holds nothing any more.
                let rows = snapshot.processes ?? []
                #expect(rows.first { $0.identity.pid == numbers[1] }?.socketsOpen == 0)
                #expect(rows.first { $0.identity.pid == child }?.socketsOpen == 1)
                program.closeInput()
                #expect(try await program.exit() == 0)
            }
        }
    }
}
