import Foundation
import GroundTruth
import TestSupport
import Testing
import TrafficKitTestSupport
import TrafficModel

extension SystemTests {
    /// Clients over TCP that ask for much, and read nothing.
    @Suite(.needsBPF, .needs("python3", "curl"))
    struct HostileClientTests {
        private static let connections = 150

        /// Makes the daemon's answers large by many processes. Then asks, as another user, on one connection after the
        /// other, each for an answer of its own, until it has begun. Says how long all answers are.
        private static let client = """
            import encodings.idna, os, re, signal, socket, sys
            port, connections, processes = int(sys.argv[1]), int(sys.argv[2]), 2000
            ended, end = os.pipe()
            for _ in range(processes):
                if os.fork() == 0:
                    os.close(end)
                    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                        one.sendto(b"x", ("127.0.0.1", 9))
                        os.read(ended, 1)
                    os._exit(0)
            os.setgid(65534)
            os.setuid(65534)
            print("started", flush=True)
            sys.stdin.readline()
            held, length = [], 0
            for number in range(connections):
                one = socket.create_connection(("127.0.0.1", port))
                one.sendall(b"GET /v1/snapshot?filter=-none%d HTTP/1.1\\r\\nHost: 127.0.0.1\\r\\n\\r\\n" % number)
                head = b""
                while b"\\r\\n\\r\\n" not in head: head = one.recv(4096, socket.MSG_PEEK)
                length += int(re.search(rb"(?i)content-length: (\\d+)", head)[1])
                held.append(one)
            print(length, flush=True)
            sys.stdin.readline()
            """

        private static func residentBytes(_ daemon: Daemon) throws -> Int {
            let status = try String(contentsOfFile: "/proc/\(daemon.program.pid)/status", encoding: .utf8)
            let line = try #require(status.split(separator: "\n").first { $0.hasPrefix("VmRSS:") })
            return try #require(line.split(separator: " ").dropFirst().first.flatMap { Int($0) }) << 10
        }

        @Test("150 large answers that nobody reads take no memory beyond their payer's, and a stranger is answered")
        func unread() async throws {
            let target = "127.0.0.1:\(try FreePort.next())"
            try await withDaemon(arguments: ["--listen", target]) { daemon in
                let port = try #require(target.split(separator: ":").last).description
                let python = try #require(Machine.path(of: "python3"))
                let client = try Program(python, ["-c", Self.client, port, "\(Self.connections)"])
                #expect(try await client.line() == Data("started".utf8), "\(client.errorText)")
                #expect(try await eventually { try await daemon.snapshot().processes?.count ?? 0 >= 2_000 })
                let before = try Self.residentBytes(daemon)
                try client.writeLine()
                let line = try #require(try await client.line(), "\(client.errorText)")
                let length = try #require(Int(String(decoding: line, as: UTF8.self)))
                #expect(length > 120 << 20, "that would have been the memory")
                // 16 MB of answers, and what 150 connections have ready to be sent: 64 kB pieces.
                #expect(try Self.residentBytes(daemon) - before < 80 << 20)
                let answer = try await Tool.run("curl", ["-sf", "http://\(target)/v1/processes"])
                #expect(answer.output.contains("schema_version"))
                try client.writeLine()
                _ = try await client.exit()
            }
        }
    }
}
