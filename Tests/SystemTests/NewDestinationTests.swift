import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficDocuments
import TrafficModel

extension SurfaceTests {
    /// Alerts about destinations that a program has not reached before.
    @Suite(.needsBPF, .needs("ip", "nft", "python3"))
    struct NewDestinationTests {
        /// The namespace redirects connections to port 80 of faraway addresses to itself, and its clients come from faraway
        /// addresses. So, as with other machines, no interface has these addresses, and no socket has both.
        private static func connectTheWorld(to namespace: NetworkNamespace) async throws {
            try await namespace.run("ip", "address", "add", "198.18.0.1/30", "dev", "lo")
            try await namespace.run("ip", "route", "add", "local", "198.51.0.0/16", "dev", "lo")
            try await namespace.run("ip", "route", "add", "default", "dev", "lo")
            try await namespace.run("nft", "add table ip world")
            try await namespace.run("nft", "add chain ip world out { type nat hook output priority -100; }")
            let far = "{ 203.0.113.0/24, 192.0.2.0/24, 198.19.7.0/24 }"
            try await namespace.run("nft", "add rule ip world out ip daddr \(far) tcp dport 80 dnat to 198.18.0.1:9000")
        }

        /// A program that connects, answers and sends as it is told, and says after each command what its calls have
        /// returned for it.
        private final class Peer {
            private static let program = """
                import socket, sys, threading
                def serve(listener):
                    while True:
                        end, _ = listener.accept()
                        while data := end.recv(65536): end.sendall(data)
                        end.close()
                for line in sys.stdin:
                    word, local, port, remote, size = line.split()
                    port, size, moved = int(port), int(size), 0
                    if word == "serve":
                        listener = socket.create_server((local, port))
                        threading.Thread(target=serve, args=(listener,), daemon=True).start()
                    elif word == "tcp":
                        end = socket.create_connection((remote, 80), source_address=(local, port))
                        end.sendall(bytes(size))
                        moved = size
                        while moved < 2 * size: moved += len(end.recv(65536))
                        end.close()
                    elif word == "udp":
                        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        end.bind((local, port))
                        end.connect((remote, 53))
                        moved = end.send(bytes(size))
                        end.close()
                    print(moved, flush=True)
                """

            let name: String
            private let folder = FileManager.default.temporaryDirectory.appending(path: "peer-\(UUID().uuidString)")
            private let running: Program

            init(_ word: String, in namespace: NetworkNamespace) throws {
                self.name = "\(word)-\(UUID().uuidString.prefix(8))"
                // The link's name is the program's.
                try FileManager.default.createDirectory(at: self.folder, withIntermediateDirectories: true)
                let link = self.folder.appending(path: self.name).path
                let python = URL(filePath: "/usr/bin/python3").resolvingSymlinksInPath().path
                try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: python)
                let launcher = try namespace.launcher()
                self.running = try Program(launcher.program, launcher.arguments + [link, "-c", Self.program])
            }

            deinit { try? FileManager.default.removeItem(at: self.folder) }

            /// - Returns: The payload that calls sent and received.
            @discardableResult
            func tell(
                _ word: String,
                from local: String,
                _ port: UInt16 = 0,
                to remote: String = "-",
                _ size: Int = 0
            ) async throws -> UInt64 {
                try self.running.writeLine("\(word) \(local) \(port) \(remote) \(size)")
                let line = try #require(try await self.running.line(), "\(self.running.errorText)")
                return try #require(UInt64(String(decoding: line, as: UTF8.self)))
            }
        }

        /// What Python's own SQLite finds in history.
        private static func sql(_ state: String, _ sql: String) async throws -> String {
            try await Tool.sql(state + "/history.sqlite", sql)
        }

        @Test("a program reaches another network than those it has been learned with: one alert names both")
        func newNetwork() async throws {
            try await NetworkNamespace.with { namespace in
                try await Self.connectTheWorld(to: namespace)
                let (client, server) = (try Peer("cl", in: namespace), try Peer("sv", in: namespace))
                try await server.tell("serve", from: "198.18.0.1", 9_000)
                let directories = try DaemonDirectories()
                let state = directories.root.appending(path: "state").path
                let rules = """
                      - {name: fresh, match: "process:\(client.name)", new_destination: true, learn: 1h}
                      - {name: served, match: "process:\(server.name)", new_destination: true, learn: 1h}
                      - {name: long, new_destination: true, learn: 2h}
                    """
                try await AlertTests.withRules(rules, arguments: ["--state-directory", state]) { daemon, _ in
                    _ = try await daemon.snapshot()
                    try await client.tell("tcp", from: "198.51.100.7", to: "203.0.113.5", 3_000)
                    try await server.tell("tcp", from: "198.51.100.8", to: "203.0.113.6", 10)
                    let known = """
                        SELECT name, destination FROM contact JOIN series ON id = series
                        WHERE destination LIKE '203.%' OR destination LIKE '198.%'
                        """
                    let wanted = [client.name, server.name].map { "\($0) 203.0.113.0/24" }
                    var found: [String] = []
                    while !wanted.allSatisfy(found.contains) {
                        try #require(daemon.program.isRunning, "\(daemon.program.errorText)")
                        try await Task.sleep(for: .milliseconds(200))
                        found = try await Self.sql(state, known).split(separator: "\n").map(String.init).sorted()
                    }
                    #expect(found == wanted)
                    // What is learned is learned in silence.
                    #expect(try await AlertTests.report(daemon).alerts.isEmpty, "\(daemon.program.errorText)")
                }
                // An hour passes.
                _ = try await Self.sql(state, "UPDATE contact_group SET since = since - 3600")
                try await AlertTests.withRules(rules, arguments: ["--state-directory", state]) { daemon, _ in
                    _ = try await daemon.snapshot()
                    // Another address of the network that the last daemon has learned.
                    try await client.tell("tcp", from: "198.51.100.7", to: "203.0.113.99", 10)
                    try await client.tell("udp", from: "198.51.100.7", to: "203.0.113.77", 20)
                    // The server gets this from a network from which nobody has come before; and sends from its own port.
                    let moved = try await client.tell("tcp", from: "198.51.99.7", to: "192.0.2.9", 70_000)
                    try await server.tell("udp", from: "198.51.100.8", 53, to: "198.51.98.7", 30)
                    let report = try await AlertTests.wait(daemon) { !$0.alerts.isEmpty }
                    #expect(report.alerts.first?.rule == "fresh", "\(daemon.program.errorText)")
                    // What comes last: when all of it is said, all that was before has been judged. The alert may begin before
                    // the echo.
                    let last = try await server.tell("tcp", from: "198.51.100.8", to: "198.19.7.7", 50)
                    let whole = try await AlertTests.wait(daemon) { report in
                        report.alerts.contains { $0.rule == "served" && $0.bytes == last }
                    }
                    let said = whole.alerts.map {
                        "\($0.rule) \($0.kind.rawValue) \($0.process?.name ?? "") \($0.destination ?? "")"
                    }
                    #expect(
                        said.sorted() == [
                            "fresh new_destination \(client.name) 192.0.2.0/24",
                            "served new_destination \(server.name) 198.19.7.0/24",
                        ],
                        "\(daemon.program.errorText)"
                    )
                    #expect(whole.alerts.map(\.bytes).sorted() == [last, moved])
                    #expect(whole.alerts.allSatisfy { $0.process?.uid == getuid() })
                    let line = "alert fresh: \(client.name) of user \(NSUserName()) to 192.0.2.0/24 since "
                    #expect(daemon.program.errorText.contains(line), "\(daemon.program.errorText)")
                    let table = try await Program.run(
                        Machine.programs.client,
                        ["alerts", "--runtime-directory", daemon.directories.runtime.path]
                    )
                    #expect(String(decoding: table.output, as: UTF8.self).contains(" 192.0.2.0/24 "))
                }
            }
        }
    }
}
